"""The chat body that a request of another API becomes, and what it can't carry. Pure."""

from typing import Any

from msgspec import Struct

from addon.apis.field_names import NO_SOURCES, Sources
from policies.refusal import Refusal


class ChatBody(Struct, frozen=True, gc=False):
    """A valid chat body without nulls.

    | field | is |
    |---|---|
    | ``untranslated`` | the names of what was left out, in the words of the API; for ``X-Gateway-Dropped`` |
    | ``obstacle`` | the path and the reason of what may not be left out: the call can't go through chat |
    | ``sources`` | for each message, and for each tool, the path of what it is from |
    """

    body: dict[str, Any]
    untranslated: tuple[str, ...] = ()
    obstacle: tuple[str, str] | None = None
    sources: Sources = NO_SOURCES


class Losses:
    """Collects what a chat body can't carry while it is made, and the ``sources`` of its messages and tools."""

    def __init__(self) -> None:
        self.sources: dict[str, list[str]] = {"messages": [], "tools": []}
        self._names: dict[str, None] = {}
        self._obstacle: tuple[str, str] | None = None

    def drop(self, name: str) -> None:
        """Note the name of something that is left out, such as ``messages.citations``."""
        self._names[name] = None

    def refuse(self, field: str, reason: str) -> None:
        """Note that a call with ``field``, a path such as ``messages.0.content.1``, may not go through chat."""
        if self._obstacle is None:
            self._obstacle = (field, reason)

    def made(self, body: dict[str, Any]) -> ChatBody:
        """Return ``body`` with what was noted."""
        return ChatBody(body, tuple(self._names), self._obstacle, self.sources)


def check_obstacle(obstacle: tuple[str, str] | None) -> None:
    """Raise Refusal ``validation_failed``, naming the field, where a call may not go through chat."""
    if obstacle is not None:
        field, reason = obstacle
        raise Refusal("validation_failed", f"{field}: {reason}", field)
