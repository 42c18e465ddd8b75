"""Readers around another reader: one decompresses, one guards against faults and leaked secrets. Pure."""

import logging
import zlib
from collections.abc import Callable, Sequence

from addon.answers.reader import AnswerReader
from addon.text.errors import INTERNAL_ERROR, ErrorAnswer, unreadable_answer
from addon.text.masking import is_unmistakable, mask_secret

log = logging.getLogger("tollgate.relay")


class _Wrapper:
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


class InflatingReader(_Wrapper):
    """The reader of a gzip or deflate answer. Some providers compress although ``identity`` was asked for."""

    MAX_PIECE_BYTES = 4 << 20

    def __init__(self, inner: AnswerReader) -> None:
        super().__init__(inner)
        self.inflator = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def feed(self, piece: bytes) -> bytes:
        """Inflate at most ``MAX_PIECE_BYTES`` for each piece, so that no small answer becomes a huge one."""
        if self.own_failure:
            return b""
        try:
            plain = self.inflator.decompress(piece, self.MAX_PIECE_BYTES)
        except zlib.error:
            self.own_failure = self.error_so_far() or unreadable_answer("its compression is malformed.")
            return b""
        if self.inflator.unconsumed_tail:
            self.own_failure = self.error_so_far() or unreadable_answer(
                "it is too large when it is decompressed."
            )
        return self.inner.feed(plain) if plain else b""

    def finish(self) -> bytes:
        """End the inner reader, unless the compression broke."""
        return b"" if self.own_failure else self.inner.finish()


class GuardedReader(_Wrapper):
    """A reader that can't raise and never shows a secret.

    An exception of our own becomes a failure of the answer. A provider may show the key of the call in any field, or
    between events. So each of ``secrets`` is masked in all that this reader returns. The inner reader returns whole
    events, so no secret is split between two pieces.
    """

    def __init__(self, inner: AnswerReader, secrets: Sequence[str] = ()) -> None:
        super().__init__(inner)
        self.masked_secrets = tuple(filter(is_unmistakable, secrets))

    def feed(self, piece: bytes) -> bytes:
        """Do as the inner reader; an exception becomes ``failure``."""
        return self._guard(self.inner.feed, piece)

    def finish(self) -> bytes:
        """Do as the inner reader; an exception becomes ``failure``."""
        return self._guard(self.inner.finish)

    def flush_pending(self) -> bytes:
        """Do as the inner reader; an exception becomes ``failure``."""
        return self._guard(self.inner.flush_pending)

    def _guard(self, read: Callable[..., bytes], *piece: bytes) -> bytes:
        if self.own_failure:
            return b""
        try:
            shown = read(*piece)
        except Exception:
            log.exception("an answer could not be read")
            self.own_failure = INTERNAL_ERROR
            return b""
        for secret in self.masked_secrets:
            shown = mask_secret(shown, secret)
        return shown
