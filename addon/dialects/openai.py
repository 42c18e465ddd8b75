"""The OpenAI chat-completion shape, which most providers accept. Pure."""

from typing import Any

from addon.answers.chunks import ChatChunks
from addon.answers.context import Source
from addon.answers.readers import Relay, WholeRelay
from addon.answers.stream import StreamRelay
from addon.answers.whole import rewrite_answer
from addon.dialects.endpoint import json_request
from addon.dialects.http_request import UpstreamRequest
from policies.model import Attempt


def request(attempt: Attempt, body: dict[str, Any]) -> UpstreamRequest:
    """``POST`` to the provider's ``chat_path``, which is ``/chat/completions`` nearly everywhere."""
    return json_request(attempt, attempt.model.provider.chat_path, body, streams=bool(body.get("stream")))


def stream(source: Source) -> Relay:
    """Server-sent events whose model is rewritten."""
    return StreamRelay(ChatChunks(source), source)


def whole(source: Source, max_bytes: int) -> Relay:
    """One JSON object whose model is rewritten."""
    return WholeRelay(rewrite_answer, source, max_bytes)
