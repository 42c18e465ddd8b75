"""Anthropic's native Messages shape. Pure. Source: the vendor's API reference, "Messages"."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.answers.stream import StreamedAnswerReader
from addon.answers.whole import WholeAnswerReader
from addon.dialects.anthropic.answer import AnthropicStream, read_priced, to_completion
from addon.dialects.anthropic.request import has_blank_stop, to_request
from addon.dialects.endpoint import json_request
from addon.dialects.http_request import UpstreamRequest
from addon.dialects.translated_answers import TranslatedChunks, translating_reader
from addon.dialects.unsent_fields import unsent_fields
from policies.route import Target

_read = translating_reader(to_completion, read_priced)
# The native names of fields that are called differently there.
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


def request(target: Target, body: dict[str, Any]) -> UpstreamRequest:
    """Build ``POST {base_url}/messages``."""
    family = target.model.family
    native = to_request(body, family, keeps_late_system=family.late_system_role == "system")
    unsent = unsent_fields(body, _sent(native, body), _CARRIERS, _MESSAGE_FIELDS)
    streams = bool(body.get("stream"))
    return json_request(target, "/messages", native, streams=streams, headers=_VERSION, unsent_fields=unsent)


def _sent(native: dict[str, Any], body: dict[str, Any]) -> set[str]:
    """Return the names in a request, including those of ``output_config`` and ``tool_choice``.

    JSON mode has no name there: it becomes a sentence of the system prompt. Stop sequences of which one is left out
    don't count as sent.
    """
    asks_for_json = body.get("response_format", {}).get("type", "text") != "text"
    names = {*native, *native.get("output_config", ()), *native.get("tool_choice", ())}
    if has_blank_stop(body):
        names.discard("stop_sequences")
    return names | {"response_format"} if asks_for_json else names


def stream(context: AnswerContext) -> AnswerReader:
    """Build the reader of typed events, the last of which is ``message_stop``."""
    translator = AnthropicStream(context.model_slug, context.created_s, context.answer_id)
    return StreamedAnswerReader(TranslatedChunks(translator, context), context)


def whole(context: AnswerContext, max_bytes: int) -> AnswerReader:
    """Build the reader of one message."""
    return WholeAnswerReader(_read, context, max_bytes)
