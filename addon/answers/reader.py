"""The protocol of answer readers, and the base classes of readers. Pure."""

from typing import Protocol

from addon.answers.context import AnswerContext
from addon.text.errors import ErrorAnswer
from policies.model import Usage


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

    def flush_pending(self) -> bytes:
        """Return nothing."""
        return b""


class BufferingReader(EndOnlyReader):
    """The part of a reader that keeps the body to its end."""

    def __init__(self, context: AnswerContext) -> None:
        self.context = context
        self.body = bytearray()
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.relayed_text_chars = 0
        self.failure: ErrorAnswer | None = None
        self.has_finished = self.is_done = False

    @property
    def buffered_bytes(self) -> int:
        """The size of the body so far."""
        return len(self.body)


class ReaderWrapper:
    """A reader around another one. The facts are those of the inner reader; ``own_failure`` is the wrapper's."""

    def __init__(self, inner: AnswerReader) -> None:
        self.inner = inner
        self.own_failure: ErrorAnswer | None = None

    usage = property(lambda self: self.inner.usage)
    finish_reason = property(lambda self: self.inner.finish_reason)
    relayed_text_chars = property(lambda self: self.inner.relayed_text_chars)
    failure = property(lambda self: self.own_failure or self.inner.failure)
    has_finished = property(lambda self: self.inner.has_finished)
    is_done = property(lambda self: self.inner.is_done)
    is_complete = property(lambda self: self.own_failure is None and self.inner.is_complete)
    has_pending = property(lambda self: self.inner.has_pending)
    buffered_bytes = property(lambda self: self.inner.buffered_bytes)

    def flush_pending(self) -> bytes:
        """Do as the inner reader."""
        return self.inner.flush_pending()

    def error_so_far(self) -> ErrorAnswer | None:
        """Do as the inner reader."""
        return self.inner.error_so_far()
