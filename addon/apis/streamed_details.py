"""The ``reasoning_details`` of a chat stream, put together from its deltas. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from addon.answers.assembly import Assembly

MAX_BYTES: Final = 4 * 1024 * 1024
"""The most that is kept of the details of one item or block, about as JSON. Far less fits into one sealed text."""


class Details:
    """Details that come in pieces: those with one number are one detail. Too many are none."""

    def __init__(self) -> None:
        self._assembly = Assembly()
        self._is_too_long = False
        self.is_empty = True

    def add(self, pieces: Sequence[Any]) -> None:
        """Add the details of the next delta."""
        if self._is_too_long or not pieces:
            return
        self.is_empty = False
        self._assembly.add({"choices": [{"index": 0, "delta": {"reasoning_details": list(pieces)}}]})
        if self._assembly.bytes > MAX_BYTES:
            self._assembly, self.is_empty, self._is_too_long = Assembly(), True, True

    def take(self) -> list[Any]:
        """Return the whole details, and forget them."""
        if self.is_empty:
            return []
        found: list[Any] = self._assembly.answer()["choices"][0]["message"]["reasoning_details"]
        self._assembly, self.is_empty = Assembly(), True
        return found
