"""Google's native generateContent shape. Pure. Source: the vendor's API reference, "Generating content"."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from addon.answers.context import Source
from addon.answers.readers import Relay, WholeRelay
from addon.answers.stream import StreamRelay
from addon.dialects.endpoint import json_request
from addon.dialects.gemini.answer import Stream, to_completion
from addon.dialects.gemini.request import CONFIG_NAMES, OTHER_NAMES, to_request
from addon.dialects.http_request import UpstreamRequest
from addon.dialects.left_out import left_out
from addon.dialects.translated import TranslatedChunks, translated
from policies.model import Attempt

# What bears a field that has another name there.
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

_read = translated(to_completion)


def request(attempt: Attempt, body: dict[str, Any]) -> UpstreamRequest:
    """``POST {base_url}/models/{model}:generateContent``, or ``:streamGenerateContent``."""
    streams = bool(body.get("stream"))
    method = "streamGenerateContent?alt=sse" if streams else "generateContent"
    native = to_request(body, attempt.model.family)
    sent = {"model", "messages", "stream", *native, *native.get("generationConfig", ())}
    unsent = left_out(body, sent, _CARRIERS, _MESSAGE_FIELDS)
    return json_request(attempt, f"/models/{{model}}:{method}", native, streams=streams, left_out=unsent)


def stream(source: Source) -> Relay:
    """Events of one GenerateContentResponse each, without a word that says that nothing follows."""
    translator = Stream(source.model_slug, source.created_s, source.answer_id)
    return StreamRelay(TranslatedChunks(translator, source), source)


def whole(source: Source, max_bytes: int) -> Relay:
    """One GenerateContentResponse."""
    return WholeRelay(_read, source, max_bytes)
