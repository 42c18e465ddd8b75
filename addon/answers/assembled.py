"""The reader of a whole answer that its provider sends as a stream. Pure.

Some providers answer long completions as streams only. The stream is read like any other. What a client of it would get
is put together here, and is then read like any whole answer.
"""

from collections.abc import Callable

from msgspec.structs import replace

from addon.answers.assembly import Assembly
from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader, EndOnlyReader
from addon.answers.stream_body import NOT_UNDERSTOOD, parse_event
from addon.answers.whole import rewrite_answer
from addon.text.errors import ErrorAnswer, unreadable_answer
from addon.text.json_encode import encode_json
from policies.usage import Usage

_DATA = b"data: {"
_TOO_LARGE = unreadable_answer("it is too large.")


class AssembledAnswerReader(EndOnlyReader):
    """The reader of a whole answer that is read by what ``stream`` makes. It sends nothing before the end.

    As with any whole answer, its facts are known at its end: what broke off before is a failed attempt, and costs
    nothing.
    """

    usage: Usage | None = None
    finish_reason: str | None = None
    relayed_text_chars = 0
    failure: ErrorAnswer | None = None
    has_finished = is_done = False

    def __init__(
        self, stream: Callable[[AnswerContext], AnswerReader], context: AnswerContext, max_bytes: int
    ) -> None:
        # A usage in a chunk of its own comes last, and so is the latest of several, as the ledger has it.
        self._stream = stream(replace(context, include_usage=True))
        self._context, self._max_bytes = context, max_bytes
        self._assembly = Assembly()
        self._is_written = False

    @property
    def is_complete(self) -> bool:  # type: ignore[override]
        """Whether the stream is complete: a break now loses nothing."""
        return self.failure is None and self._stream.is_complete

    @property
    def buffered_bytes(self) -> int:
        """How many bytes ``finish`` has to write."""
        return self._assembly.bytes

    def error_so_far(self) -> ErrorAnswer | None:
        """Do as the reader of the stream."""
        return self._stream.error_so_far()

    def feed(self, piece: bytes) -> bytes:
        """Add the chunks in ``piece``."""
        if not (self.failure or self.is_done):
            self._add(self._stream.feed(piece))
        return b""

    def finish(self) -> bytes:
        """Return the answer."""
        if not (self.failure or self.is_done):
            self._add(self._stream.finish())
        if self.failure or self._is_written:
            return b""
        self._is_written = True
        assembly, self._assembly = self._assembly, Assembly()
        answer = rewrite_answer(encode_json(assembly.answer()), self._context)
        if answer.failure:
            self._fail(answer.failure)
        return answer.body

    def _add(self, events: bytes) -> None:
        """Add the chunks in whole events of the stream, and note its end."""
        for event in events.split(b"\n\n"):
            if event.startswith(_DATA):
                chunk = parse_event(event[len(_DATA) - 1 :])
                if not isinstance(chunk, dict):
                    self._fail(NOT_UNDERSTOOD)
                    return
                self._assembly.add(chunk)
        if self._stream.failure:
            self._fail(self._stream.failure)
        elif self._assembly.bytes > self._max_bytes:
            self._fail(_TOO_LARGE)
        elif self._stream.is_done:
            self._note_end()

    def _note_end(self) -> None:
        stream = self._stream
        self.usage, self.finish_reason = stream.usage, stream.finish_reason
        self.relayed_text_chars = stream.relayed_text_chars
        self.has_finished = self.is_done = True

    def _fail(self, failure: ErrorAnswer) -> None:
        self.failure = failure
        self._assembly = Assembly()
        self.usage, self.finish_reason, self.relayed_text_chars = None, None, 0
        self.has_finished = self.is_done = False
