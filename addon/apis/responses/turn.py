"""One turn of the assistant: reasoning, a message and calls, which are one chat message. Pure.

Source: docs/decisions/reasoning-goes-back-to-its-provider.md.
"""

from collections.abc import Mapping
from typing import Any, Final

from addon.apis.chat_body import Losses
from addon.apis.reasoning_details import Details, number_details
from addon.apis.thought_signatures import restore_signatures
from addon.dialects.opaque_reasoning import is_sealed, unseal, with_shown_text
from policies.large_text import whole_text

_PLAIN: Final = frozenset({"type", "text", "summary", "index"})
"""The members of a detail that is only text, of a provider that has no details of its own."""


class AssistantTurn:
    """What the items of one turn have said so far. ``content`` is None until there is a message."""

    def __init__(self, losses: Losses) -> None:
        self.content: str | list[dict[str, Any]] | None = None
        self._losses = losses
        self._calls: list[dict[str, Any]] = []
        self._details: list[Details] = []
        self._texts: list[str] = []

    @property
    def has_calls(self) -> bool:
        """Whether the turn calls a tool."""
        return bool(self._calls)

    def call(self, call: dict[str, Any]) -> None:
        """Add a call of a tool."""
        self._calls.append(call)

    def reason(self, item: Mapping[str, Any]) -> None:
        """Add a reasoning item. What only another provider can read, and its summary, is left out."""
        sealed: str = item.get("encrypted_content") or ""
        text = _texts(item.get("content")) or _texts(item.get("summary"))
        if not sealed:
            self._texts.append(text)
        elif is_sealed(sealed) and (details := unseal(sealed)) is not None:
            self._details.append(with_shown_text(details, text))
            self._texts.append(_text_of(details) or text)
        else:
            self._losses.drop("input.reasoning")

    def message(self) -> dict[str, Any] | None:
        """Return the chat message, None where there is neither content nor a call: many vendors refuse such a one."""
        if not self.content and not self._calls:
            if any(self._details) or any(self._texts):
                self._losses.drop("input.reasoning")
            return None
        made: dict[str, Any] = {
            "role": "assistant",
            "content": self.content or None,
        }
        if self._calls:
            made["tool_calls"] = self._calls
        self._add_reasoning(made)
        return made

    def _add_reasoning(self, made: dict[str, Any]) -> None:
        """Add what the provider wants back that made the reasoning: its details, or else the text alone."""
        own = [[detail for detail in details if not detail.keys() <= _PLAIN] for details in self._details]
        if details := restore_signatures(made, list(number_details(own))):
            made["reasoning_details"] = details
        if not any(own) and (text := "".join(self._texts)):
            made["reasoning_content"] = text


def _texts(parts: object) -> str:
    found = (part.get("text") for part in parts) if isinstance(parts, list) else ()
    return "".join([whole_text(text) for text in found if isinstance(text, str)])


def _text_of(details: Details) -> str:
    """Return the reasoning that people can read."""
    found = (detail.get("text") or detail.get("summary") for detail in details)
    return "".join([text for text in found if text])
