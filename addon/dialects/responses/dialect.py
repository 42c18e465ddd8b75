"""OpenAI's Responses shape. Pure. Source: the vendor's API reference, "Create a model response"."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.answers.stream import StreamedAnswerReader
from addon.answers.whole import WholeAnswerReader
from addon.dialects.endpoint import json_request
from addon.dialects.http_request import UpstreamRequest
from addon.dialects.responses.answer import read_priced, to_completion
from addon.dialects.responses.request import LOGPROBS, to_request
from addon.dialects.responses.stream import ResponsesStream
from addon.dialects.translated_answers import TranslatedChunks, translating_reader
from addon.dialects.unsent_fields import unsent_fields
from policies.route import Target

_read = translating_reader(to_completion, read_priced)
# The native names of fields that are called differently there.
_CARRIERS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "messages": ("input",),
        "max_tokens": ("max_output_tokens",),
        "max_completion_tokens": ("max_output_tokens",),
        "reasoning_effort": ("effort",),
        "response_format": ("format",),
        "logprobs": (LOGPROBS,),
    }
)
_MESSAGE_FIELDS: Final = frozenset(
    {"role", "content", "tool_calls", "tool_call_id", "refusal", "reasoning_details"}
)


def request(target: Target, body: dict[str, Any]) -> UpstreamRequest:
    """Build a ``POST`` to the provider's ``responses_path``, which is ``/responses`` nearly everywhere."""
    native = to_request(body, target.model.family)
    unsent = unsent_fields(body, _sent(native, body), _CARRIERS, _MESSAGE_FIELDS)
    streams = bool(body.get("stream"))
    path = target.model.provider.responses_path
    return json_request(target, path, native, streams=streams, unsent_fields=unsent)


def _sent(native: dict[str, Any], body: Mapping[str, Any]) -> set[str]:
    """Return the names in a request, including those of ``text`` and ``reasoning``.

    What only says again what is so without it (one choice, text, no logprobs) counts as sent.
    """
    names = {*native, *native.get("text", ()), *native.get("reasoning", ()), *native.get("include", ())}
    if body.get("n") == 1:
        names.add("n")
    if body.get("response_format", {}).get("type") == "text":
        names.add("format")
    return names if body.get("logprobs") else names | {LOGPROBS}


def stream(context: AnswerContext) -> AnswerReader:
    """Build the reader of typed events, of which one has the whole answer and its usage."""
    return StreamedAnswerReader(TranslatedChunks(ResponsesStream(context), context), context)


def whole(context: AnswerContext, max_bytes: int) -> AnswerReader:
    """Build the reader of one response."""
    return WholeAnswerReader(_read, context, max_bytes)
