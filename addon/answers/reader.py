"""The protocol of answer readers, and the base classes of readers. Pure."""

from operator import attrgetter
from typing import Protocol

from addon.answers.context import AnswerContext
from addon.text.errors import ErrorAnswer
from policies.usage import Usage


class AnswerReader(Protocol):
    """Turns the bytes of one upstream answer into the bytes for the client, and collects its facts.

    A reader never raises. A fault is in ``failure``; from then on the reader returns nothing.
    """

    usage: Usage | None
    finish_reason: str | None
    relayed_text_chars: int
    failure: ErrorAnswer | None
    has_finished: bool
    """The provider has said how its answer ended. The usage may still follow."""
    is_done: bool
    """The client has the whole answer, whatever the upstream may still send."""

    @property
    def events_sent(self) -> int:
        """How many events the client has, where its API numbers them; else 0."""

    @property
    def is_complete(self) -> bool:
        """Whether the answer is whole, even if the connection breaks now."""

    @property
    def has_pending(self) -> bool:
        """Whether bytes wait for something that may follow. ``flush_pending`` ends the wait."""

    @property
    def buffered_bytes(self) -> int:
        """How many bytes ``finish`` has to read."""

    def flush_pending(self) -> bytes:
        """Return the bytes that wait."""

    def error_so_far(self) -> ErrorAnswer | None:
        """Return the error that the upstream has reported so far, for an answer that breaks off."""

    def feed(self, piece: bytes) -> bytes:
        """Take bytes as they came from the network. Return those that may go to the client now."""

    def finish(self) -> bytes:
        """Take the end of the upstream's message. Return the last bytes for the client."""


class EndOnlyReader:
    """The part of a reader that sends nothing before the end of the message."""

    is_complete = False
    has_pending = False
    events_sent = 0

    def flush_pending(self) -> bytes:
        """Return nothing."""
        return b""


class BufferingReader(EndOnlyReader):
    """The part of a reader that keeps the body to its end."""

    buffered_bytes = 0
    usage: Usage | None = None
    finish_reason: str | None = None
    relayed_text_chars = 0
    failure: ErrorAnswer | None = None
    has_finished = is_done = False
    context: AnswerContext
    body: bytearray


class ReaderWrapper:
    """A reader around another one. All facts are those of the inner reader; a fault of the wrapper becomes its failure.

    The facts are asked for with every piece, so their getters are C functions.
    """

    inner: AnswerReader

    def _set_failure(self, failure: ErrorAnswer | None) -> None:
        self.inner.failure = failure

    usage = property(attrgetter("inner.usage"))
    finish_reason = property(attrgetter("inner.finish_reason"))
    relayed_text_chars = property(attrgetter("inner.relayed_text_chars"))
    failure = property(attrgetter("inner.failure"), _set_failure)
    has_finished = property(attrgetter("inner.has_finished"))
    is_done = property(attrgetter("inner.is_done"))
    is_complete = property(attrgetter("inner.is_complete"))
    has_pending = property(attrgetter("inner.has_pending"))
    buffered_bytes = property(attrgetter("inner.buffered_bytes"))
    events_sent = property(attrgetter("inner.events_sent"))

    def flush_pending(self) -> bytes:
        """Do as the inner reader."""
        return self.inner.flush_pending()

    def error_so_far(self) -> ErrorAnswer | None:
        """Do as the inner reader."""
        return self.inner.error_so_far()
