"""Google's native generateContent shape. Pure. Source: the vendor's API reference, "Generating content"."""

from typing import Any

from addon.dialects.gemini_answer import Stream, to_completion
from addon.dialects.gemini_request import to_request
from addon.dialects.translated import TranslatedChunks, translated
from addon.json_text import json_text
from addon.relay import Relay, WholeRelay
from addon.source import Source
from addon.sse import StreamRelay
from addon.upstream import UpstreamRequest
from policies.facts import Attempt

_read = translated(to_completion)


def request(attempt: Attempt, body: dict[str, Any]) -> UpstreamRequest:
    """``POST {base_url}/models/{model}:generateContent``, or ``:streamGenerateContent``, with the attempt's own key."""
    streams = bool(body.get("stream"))
    headers = (
        # Never in the query: URLs end in logs.
        ("x-goog-api-key", attempt.secret.get_secret_value()),
        ("content-type", "application/json"),
        ("accept", "text/event-stream" if streams else "application/json"),
        # A compressed answer could not be read event by event.
        ("accept-encoding", "identity"),
        ("user-agent", "tollgate"),
    )
    model = attempt.model
    method = "streamGenerateContent?alt=sse" if streams else "generateContent"
    url = f"{model.provider.base_url}/models/{model.upstream_model_id}:{method}"
    return UpstreamRequest(url, headers, json_text(to_request(body, model.family)))


def stream(source: Source) -> Relay:
    """Events of one GenerateContentResponse each, without a word that says that nothing follows."""
    translator = Stream(source.model_slug, source.created_s)
    return StreamRelay(TranslatedChunks(translator, source, ends_itself=False), source)


def whole(source: Source, max_bytes: int) -> Relay:
    """One GenerateContentResponse."""
    return WholeRelay(_read, source, max_bytes)
