"""The chat shape that native answers are translated into: whole completions and the chunks of streams. Pure.

Source: contract, "Chat completion response" and "Streaming chunk".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from policies.usage import Usage

HEAD: Final = frozenset({"id", "object", "created", "model"})
"""The members of every chunk."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity that every chunk of one answer carries. ``created_s`` is a Unix time in whole seconds."""

    id: str
    created_s: int
    model_slug: str


class StreamTranslator(Protocol):
    """One streamed answer of a provider, translated event by event.

    ``usage`` is the chat shape's usage block as far as it is known, for streams that are cut. A count that is still
    running is not part of it.
    """

    @property
    def has_finished(self) -> bool:
        """Whether the provider has said how its answer ended. A stream that closes before that was cut short."""

    is_closed: bool
    """Whether the provider has said that nothing follows."""

    @property
    def kept_chars(self) -> int:
        """The length of the content that was kept for a later chunk."""

    @property
    def usage(self) -> dict[str, Any] | None:
        """The usage block as far as it is known."""

    @property
    def priced(self) -> Usage:
        """The counts that have a price, and no place in the chat shape."""

    def read(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the chunks of one event, often none. Raises ValueError for an event that makes no sense."""

    def ignores(self, event: dict[str, Any]) -> bool:
        """Return whether to read an event again would change nothing."""

    def finish(self) -> list[dict[str, Any]]:
        """Return the chunks that are left to send when the provider's stream has ended."""


def completion(
    identity: Identity, choices: list[dict[str, Any]], usage: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a whole answer. ``choice`` makes each of ``choices``."""
    made = {
        "id": identity.id,
        "object": "chat.completion",
        "created": identity.created_s,
        "model": identity.model_slug,
        "choices": choices,
    }
    return made if usage is None else made | {"usage": usage}


def choice(message: Mapping[str, Any], finish_reason: str | None, index: int = 0) -> dict[str, Any]:
    """Return one element of a whole answer's choices."""
    return {"index": index, "message": message, "finish_reason": finish_reason}


def chunk(
    identity: Identity, delta: Mapping[str, Any], finish_reason: str | None = None, index: int = 0
) -> dict[str, Any]:
    """Return one chunk of one choice."""
    return _chunk(identity, [{"index": index, "delta": delta, "finish_reason": finish_reason}])


def usage_chunk(identity: Identity, usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chunk after those of the choices: it has the usage and no choices."""
    return _chunk(identity, []) | {"usage": usage}


def _chunk(identity: Identity, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": identity.id,
        "object": "chat.completion.chunk",
        "created": identity.created_s,
        "model": identity.model_slug,
        "choices": choices,
    }
