"""Of a ``message`` that stands in a stream, only what it adds to what was told is new. Pure.

Perplexity repeats the whole answer so far as ``message`` beside each ``delta``. The delta is what counts; where none
has any text, the difference between one message and the next is made.
"""

from typing import Any

_TEXTS = ("content", "reasoning_content", "reasoning")


class Cumulative:
    """What one choice of a stream has told by now."""

    def __init__(self) -> None:
        self.by_delta = False
        """Deltas have told text, so messages add none."""
        self._told: dict[str, str] = {}
        self._told_calls = False

    def delta_of(self, delta: object, message: dict[str, Any]) -> dict[str, Any]:
        """Return the delta of a chunk that has a ``message``."""
        made = delta if isinstance(delta, dict) else {}
        if self.by_delta or any(made.get(name) for name in (*_TEXTS, "tool_calls")):
            self.by_delta = True
            return made
        return {**made, **self._difference(message)}

    def _difference(self, message: dict[str, Any]) -> dict[str, Any]:
        new = {key: self._new(key, value) for key, value in message.items()}
        if message.get("tool_calls"):
            if self._told_calls:
                del new["tool_calls"]
            self._told_calls = True
        return new

    def _new(self, key: str, value: object) -> object:
        """Return what a text adds: one that doesn't go on from what was told is new as a whole."""
        if key not in _TEXTS or not isinstance(value, str):
            return value
        told = self._told.get(key, "")
        if told.startswith(value):
            return ""
        self._told[key] = value
        return value[len(told) :] if value.startswith(told) else value
