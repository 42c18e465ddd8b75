"""Anthropic's native Messages shape. Pure. Source: the vendor's API reference, "Messages"."""

from typing import Any

from addon.dialects.anthropic_answer import Stream, to_completion
from addon.dialects.anthropic_request import to_request
from addon.dialects.translated import TranslatedChunks, translated
from addon.json_text import json_text
from addon.relay import Relay, WholeRelay
from addon.source import Source
from addon.sse import StreamRelay
from addon.upstream import UpstreamRequest
from policies.facts import Attempt

_read = translated(to_completion)


def request(attempt: Attempt, body: dict[str, Any]) -> UpstreamRequest:
    """``POST {base_url}/messages`` with the attempt's own key."""
    headers = (
        ("x-api-key", attempt.secret.get_secret_value()),
        ("anthropic-version", "2023-06-01"),
        ("content-type", "application/json"),
        ("accept", "text/event-stream" if body.get("stream") else "application/json"),
        # A compressed answer could not be read event by event.
        ("accept-encoding", "identity"),
        ("user-agent", "tollgate"),
    )
    content = json_text(to_request(body, attempt.model.family))
    return UpstreamRequest(f"{attempt.model.provider.base_url}/messages", headers, content)


def stream(source: Source) -> Relay:
    """Typed events, the last of which is ``message_stop``."""
    translator = Stream(source.model_slug, source.created_s)
    return StreamRelay(TranslatedChunks(translator, source, ends_itself=True), source)


def whole(source: Source, max_bytes: int) -> Relay:
    """One message."""
    return WholeRelay(_read, source, max_bytes)
