"""The ``reasoning_details`` of a chat answer, put together from the deltas of a stream. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from addon.answers.assembly import Assembly
from addon.apis.thought_signatures import signature_details

MAX_BYTES: Final = 4 * 1024 * 1024
"""The most that is kept of the details of one item or block, about as JSON. Far less fits into one sealed text."""


def details_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the details of a chat message, or of a delta, with Gemini's signatures among them.

    Servers may send anything in their place; what is no object is left out.
    """
    given = message.get("reasoning_details")
    details = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    return details + signature_details(message) if _may_be_signed(message) else details


class Details:
    """Details that come in pieces: those of one type with one number are one detail. Too many are none.

    OpenRouter has a text and its signature under one number (recorded).
    """

    def __init__(self) -> None:
        self._is_too_long = False
        self._forget()

    def add(self, pieces: Sequence[Any]) -> None:
        """Add the details of the next delta."""
        if self._is_too_long or not pieces:
            return
        self.is_empty = False
        delta = {"reasoning_details": [self._numbered(piece) for piece in pieces]}
        self._assembly.add({"choices": [{"index": 0, "delta": delta}]})
        if self._assembly.bytes > MAX_BYTES:
            self._forget()
            self._is_too_long = True

    def take(self) -> list[Any]:
        """Return the whole details, and forget them."""
        if self.is_empty:
            return []
        found: list[Any] = self._assembly.answer()["choices"][0]["message"]["reasoning_details"]
        numbers = [number for number, _ in self._places]
        self._forget()
        return [
            {**detail, "index": numbers[detail["index"]]} if _is_numbered(detail) else detail
            for detail in found
        ]

    def _forget(self) -> None:
        self._assembly = Assembly()
        self._places: dict[tuple[int, str], int] = {}
        """The place of each number and type."""
        self.is_empty = True

    def _numbered(self, piece: Any) -> Any:
        """Return a piece with the place of its detail as its number."""
        if not _is_numbered(piece):
            return piece
        place = (piece["index"], str(piece.get("type")))
        return {**piece, "index": self._places.setdefault(place, len(self._places))}


def _may_be_signed(message: Mapping[str, Any]) -> bool:
    return "extra_content" in message or "tool_calls" in message


def _is_numbered(detail: Any) -> bool:
    return isinstance(detail, dict) and type(detail.get("index")) is int
