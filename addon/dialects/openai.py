"""The OpenAI chat-completion shape, which most providers accept. Pure."""

from typing import Any

from addon.answer import rewrite_answer
from addon.chat_chunks import ChatChunks
from addon.json_text import json_text
from addon.relay import Relay, WholeRelay
from addon.source import Source
from addon.sse import StreamRelay
from addon.upstream import UpstreamRequest
from policies.facts import Attempt


def request(attempt: Attempt, body: dict[str, Any]) -> UpstreamRequest:
    """``POST {base_url}/chat/completions`` with the attempt's own key."""
    content = json_text(body)
    headers = (
        ("authorization", f"Bearer {attempt.secret.get_secret_value()}"),
        ("content-type", "application/json"),
        ("accept", "text/event-stream" if body.get("stream") else "application/json"),
        # A compressed answer could not be read event by event.
        ("accept-encoding", "identity"),
        ("user-agent", "tollgate"),
    )
    return UpstreamRequest(f"{attempt.model.provider.base_url}/chat/completions", headers, content)


def stream(source: Source) -> Relay:
    """Server-sent events whose model is rewritten."""
    return StreamRelay(ChatChunks(source), source)


def whole(source: Source, max_bytes: int) -> Relay:
    """One JSON object whose model is rewritten."""
    return WholeRelay(rewrite_answer, source, max_bytes)
