"""Readers of answers that are errors, and of answers that can't be read. Pure."""

from addon.answers.context import AnswerContext
from addon.answers.reader import BufferingReader, EndOnlyReader
from addon.text.errors import ErrorAnswer, upstream_error
from addon.text.provider_error import MAX_READ_BYTES
from policies.usage import Usage


class ErrorAnswerReader(BufferingReader):
    """The reader of an upstream error answer. It normalizes the whole body into ``failure``."""

    def __init__(self, status: int, context: AnswerContext) -> None:
        self.status, self.context, self.body = status, context, bytearray()

    def error_so_far(self) -> ErrorAnswer | None:
        """Return the error from the status, and from the part of the body that has come."""
        return upstream_error(self.status, bytes(self.body), self.context.names, self.context.secrets)

    def feed(self, piece: bytes) -> bytes:
        """Keep ``piece``, unless the body is already longer than the part that is read of an error."""
        if len(self.body) <= MAX_READ_BYTES:
            self.body += piece
            self.buffered_bytes = len(self.body)
        return b""

    def finish(self) -> bytes:
        """Normalize the error."""
        self.failure = self.error_so_far()
        return b""


class UnreadableAnswerReader(EndOnlyReader):
    """The reader of an answer that can't be read at all. Its failure is known before its first byte."""

    usage: Usage | None = None
    finish_reason: str | None = None
    relayed_text_chars = buffered_bytes = 0
    has_finished = is_done = False

    def __init__(self, failure: ErrorAnswer) -> None:
        self.failure: ErrorAnswer | None = failure

    def error_so_far(self) -> ErrorAnswer | None:
        """Return the failure that was known from the start."""
        return self.failure

    def feed(self, _piece: bytes) -> bytes:
        """Return nothing."""
        return b""

    def finish(self) -> bytes:
        """Return nothing."""
        return b""
