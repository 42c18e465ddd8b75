"""The ``reasoning_details`` of a chat stream, put together from its deltas. Pure."""

from collections.abc import Sequence
from typing import Any

from addon.answers.assembly import Assembly


class Details:
    """Details that come in pieces: those with one number are one detail."""

    def __init__(self) -> None:
        self._assembly = Assembly()
        self.is_empty = True

    def add(self, pieces: Sequence[Any]) -> None:
        """Add the details of the next delta."""
        self.is_empty = self.is_empty and not pieces
        self._assembly.add({"choices": [{"index": 0, "delta": {"reasoning_details": list(pieces)}}]})

    def take(self) -> list[Any]:
        """Return the whole details, and forget them."""
        if self.is_empty:
            return []
        found: list[Any] = self._assembly.answer()["choices"][0]["message"]["reasoning_details"]
        self._assembly, self.is_empty = Assembly(), True
        return found
