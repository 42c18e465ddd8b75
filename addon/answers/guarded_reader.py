"""The outermost reader of an answer: it guards against faults of the others and leaked secrets. Pure."""

import logging
from collections.abc import Callable, Sequence

from addon.answers.reader import AnswerReader, ReaderWrapper
from addon.text.errors import ErrorAnswer, unreadable_answer
from addon.text.masking import is_unmistakable, mask_secret

log = logging.getLogger("tollgate.relay")

_UNREADABLE = unreadable_answer("it is malformed.")


class GuardedReader(ReaderWrapper):
    """A reader that can't raise and never shows a secret.

    An answer whose reader raises is unreadable: a failure of its provider, logged once. So it may have a fallback. A
    provider may show the key of the call in any field, or
    between events. So each of ``secrets`` is masked in all that this reader returns. The inner reader returns whole
    events, so no secret is split between two pieces.
    """

    def __init__(self, inner: AnswerReader, secrets: Sequence[str] = ()) -> None:
        self.inner = inner
        self._secrets = [(secret, secret.encode()) for secret in secrets if is_unmistakable(secret)]
        self._is_broken = False

    def feed(self, piece: bytes) -> bytes:
        """Do as the inner reader; an exception becomes ``failure``."""
        # Each chunk of a stream passes here, so a plain one needs no function but the inner reader's.
        try:
            shown = b"" if self._is_broken else self.inner.feed(piece)
            for _, text in self._secrets:
                if text in shown or b"\\" in shown:  # Without a backslash, no character is escaped.
                    return self._masked(shown)
        except Exception:  # noqa: BLE001  (it is logged there)
            return self._break_off()
        return shown

    def finish(self) -> bytes:
        """Do as the inner reader; an exception becomes ``failure``."""
        return self._guard(self.inner.finish)

    def flush_pending(self) -> bytes:
        """Do as the inner reader; an exception becomes ``failure``."""
        return self._guard(self.inner.flush_pending)

    def error_so_far(self) -> ErrorAnswer | None:
        """Do as the inner reader; an exception becomes ``failure``."""
        try:
            return self.inner.failure if self._is_broken else self.inner.error_so_far()
        except Exception:  # noqa: BLE001  (it is logged there)
            self._break_off()
            return self.inner.failure

    def _guard(self, read: Callable[[], bytes]) -> bytes:
        try:
            return b"" if self._is_broken else self._masked(read())
        except Exception:  # noqa: BLE001  (it is logged there)
            return self._break_off()

    def _masked(self, shown: bytes) -> bytes:
        for secret, _ in self._secrets:
            shown = mask_secret(shown, secret)
        return shown

    def _break_off(self) -> bytes:
        """Note the exception that is handled now. The reader shows nothing from now on."""
        log.exception("the reader of an answer failed", extra={"event": "reader failed"})
        self._is_broken = True
        self.inner.failure = _UNREADABLE
        return b""
