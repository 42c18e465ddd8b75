"""The reader of a compressed answer: it decompresses what the reader inside it reads. Pure."""

import zlib

from addon.answers.reader import AnswerReader, ReaderWrapper
from addon.text.errors import ErrorAnswer, unreadable_answer


class InflatingReader(ReaderWrapper):
    """The reader of a gzip or deflate answer. Some providers compress although ``identity`` was asked for."""

    MAX_PIECE_BYTES = 4 << 20

    def __init__(self, inner: AnswerReader) -> None:
        self.inner = inner
        self.inflator = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._is_broken = False

    def feed(self, piece: bytes) -> bytes:
        """Inflate at most ``MAX_PIECE_BYTES`` for each piece, so that no small answer becomes a huge one."""
        if self._is_broken:
            return b""
        try:
            plain = self.inflator.decompress(piece, self.MAX_PIECE_BYTES)
        except zlib.error:
            self._break(self._failure("its compression is malformed."))
            return b""
        if not self.inflator.unconsumed_tail:
            return self.inner.feed(plain) if plain else b""
        failure = self._failure("it is too large when it is decompressed.")
        shown = self.inner.feed(plain)
        self._break(failure)
        return shown

    def finish(self) -> bytes:
        """End the inner reader, unless the compression broke."""
        return b"" if self._is_broken else self.inner.finish()

    def _failure(self, reason: str) -> ErrorAnswer:
        return self.error_so_far() or unreadable_answer(reason)

    def _break(self, failure: ErrorAnswer) -> None:
        self._is_broken = True
        self.inner.failure = failure
