"""Google's native generateContent shape. Pure. Source: the vendor's API reference, "Generating content"."""

from typing import Any

from addon.dialects.endpoint import json_request
from addon.dialects.gemini_answer import Stream, to_completion
from addon.dialects.gemini_request import to_request
from addon.dialects.translated import TranslatedChunks, translated
from addon.relay import Relay, WholeRelay
from addon.source import Source
from addon.sse import StreamRelay
from addon.upstream import UpstreamRequest
from policies.facts import Attempt

_read = translated(to_completion)


def request(attempt: Attempt, body: dict[str, Any]) -> UpstreamRequest:
    """``POST {base_url}/models/{model}:generateContent``, or ``:streamGenerateContent``."""
    streams = bool(body.get("stream"))
    method = "streamGenerateContent?alt=sse" if streams else "generateContent"
    native = to_request(body, attempt.model.family)
    return json_request(attempt, f"/models/{{model}}:{method}", native, streams=streams)


def stream(source: Source) -> Relay:
    """Events of one GenerateContentResponse each, without a word that says that nothing follows."""
    translator = Stream(source.model_slug, source.created_s)
    return StreamRelay(TranslatedChunks(translator, source, ends_itself=False), source)


def whole(source: Source, max_bytes: int) -> Relay:
    """One GenerateContentResponse."""
    return WholeRelay(_read, source, max_bytes)
