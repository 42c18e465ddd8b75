"""Readers of upstream answers: bytes in as they come, out what may go to the client. Pure.

``sse.StreamRelay`` reads streams; here is what reads all else, and what stands around every reader.
"""

import logging
import zlib
from collections.abc import Callable, Sequence
from typing import Protocol

from addon.answers.context import Source
from addon.answers.whole import Answer
from addon.text.errors import INTERNAL, ErrorAnswer, from_upstream, upstream_garbage
from addon.text.masking import is_unmistakable, mask_secret
from addon.text.provider_error import MAX_READ_BYTES
from policies.model import Usage

log = logging.getLogger("tollgate.relay")


class Relay(Protocol):
    """Turns the bytes of one upstream answer into the bytes for the client, and reads its facts on the way.

    It never raises: what goes wrong is in ``failure``, and from then on it returns nothing.
    """

    usage: Usage | None
    finish_reason: str | None
    relayed_text_chars: int
    failure: ErrorAnswer | None
    finished: bool
    """The provider has said how its answer ended; its usage may follow."""
    done: bool
    """The client has all of it, whatever the upstream may still send."""

    @property
    def complete(self) -> bool:
        """What the upstream said is a whole answer, even if it breaks off now."""

    @property
    def holds(self) -> bool:
        """Something waits for what may follow; ``release`` ends the wait."""

    @property
    def kept_bytes(self) -> int:
        """How much of the answer ``finish`` has to read."""

    def release(self) -> bytes:
        """Return what waits."""

    def give_up(self) -> ErrorAnswer | None:
        """What the upstream had said by now that went wrong, for an answer that can't be read to its end."""

    def feed(self, piece: bytes) -> bytes:
        """Take bytes as they came from the network; return those that may go to the client now."""

    def finish(self) -> bytes:
        """The upstream ended its message; return what is left for the client."""


class _Waitless:
    """Of a reader that has nothing to send before the end of the message."""

    complete = False
    holds = False

    def release(self) -> bytes:
        """Return nothing."""
        return b""


class _Kept(_Waitless):
    """What a reader that keeps the body to its end begins with."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.body = bytearray()
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.relayed_text_chars = 0
        self.failure: ErrorAnswer | None = None
        self.finished = self.done = False

    @property
    def kept_bytes(self) -> int:
        """All of the body that came."""
        return len(self.body)


class WholeRelay(_Kept):
    """A whole JSON answer: nothing leaves before all of it is in and ``read`` has found it good."""

    def __init__(self, read: Callable[[bytes, Source], Answer], source: Source, max_bytes: int) -> None:
        super().__init__(source)
        self.read, self.max_bytes = read, max_bytes

    def give_up(self) -> ErrorAnswer | None:
        """Return None: a success that breaks off says nothing."""

    def feed(self, piece: bytes) -> bytes:
        """Keep ``piece``."""
        if self.failure is None:
            self.body += piece
            if len(self.body) > self.max_bytes:
                self.body.clear()
                self.failure = upstream_garbage("it is too large.")
        return b""

    def finish(self) -> bytes:
        """Return the rewritten answer."""
        if self.failure:
            return b""
        body = bytes(self.body)
        self.body.clear()
        answer = self.read(body, self.source)
        self.usage, self.finish_reason = answer.usage, answer.finish_reason
        self.failure = answer.failure
        self.relayed_text_chars = answer.text_chars
        self.finished = self.done = answer.failure is None
        return b"" if answer.failure else answer.body


class ErrorRelay(_Kept):
    """An upstream error answer, read to its end and then normalized into ``failure``."""

    def __init__(self, status: int, source: Source) -> None:
        super().__init__(source)
        self.status = status

    def give_up(self) -> ErrorAnswer | None:
        """Return what the status, and the body as far as it came, say."""
        return from_upstream(self.status, bytes(self.body), self.source.names, self.source.secrets)

    def feed(self, piece: bytes) -> bytes:
        """Keep ``piece``, unless the body is longer already than what is read of one."""
        if len(self.body) <= MAX_READ_BYTES:
            self.body += piece
        return b""

    def finish(self) -> bytes:
        """Normalize."""
        self.failure = self.give_up()
        return b""


class Broken(_Waitless):
    """An answer that can't be read at all: its failure is known before its first byte."""

    usage: Usage | None = None
    finish_reason: str | None = None
    relayed_text_chars = kept_bytes = 0
    finished = done = False

    def __init__(self, failure: ErrorAnswer) -> None:
        self.failure: ErrorAnswer | None = failure

    def give_up(self) -> ErrorAnswer | None:
        """Return what was known from the beginning."""
        return self.failure

    def feed(self, _piece: bytes) -> bytes:
        """Return nothing."""
        return b""

    def finish(self) -> bytes:
        """Return nothing."""
        return b""


class _Around:
    """What stands around a reader: the facts are the reader's, and ``broken`` is a failure of its own."""

    def __init__(self, inner: Relay) -> None:
        self.inner = inner
        self.broken: ErrorAnswer | None = None

    usage = property(lambda self: self.inner.usage)
    finish_reason = property(lambda self: self.inner.finish_reason)
    relayed_text_chars = property(lambda self: self.inner.relayed_text_chars)
    failure = property(lambda self: self.broken or self.inner.failure)
    finished = property(lambda self: self.inner.finished)
    done = property(lambda self: self.inner.done)
    complete = property(lambda self: self.broken is None and self.inner.complete)
    holds = property(lambda self: self.inner.holds)
    kept_bytes = property(lambda self: self.inner.kept_bytes)

    def release(self) -> bytes:
        """As the inner reader."""
        return self.inner.release()

    def give_up(self) -> ErrorAnswer | None:
        """As the inner reader."""
        return self.inner.give_up()


class Inflated(_Around):
    """A reader behind a gzip or deflate answer, which some providers send although ``identity`` was asked."""

    MAX_PIECE_BYTES = 4 << 20

    def __init__(self, inner: Relay) -> None:
        super().__init__(inner)
        self.inflator = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def feed(self, piece: bytes) -> bytes:
        """Inflate, a bounded amount for each piece read, so that no small answer becomes a huge one."""
        if self.broken:
            return b""
        try:
            plain = self.inflator.decompress(piece, self.MAX_PIECE_BYTES)
        except zlib.error:
            self.broken = self.give_up() or upstream_garbage("it is not compressed as it says.")
            return b""
        if self.inflator.unconsumed_tail:
            self.broken = self.give_up() or upstream_garbage("it inflates beyond all bounds.")
        return self.inner.feed(plain) if plain else b""

    def finish(self) -> bytes:
        """End the inner reader, unless the compression broke."""
        return b"" if self.broken else self.inner.finish()


class Guarded(_Around):
    """A reader that can't raise: a fault of ours becomes a failure of the answer, which the client is told.

    Whatever it reads, ``secrets`` are in nothing that it returns: a provider may show the key that it was called with
    in any field of an answer, or between events. The reader returns whole events, so that none is in two pieces.
    """

    def __init__(self, inner: Relay, secrets: Sequence[str] = ()) -> None:
        super().__init__(inner)
        self.unshown = tuple(filter(is_unmistakable, secrets))

    def feed(self, piece: bytes) -> bytes:
        """As the inner reader; an exception becomes ``failure``."""
        return self._guard(self.inner.feed, piece)

    def finish(self) -> bytes:
        """As the inner reader; an exception becomes ``failure``."""
        return self._guard(self.inner.finish)

    def release(self) -> bytes:
        """As the inner reader; an exception becomes ``failure``."""
        return self._guard(self.inner.release)

    def _guard(self, read: Callable[..., bytes], *piece: bytes) -> bytes:
        if self.broken:
            return b""
        try:
            shown = read(*piece)
        except Exception:
            log.exception("an answer could not be read")
            self.broken = INTERNAL
            return b""
        for secret in self.unshown:
            shown = mask_secret(shown, secret)
        return shown
