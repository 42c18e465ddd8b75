"""The rule for a cumulative ``message`` in a stream: only the text that is new is sent. Pure.

Perplexity repeats the whole answer so far as ``message`` next to each ``delta``. The delta counts. When no delta has
any text, the difference between one message and the next is the delta.
"""

from typing import Any

_TEXTS = ("content", "reasoning_content", "reasoning")


class CumulativeMessage:
    """The message of one choice of a stream, as far as it was sent."""

    def __init__(self) -> None:
        self.has_delta_text = False
        """Deltas carried text, so messages add none."""
        self._sent: dict[str, str] = {}
        self._sent_calls = False

    def delta_of(self, delta: object, message: dict[str, Any]) -> dict[str, Any]:
        """Return the delta of a chunk that has a ``message``."""
        made = delta if isinstance(delta, dict) else {}
        if self.has_delta_text or any(made.get(name) for name in (*_TEXTS, "tool_calls")):
            self.has_delta_text = True
            return made
        return {**made, **self._difference(message)}

    def _difference(self, message: dict[str, Any]) -> dict[str, Any]:
        new = {key: self._new_part(key, value) for key, value in message.items()}
        if message.get("tool_calls"):
            if self._sent_calls:
                del new["tool_calls"]
            self._sent_calls = True
        return new

    def _new_part(self, key: str, value: object) -> object:
        """Return the part of a text that was not sent. A text that does not continue the one sent is all new."""
        if key not in _TEXTS or not isinstance(value, str):
            return value
        sent = self._sent.get(key, "")
        if sent.startswith(value):
            return ""
        self._sent[key] = value
        return value[len(sent) :] if value.startswith(sent) else value
