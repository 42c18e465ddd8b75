"""What one delta of a chat stream holds, in the words of the Responses API. Pure."""

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
            found = _logprobs(known.get("content")) if kind == "output_text" else None
            yield TextPiece(kind, text, found)


def reasoning_kind(details: Sequence[Any]) -> str:
    """Return the type of the parts that show reasoning: a summary only where its provider calls it so."""
    is_summary = any(
        isinstance(detail, Mapping) and detail.get("type") == "reasoning.summary" for detail in details
    )
    return "summary_text" if is_summary else "reasoning_text"


def annotation_of(annotation: object) -> dict[str, Any] | None:
    """Return an annotation in this API's shape, which is flat; None for a kind that it does not have.

    Source: OpenAI, "Create chat completion", annotations; OpenRouter, "Web search".
    """
    if not isinstance(annotation, Mapping) or annotation.get("type") != "url_citation":
        return None
    given = annotation.get("url_citation")
    found = given if isinstance(given, Mapping) else annotation
    if not isinstance(url := found.get("url"), str):
        return None
    places = {name: found.get(name) for name in ("start_index", "end_index")}
    return {
        "type": "url_citation",
        **{name: place if isinstance(place, int) else 0 for name, place in places.items()},
        "title": str(found.get("title") or ""),
        "url": url,
    }


def picture_of(image: Any) -> str:
    """Return the base64 of a picture, or its URL where it has another one than a data URL."""
    url = str(image["image_url"]["url"])
    return url.partition(";base64,")[2] or url


def call_piece(call: Mapping[str, Any]) -> tuple[int, str, str, str]:
    """Return the number of a call, its id, its name and a piece of its arguments; empty for those that lack."""
    body = call.get("function") or call.get("custom") or {}
    texts = (call.get("id"), body.get("name"), body.get("arguments") or body.get("input"))
    call_id, name, piece = (text if isinstance(text, str) else "" for text in texts)
    return call["index"], call_id, name, piece


def _logprobs(given: object) -> list[dict[str, Any]] | None:
    if not isinstance(given, list):
        return None
    return [_logprob(one) for one in given if isinstance(one, Mapping)] or None


def _logprob(one: Mapping[str, Any]) -> dict[str, Any]:
    top = [{**_token(other)} for other in one.get("top_logprobs") or () if isinstance(other, Mapping)]
    return {**_token(one), "top_logprobs": top}


def _token(one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "token": one.get("token") or "",
        "bytes": one.get("bytes") or [],
        "logprob": one.get("logprob") or 0,
    }
