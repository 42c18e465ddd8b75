"""``Chunks``: the chunks that one dialect makes of the events of a stream. Pure."""

from typing import Any, Protocol

import msgspec

from addon.answers.chunk_template import Filled
from policies.usage import Usage


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event: its text, its JSON on one line, and the offset of the JSON in the text.

    The offset is -1 when the JSON came in several lines.
    """

    text: bytes
    payload: bytes
    start: int


class Placement(Protocol):
    """What waits among the chunks of a stream; see ``UsagePlacement``, which lets the last one wait for the usage."""

    @property
    def has_begun(self) -> bool:
        """Whether a part of the answer was seen."""

    @property
    def has_pending(self) -> bool:
        """Whether something waits for what may follow."""

    def flush_pending(self) -> bytes:
        """Return what waits, because it has waited long enough."""


class Chunks(Protocol):
    """The chunks that one dialect makes of the events of one stream, and the facts that it reads in them."""

    finish_reason: str | None
    text_chars: int
    """The length of all answer, reasoning and tool arguments, for estimates."""

    @property
    def kept_chars(self) -> int:
        """The length of the content that was kept for a later chunk: it is no silence."""

    @property
    def events_sent(self) -> int:
        """How many events the client got, where an API numbers them; else 0."""

    @property
    def usage(self) -> Usage | None:
        """The counts that are known so far."""

    @property
    def placement(self) -> Placement:
        """The chunks as the client gets them."""

    end: bytes
    """What the client gets after the last chunk."""

    @property
    def is_complete(self) -> bool:
        """Whether the provider has said how each choice that it began ended."""

    @property
    def has_all_choices(self) -> bool:
        """Whether the answer is complete and has as many choices as were asked for."""

    @property
    def is_closed(self) -> bool:
        """Whether the provider has said, in another way than with [DONE], that nothing follows."""

    def fill(self, events: bytes, at: int, max_bytes: int) -> Filled | None:
        """Return what the client gets for ``events`` from ``at`` on, up to one that must be read.

        Return None when that is the first. An event of more than ``max_bytes`` must be read.
        """

    def ignores(self, chunk: dict[str, Any]) -> bool:
        """Return whether an event that gave the client nothing may be left unread when it comes again."""

    def only_sets(self, chunk: dict[str, Any]) -> bool:
        """Return whether of several such events that gave the client nothing, the last of each counts."""

    def read(self, event: Event, chunk: dict[str, Any]) -> bytes:
        """Return what the client gets for one event.

        Raises ValueError when it can't be understood, and ``FailedStreamError`` when it reports a failure.
        """

    def finish(self) -> bytes:
        """Return what is left to send when the provider's answer is complete.

        Raises ValueError when it is none; ``FailedStreamError`` says why.
        """
