"""Readers that write what a chat client would get in the shape of another API. Pure."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from addon.answers.bounds import parse_bounded
from addon.answers.reader import AnswerReader, ReaderWrapper
from addon.apis.writer import StreamWriter, WriterContext
from policies.usage import Usage

type WriteWhole = Callable[[dict[str, Any], Usage | None, WriterContext], bytes]
"""From a whole chat completion, its usage and the facts of the call to the body of the API's answer."""

_DATA: Final = b"data:"
_CHUNK: Final = b"data: {"
_CHUNK_START: Final = len(_CHUNK) - 1
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_DONE: Final = b"[DONE]"


class TranslatedStreamReader(ReaderWrapper):
    """The reader of a streamed answer. The inner reader's events are those of the contract; comments stay."""

    def __init__(self, inner: AnswerReader, writer: StreamWriter) -> None:
        self.inner, self._writer = inner, writer

    @property
    def events_sent(self) -> int:
        """How many events the client got."""
        return self._writer.events_sent

    def feed(self, piece: bytes) -> bytes:
        """Return the events for what the inner reader makes of ``piece``."""
        return self._translate(self.inner.feed(piece))

    def finish(self) -> bytes:
        """Return the events for the last bytes of the inner reader."""
        return self._translate(self.inner.finish())

    def flush_pending(self) -> bytes:
        """Return the events for the bytes that waited."""
        return self._translate(self.inner.flush_pending())

    def _translate(self, events: bytes) -> bytes:
        if not events:
            return b""
        if events.startswith(_CHUNK) and events.find(b"\n\n") == len(events) - 2:  # Nearly every piece.
            try:
                chunk = _decode(events[_CHUNK_START:-2])
            except ValueError:  # ``parse_bounded`` reads more.
                pass
            else:
                return self._writer.write(chunk)
        return b"".join([self._write(event) for event in events.split(b"\n\n") if event])

    def _write(self, event: bytes) -> bytes:
        if not event.startswith(_DATA):
            return event + b"\n\n"
        payload = event[len(_DATA) :].lstrip()
        if payload == _DONE:
            return self._writer.finish(self.inner.usage)
        chunk = parse_bounded(payload)
        if not isinstance(chunk, dict):
            raise ValueError("an event is no chunk")
        return self._writer.write(chunk)


class TranslatedWholeReader(ReaderWrapper):
    """The reader of a whole answer."""

    events_sent = 0

    def __init__(self, inner: AnswerReader, write: WriteWhole, context: WriterContext) -> None:
        self.inner, self._write, self._context = inner, write, context

    def feed(self, piece: bytes) -> bytes:
        """Do as the inner reader, which returns nothing before the end."""
        return self.inner.feed(piece)

    def finish(self) -> bytes:
        """Return the answer, written anew."""
        if not (body := self.inner.finish()):
            return b""
        completion = parse_bounded(body)
        if not isinstance(completion, dict):
            raise ValueError("the answer is no completion")
        return self._write(completion, self.inner.usage, self._context)
