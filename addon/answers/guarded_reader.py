"""The outermost reader of an answer: it guards against faults of the others and leaked secrets. Pure."""

import logging
from collections.abc import Callable, Sequence

from addon.answers.reader import AnswerReader, ReaderWrapper
from addon.text.errors import INTERNAL_ERROR
from addon.text.masking import is_unmistakable, mask_secret

log = logging.getLogger("tollgate.relay")


class GuardedReader(ReaderWrapper):
    """A reader that can't raise and never shows a secret.

    An exception of our own becomes a failure of the answer. A provider may show the key of the call in any field, or
    between events. So each of ``secrets`` is masked in all that this reader returns. The inner reader returns whole
    events, so no secret is split between two pieces.
    """

    def __init__(self, inner: AnswerReader, secrets: Sequence[str] = ()) -> None:
        self.inner = inner
        self._secrets = [(secret, secret.encode()) for secret in secrets if is_unmistakable(secret)]
        self._is_broken = False

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
        if self._is_broken:
            return b""
        try:
            shown = read(*piece)
        except Exception:
            log.exception("an answer could not be read")
            self._is_broken = True
            self.inner.failure = INTERNAL_ERROR
            return b""
        for secret, text in self._secrets:
            if text in shown or b"\\" in shown:  # Without a backslash, no character is escaped.
                shown = mask_secret(shown, secret)
        return shown
