"""Anthropic's native Messages shape. Pure. Source: the vendor's API reference, "Messages"."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from addon.answers.context import Source
from addon.answers.readers import Relay, WholeRelay
from addon.answers.stream import StreamRelay
from addon.dialects.anthropic.answer import Stream, to_completion
from addon.dialects.anthropic.request import to_request
from addon.dialects.endpoint import json_request
from addon.dialects.http_request import UpstreamRequest
from addon.dialects.left_out import left_out
from addon.dialects.translated import TranslatedChunks, translated
from policies.model import Attempt

_read = translated(to_completion)
# What bears a field that has another name there.
_CARRIERS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "max_completion_tokens": ("max_tokens",),
        "stop": ("stop_sequences",),
        "user": ("metadata",),
        "reasoning_effort": ("thinking", "effort"),
        "parallel_tool_calls": ("disable_parallel_tool_use",),
    }
)
_MESSAGE_FIELDS: Final = frozenset(
    {*("role", "content", "tool_calls", "tool_call_id", "refusal", "reasoning_details", "cache_control")}
)
_VERSION: Final = MappingProxyType({"anthropic-version": "2023-06-01"})


def request(attempt: Attempt, body: dict[str, Any]) -> UpstreamRequest:
    """``POST {base_url}/messages``."""
    native = to_request(body, attempt.model.family)
    streams, unsent = (
        bool(body.get("stream")),
        left_out(body, _sent(native, body), _CARRIERS, _MESSAGE_FIELDS),
    )
    return json_request(attempt, "/messages", native, streams=streams, headers=_VERSION, left_out=unsent)


def _sent(native: dict[str, Any], body: dict[str, Any]) -> set[str]:
    """Return the names in a request, those of ``output_config`` and ``tool_choice`` among them.

    JSON mode has none: it becomes a sentence of the system's.
    """
    asked = body.get("response_format", {}).get("type", "text") != "text"
    names = {*native, *native.get("output_config", ()), *native.get("tool_choice", ())}
    return names | {"response_format"} if asked else names


def stream(source: Source) -> Relay:
    """Typed events, the last of which is ``message_stop``."""
    translator = Stream(source.model_slug, source.created_s, source.answer_id)
    return StreamRelay(TranslatedChunks(translator, source), source)


def whole(source: Source, max_bytes: int) -> Relay:
    """One message."""
    return WholeRelay(_read, source, max_bytes)
