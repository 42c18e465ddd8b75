"""Google's native generateContent shape. Pure. Source: the vendor's API reference, "Generating content"."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.answers.stream import StreamedAnswerReader
from addon.answers.whole import WholeAnswerReader
from addon.dialects.endpoint import json_request
from addon.dialects.gemini.answer import GeminiStream, to_completion
from addon.dialects.gemini.request import CONFIG_NAMES, OTHER_NAMES, to_request
from addon.dialects.gemini.usage import read_priced
from addon.dialects.http_request import UpstreamRequest
from addon.dialects.translated_answers import TranslatedChunks, translating_reader
from addon.dialects.unsent_fields import unsent_fields
from policies.route import Target

# The native names of fields that are called differently there.
_CARRIERS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        **{ours: (theirs,) for ours, theirs in (CONFIG_NAMES | OTHER_NAMES).items()},
        "stop": ("stopSequences",),
        "logprobs": ("responseLogprobs",),
        "top_logprobs": ("logprobs",),
        "reasoning_effort": ("thinkingConfig",),
        "thinking_config": ("thinkingConfig",),
        "response_format": ("responseMimeType",),
        "tool_choice": ("toolConfig",),
    }
)
_MESSAGE_FIELDS: Final = frozenset(
    {"role", "content", "tool_calls", "tool_call_id", "reasoning_content", "extra_content"}
)

_read = translating_reader(to_completion, read_priced)


def request(target: Target, body: dict[str, Any]) -> UpstreamRequest:
    """Build ``POST {base_url}/models/{model}:generateContent``, or ``:streamGenerateContent``."""
    streams = bool(body.get("stream"))
    method = "streamGenerateContent?alt=sse" if streams else "generateContent"
    native = to_request(body, target.model.family)
    sent = {"model", "messages", "stream", *native, *native.get("generationConfig", ())}
    unsent = unsent_fields(body, sent, _CARRIERS, _MESSAGE_FIELDS)
    return json_request(target, f"/models/{{model}}:{method}", native, streams=streams, unsent_fields=unsent)


def stream(context: AnswerContext) -> AnswerReader:
    """Build the reader of events of one GenerateContentResponse each. No event says that nothing follows."""
    translator = GeminiStream(context.model_slug, context.created_s, context.answer_id)
    return StreamedAnswerReader(TranslatedChunks(translator, context), context)


def whole(context: AnswerContext, max_bytes: int) -> AnswerReader:
    """Build the reader of one GenerateContentResponse."""
    return WholeAnswerReader(_read, context, max_bytes)
