"""What one delta of a chat stream holds, in the words of the Responses API. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct


class TextPiece(Struct, frozen=True, gc=False):
    """A piece of a message's text. ``kind`` is ``output_text`` or ``refusal``."""

    kind: str
    text: str
    logprobs: list[dict[str, Any]] | None = None


def text_pieces(choice: Mapping[str, Any]) -> Iterator[TextPiece]:
    """Yield the text and the refusal of a choice, with the log-probabilities of each."""
    delta, logprobs = choice["delta"], choice.get("logprobs")
    known = logprobs if isinstance(logprobs, Mapping) else {}
    for name, kind in (("content", "output_text"), ("refusal", "refusal")):
        if (text := delta.get(name)) and isinstance(text, str):
            found = _logprobs(known) if kind == "output_text" else None
            yield TextPiece(kind, text, found)


def reasoning_kind(details: Sequence[Mapping[str, Any]]) -> str:
    """Return the type of the parts that show reasoning: a summary only where its provider calls it so."""
    is_summary = any(detail.get("type") == "reasoning.summary" for detail in details)
    return "summary_text" if is_summary else "reasoning_text"


def annotations_in(delta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the citations of a delta in this API's shape, which is flat. It has no other annotations of chat's.

    Source: OpenAI, "Create chat completion", annotations; OpenRouter, "Web search".
    """
    return [made for one in objects_in(delta, "annotations") if (made := _citation(one)) is not None]


def pictures_in(delta: Mapping[str, Any]) -> list[str]:
    """Return the base64 of each picture of a delta, or its URL where it has another one than a data URL."""
    images = [one.get("image_url") for one in objects_in(delta, "images")]
    urls = [image.get("url") for image in images if isinstance(image, Mapping)]
    return [url.partition(";base64,")[2] or url for url in urls if url and isinstance(url, str)]


def call_piece(call: Mapping[str, Any]) -> tuple[int, str, str, str]:
    """Return the number of a call, its id, its name and a piece of its arguments; empty for those that lack."""
    body = call.get("function") or call.get("custom")
    if not isinstance(body, Mapping):
        body = {}
    texts = (call.get("id"), body.get("name"), body.get("arguments") or body.get("input"))
    call_id, name, piece = (text if isinstance(text, str) else "" for text in texts)
    return call["index"], call_id, name, piece


def objects_in(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list, which may not be there, or be none."""
    listed = holder.get(name)
    return [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []


def _citation(annotation: Mapping[str, Any]) -> dict[str, Any] | None:
    given = annotation.get("url_citation")
    found = given if isinstance(given, Mapping) else annotation
    if annotation.get("type") != "url_citation" or not isinstance(url := found.get("url"), str):
        return None
    places = {name: found.get(name) for name in ("start_index", "end_index")}
    return {
        "type": "url_citation",
        **{name: place if type(place) is int else 0 for name, place in places.items()},
        "title": _text(found.get("title")),
        "url": url,
    }


def _logprobs(holder: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    found = [
        {**_token(one), "top_logprobs": [_token(other) for other in objects_in(one, "top_logprobs")]}
        for one in objects_in(holder, "content")
    ]
    return found or None


def _token(one: Mapping[str, Any]) -> dict[str, Any]:
    spelled, logprob = one.get("bytes"), one.get("logprob")
    is_spelled = isinstance(spelled, list) and all(type(byte) is int for byte in spelled)
    is_number = isinstance(logprob, int | float) and math.isfinite(logprob)
    return {
        "token": _text(one.get("token")),
        "bytes": spelled if is_spelled else [],
        "logprob": logprob if is_number else 0,
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
