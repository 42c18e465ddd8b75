"""The reader of a compressed answer: it decompresses what the reader inside it reads. Pure."""

import zlib

from addon.answers.reader import AnswerReader, ReaderWrapper
from addon.text.errors import unreadable_answer


class InflatingReader(ReaderWrapper):
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
