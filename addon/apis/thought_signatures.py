"""Gemini's thought signatures as ``reasoning_details``, for APIs whose calls have no place for them. Pure.

The chat shape has them in ``extra_content``, as Google's own compatible endpoint. In ``reasoning_details`` they are as
OpenRouter has them: encrypted, with the id of their call. Source: Google, "Thought signatures"; OpenRouter, "Reasoning
Tokens".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

GOOGLE_FORMAT: Final = "google-gemini-v1"
"""The ``reasoning_details`` format that only Gemini understands."""

_PATH: Final = ("extra_content", "google", "thought_signature")


def signature_details(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the signatures of a chat message, or of a delta, as details: those of its calls with the call's id."""
    return list(_details(message))


def restore_signatures(message: dict[str, Any], details: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put signatures back into a chat message and its calls. Return the other details."""
    others = []
    calls = {call["id"]: call for call in message.get("tool_calls", ())}
    for detail in details:
        if detail.get("format") != GOOGLE_FORMAT or "data" not in detail:
            others.append(detail)
        elif (call_id := detail.get("id")) is None:
            message["extra_content"] = _content(detail)
        elif (call := calls.get(call_id)) is not None:
            call["extra_content"] = _content(detail)
    return others


def _details(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if signature := _signature(message):
        yield _detail(signature)
    for call in message.get("tool_calls") or ():
        if (signature := _signature(call)) and isinstance(call_id := call.get("id"), str):
            yield {**_detail(signature), "id": call_id}


def _signature(thing: object) -> str | None:
    for name in _PATH:
        thing = thing.get(name) if isinstance(thing, Mapping) else None
    return thing if isinstance(thing, str) else None


def _detail(signature: str) -> dict[str, Any]:
    return {"type": "reasoning.encrypted", "data": signature, "format": GOOGLE_FORMAT}


def _content(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {"google": {"thought_signature": detail["data"]}}
