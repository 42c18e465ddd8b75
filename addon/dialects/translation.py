"""What a translation into the chat shape is made of: whole completions and the chunks of streams. Pure.

Source: contract, "Chat completion response" and "Streaming chunk".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

HEAD: Final = frozenset({"id", "object", "created", "model"})
"""What every chunk bears."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What every chunk of one answer bears; ``created_s`` is a Unix time in whole seconds."""

    id: str
    created_s: int
    model_slug: str


class StreamTranslator(Protocol):
    """One streamed answer of a provider, translated event by event.

    ``finished`` is true once the provider has said how its answer ended; a stream that closes before that was cut
    short. ``ended``: it has said that nothing follows. ``usage`` is the chat shape's usage block as far as it is known,
    for streams that are cut: a count that is still running is not among it.
    """

    @property
    def finished(self) -> bool:
        """See above."""

    ended: bool
    usage: dict[str, Any] | None

    def read(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the chunks that one event makes, often none. Raises ValueError for what can't be understood."""

    def last(self) -> list[dict[str, Any]]:
        """Return the chunks that are left to be sent once the provider's stream has ended."""


def completion(
    identity: Identity, choices: list[dict[str, Any]], usage: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a whole answer; ``choices`` are made by ``choice``."""
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
    """Return the chunk after the last choice's: no choices, and what the answer used."""
    return _chunk(identity, []) | {"usage": usage}


def _chunk(identity: Identity, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": identity.id,
        "object": "chat.completion.chunk",
        "created": identity.created_s,
        "model": identity.model_slug,
        "choices": choices,
    }
