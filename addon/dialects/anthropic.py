"""Anthropic's native Messages shape. Pure. Source: the vendor's API reference, "Messages"."""

from types import MappingProxyType
from typing import Any, Final

from addon.dialects.anthropic_answer import Stream, to_completion
from addon.dialects.anthropic_request import to_request
from addon.dialects.endpoint import json_request
from addon.dialects.translated import TranslatedChunks, translated
from addon.relay import Relay, WholeRelay
from addon.source import Source
from addon.sse import StreamRelay
from addon.upstream import UpstreamRequest
from policies.facts import Attempt

_read = translated(to_completion)
_VERSION: Final = MappingProxyType({"anthropic-version": "2023-06-01"})


def request(attempt: Attempt, body: dict[str, Any]) -> UpstreamRequest:
    """``POST {base_url}/messages``."""
    native = to_request(body, attempt.model.family)
    return json_request(attempt, "/messages", native, streams=bool(body.get("stream")), headers=_VERSION)


def stream(source: Source) -> Relay:
    """Typed events, the last of which is ``message_stop``."""
    translator = Stream(source.model_slug, source.created_s)
    return StreamRelay(TranslatedChunks(translator, source, ends_itself=True), source)


def whole(source: Source, max_bytes: int) -> Relay:
    """One message."""
    return WholeRelay(_read, source, max_bytes)
