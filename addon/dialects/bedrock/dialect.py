"""Amazon Bedrock's Converse shape. Pure. Source: the vendor's API reference, "Converse" and "ConverseStream"."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.answers.stream import StreamedAnswerReader
from addon.answers.whole import WholeAnswerReader
from addon.dialects.anthropic.request import has_blank_stop
from addon.dialects.bedrock.answer import BedrockStream, read_priced, to_completion
from addon.dialects.bedrock.event_stream import EventStreamReader
from addon.dialects.bedrock.request import INFERENCE_NAMES, to_request
from addon.dialects.endpoint import json_request
from addon.dialects.http_request import UpstreamRequest
from addon.dialects.translated_answers import TranslatedChunks, translating_reader
from addon.dialects.unsent_fields import unsent_fields
from addon.text.urls import path_segment
from policies.route import Target

_read = translating_reader(to_completion, read_priced)
# The native names of fields that are called differently there.
_CARRIERS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        **{ours: (theirs,) for ours, theirs in INFERENCE_NAMES.items()},
        "max_completion_tokens": ("maxTokens",),
        "stop": ("stopSequences",),
        "tool_choice": ("toolChoice",),
        "reasoning_effort": ("reasoning_effort", "thinking", "output_config"),
        "response_format": ("outputConfig",),
    }
)
_MESSAGE_FIELDS: Final = frozenset(
    {*("role", "content", "tool_calls", "tool_call_id", "refusal", "reasoning_details", "cache_control")}
)
_EVENT_STREAM: Final = "application/vnd.amazon.eventstream"


def request(target: Target, body: dict[str, Any]) -> UpstreamRequest:
    """Build ``POST {base_url}/model/{model}/converse``, or ``/converse-stream``."""
    streams = bool(body.get("stream"))
    native = to_request(body, target.model.family)
    unsent = unsent_fields(body, _sent(native, body), _CARRIERS, _MESSAGE_FIELDS)
    method = "converse-stream" if streams else "converse"
    path = f"/model/{path_segment(target.model.upstream_model_id)}/{method}"
    accept = _EVENT_STREAM if streams else None
    return json_request(target, path, native, streams=streams, accept=accept, unsent_fields=unsent)


def _sent(native: dict[str, Any], body: dict[str, Any]) -> set[str]:
    """Return the names in a request at any place.

    JSON mode has no name there: it becomes a sentence of the system prompt. The model and the wish for a stream are in
    the path. Stop sequences of which one is left out don't count as sent.
    """
    asks_for_json = body.get("response_format", {}).get("type", "text") != "text"
    holders = ("inferenceConfig", "toolConfig", "additionalModelRequestFields")
    names = {"model", "stream", *native, *(name for holder in holders for name in native.get(holder, ()))}
    if has_blank_stop(body):
        names.discard(INFERENCE_NAMES["stop_sequences"])
    return names | {"response_format", "outputConfig"} if asks_for_json else names


def stream(context: AnswerContext) -> AnswerReader:
    """Build the reader of binary frames, each of which holds one event."""
    translator = BedrockStream(context.model_slug, context.created_s, context.answer_id)
    return EventStreamReader(StreamedAnswerReader(TranslatedChunks(translator, context), context))


def whole(context: AnswerContext, max_bytes: int) -> AnswerReader:
    """Build the reader of one answer."""
    return WholeAnswerReader(_read, context, max_bytes)
