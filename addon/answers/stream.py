"""A stream is cut into events, and every event is handed to whoever knows what it says.

``StreamRelay`` is a machine: pieces of an event stream in, bytes for the client out, and the same result for every
way of cutting the stream into pieces. Framing: WHATWG HTML, "Server-sent events". Pure.
"""

import re
from typing import Any, NamedTuple, Protocol

from addon.answers.bounds import (
    MAX_EVENT_VALUES,
    TOO_MANY_CHOICES,
    BoundExceededError,
    TooManyChoicesError,
    exceeded_bound,
    parse_bounded,
)
from addon.answers.context import Source
from addon.answers.stream_frames import StreamFrames, frame
from addon.text.errors import (
    ErrorAnswer,
    from_upstream_payload,
    is_error_payload,
    stream_interrupted,
    upstream_garbage,
)
from addon.text.json_encode import json_text
from policies.model import Usage

MAX_EVENT_BYTES = 4 * 1024 * 1024
MAX_EVENT_LINES = 1_000
MAX_HELD_BYTES = 64 * 1024
DONE_EVENT = b"data: [DONE]\n\n"

_DONE = b"[DONE]"
# A line end and a blank line. A final \r ends it only once the next byte shows that it isn't half of \r\n.
_EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\n|\r\n|\r(?=[^\n]))")
_EVENT_END_MAX_BYTES = 5  # the longest such ending, with the byte looked at behind it
_DATA_LINE = re.compile(rb"(?<![^\r\n])(?:\xef\xbb\xbf)?data(?:: ?|(?=[\r\n]|\Z))([^\r\n]*)")
_ERROR_EVENT = re.compile(rb"(?<![^\r\n])(?:\xef\xbb\xbf)?event: ?error[ \t]*(?=[\r\n]|\Z)")
_COMMENT = re.compile(rb"(?<![^\r\n])(?:\xef\xbb\xbf)?(:[^\r\n]*)")
_FIELD_LINE = re.compile(rb"(?<![^\r\n])[^:\r\n]")  # any line but a comment or a blank one
_TRAILING_COMMA = re.compile(rb",\s*\]\s*\Z")
_CHOICES = frozenset({"choices", "candidates"})
_NOT_JSON = object()

_CUT = stream_interrupted()
_UNREADABLE = upstream_garbage("an event of its stream is not a JSON object.")
_NOT_UNDERSTOOD = upstream_garbage("an event of its stream makes no sense.")
_TOO_LARGE = upstream_garbage("an event of its stream is too large.")
_TOO_MANY_LINES = upstream_garbage(f"an event of its stream has more than {MAX_EVENT_LINES} lines.")
_NO_STREAM = upstream_garbage("it is not an event stream.")
_NO_COMPLETION = upstream_garbage("its stream holds no completion.")


class Event(NamedTuple):
    """One event as it came, its JSON on one line, and where that begins in it; -1 where it came in several."""

    text: bytes
    payload: bytes
    start: int


class Chunks(Protocol):
    """What one dialect makes of the events of one stream, and what it has read in them."""

    finish_reason: str | None
    text_chars: int
    """The length of all answer, reasoning and tool arguments, for estimates."""

    @property
    def usage(self) -> Usage | None:
        """What was counted, as far as it is known."""

    frames: StreamFrames
    """What the client gets of them."""

    @property
    def complete(self) -> bool:
        """The provider has said how each choice that it began ended."""

    @property
    def all_complete(self) -> bool:
        """As ``complete``, and there are as many choices as were asked for."""

    @property
    def closed(self) -> bool:
        """The provider has said that nothing follows, in another way than with [DONE]."""

    def fill(self, event: bytes) -> bytes | None:
        """Return what the client gets for an event that is like an earlier one, or None: then it must be read."""

    def read(self, event: Event, chunk: dict[str, Any]) -> bytes:
        """Return what the client gets for one event. Raises ValueError where it can't be understood."""

    def last(self) -> bytes:
        """Return what is left to be said, now that the provider's answer is complete."""


class StreamRelay:
    """One streamed answer on its way to the client.

    Nothing leaves before the first event that proves that the upstream answers; comments before it are
    held back, at most ``MAX_HELD_BYTES``. Once ``failure`` is set or ``done`` is true, nothing more leaves.
    """

    def __init__(self, chunks: Chunks, source: Source, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.failure: ErrorAnswer | None = None
        self.done = False  # [DONE] has been relayed, or added
        self._chunks = chunks
        self._source = source
        self._max_event_bytes = max_event_bytes
        self._pending = bytearray()
        self._scanned = 0
        self._has_cr = False
        self._held: bytearray | None = bytearray()  # None as soon as the first event is out

    holds = property(lambda self: self._chunks.frames.holds)
    kept_bytes = 0
    usage = property(lambda self: self._chunks.usage)
    finish_reason = property(lambda self: self._chunks.finish_reason)
    finished = property(lambda self: self.done or self._chunks.complete)
    relayed_text_chars = property(lambda self: self._chunks.text_chars)

    def feed(self, piece: bytes) -> bytes:
        """Take the next bytes of the upstream's answer and return those that are ready for the client."""
        if self._is_over:
            return b""
        self._pending += piece
        self._has_cr = self._has_cr or b"\r" in piece
        relayed: list[bytes] = []
        start = 0
        while not self._is_over and (end := self._event_end(max(start, self._scanned))):
            relayed.append(self._relay(bytes(self._pending[start:end])))
            start = end
        del self._pending[:start]
        self._scanned = max(0, len(self._pending) - _EVENT_END_MAX_BYTES)
        if self._is_over:
            self._pending.clear()
        elif len(self._pending) > self._max_event_bytes:
            relayed.append(self._fail(_TOO_LARGE))
        return b"".join(relayed)

    def finish(self) -> bytes:
        """Return the last bytes for the client, now that the upstream has ended its message cleanly.

        Sets ``done`` or ``failure``: a stream without [DONE] that did not say how it ended was cut short.
        """
        if self._is_over:
            return b""
        rest = bytes(self._pending)
        self._pending.clear()
        if not _DATA_LINE.search(rest):
            return self._end(rest)
        relayed = self._relay(rest, at_end=True)
        return relayed if self._is_over else relayed + self._end(b"")

    @property
    def complete(self) -> bool:
        """Every choice that was asked for has its ``finish_reason``: what breaks off then was an answer."""
        return not self._is_over and self._chunks.all_complete

    def release(self) -> bytes:
        """Return what waits for the usage, for it has waited long enough."""
        sent = self._chunks.frames.release()
        return self._release(sent) if sent else b""

    def give_up(self) -> ErrorAnswer | None:
        """Return None: a stream that breaks off says nothing."""

    @property
    def _is_over(self) -> bool:
        return self.done or self.failure is not None

    def _event_end(self, start: int) -> int:
        """Return where the event ends whose end is looked for from ``start`` on, or 0 while it isn't in."""
        if not self._has_cr:  # Nearly every stream, and this is several times as fast.
            at = self._pending.find(b"\n\n", start)
            return at + 2 if at >= 0 else 0
        found = _EVENT_END.search(self._pending, start)
        return found.end() if found else 0

    def _relay(self, text: bytes, *, at_end: bool = False) -> bytes:
        """Return what the client gets for one event; at the end of the stream an unreadable one was cut."""
        if len(text) > self._max_event_bytes:
            return self._fail(_TOO_LARGE)
        if (filled := self._chunks.fill(text)) is not None:
            return self._release(filled)
        if max(text.count(b"\n"), text.count(b"\r")) > MAX_EVENT_LINES + 1:  # one of them ends the blank line
            return self._fail(_TOO_MANY_LINES)
        lines = _data_lines(text)
        if b"event:" in text and _ERROR_EVENT.search(text):
            value = _parse(b"\n".join(lines))
            is_read = value is not _NOT_JSON and not isinstance(value, ErrorAnswer)
            return self._fail(self._upstream_failure(value if is_read else None))
        if not lines:
            return self._hold(text)
        return self._relay_data(text, lines, at_end=at_end)

    def _relay_data(self, text: bytes, lines: list[bytes], *, at_end: bool) -> bytes:
        # A line end is only ever between the tokens of JSON, where a blank means the same.
        payload = b" ".join(lines).strip()
        if payload == _DONE:
            return self._close()
        if not payload:
            return b""  # It says nothing, and clients that expect JSON in every event would fail on it.
        chunk = _parse(payload)
        if isinstance(chunk, ErrorAnswer):
            return self._fail(chunk)
        if chunk is _NOT_JSON and len(lines) > 1:
            return self._relay_each(lines, at_end=at_end)
        if chunk is not _NOT_JSON and is_error_payload(chunk):
            return self._fail(self._upstream_failure(chunk))
        if not isinstance(chunk, dict):
            return self._broken(at_end=at_end)
        if failure := exceeded_bound(chunk):
            return self._fail(failure)
        return self._read(Event(text, payload, text.find(payload) if len(lines) == 1 else -1), chunk)

    def _relay_each(self, lines: list[bytes], *, at_end: bool) -> bytes:
        """Some servers leave out the blank line between two events: then each data line is its own event."""
        whole = (self._relay_data(frame(line), [line], at_end=at_end) for line in lines if not self._is_over)
        return b"".join(whole)

    def _broken(self, *, at_end: bool) -> bytes:
        if not at_end:
            return self._fail(_UNREADABLE)
        return self._close() if self._chunks.complete else self._fail(_CUT)

    def _read(self, event: Event, chunk: dict[str, Any]) -> bytes:
        try:
            relayed = self._chunks.read(event, chunk)
        except TooManyChoicesError:
            return self._fail(TOO_MANY_CHOICES)
        except ValueError:
            return self._fail(_NOT_UNDERSTOOD)
        relayed = self._release(relayed) if relayed else b""
        return relayed + self._close() if self._chunks.closed else relayed

    def _hold(self, event: bytes) -> bytes:
        """An event without data, such as a comment, proves nothing: it waits for the first one that does."""
        if self._held is None:
            return _comments(event)
        if len(self._held) + len(event) <= MAX_HELD_BYTES:
            self._held += event
        return b""

    def _release(self, event: bytes) -> bytes:
        if not self._held:
            self._held = None
            return event
        held, self._held = bytes(self._held), None
        return _comments(held) + event

    def _end(self, rest: bytes) -> bytes:
        """End a stream that hasn't said [DONE]; ``rest`` has no data line and no blank line behind it."""
        if self._held is not None and not self._chunks.frames.began:
            return self._read_body(bytes(self._held) + rest)
        if not self._chunks.complete:
            return self._fail(_CUT)
        return self._close()

    def _close(self) -> bytes:
        if not self._chunks.frames.began:
            return self._fail(_NO_COMPLETION)
        self.done = True
        return self._release(self._chunks.last() + DONE_EVENT)

    def _read_body(self, body: bytes) -> bytes:
        """Read an answer that is no event stream: mostly an error, whatever its label.

        Some servers send the chunks as one JSON array (Gemini's without ``alt=sse``), or a whole answer.
        """
        payload = _parse(_TRAILING_COMMA.sub(b"]", body.removeprefix(b"\xef\xbb\xbf")))
        if isinstance(payload, ErrorAnswer):
            return self._fail(payload)
        if payload is not _NOT_JSON and is_error_payload(payload):
            return self._fail(self._upstream_failure(payload))
        chunks = payload if isinstance(payload, list) else [payload]
        if not chunks or not all(isinstance(chunk, dict) and _CHOICES & chunk.keys() for chunk in chunks):
            return self._fail(_NO_STREAM if _FIELD_LINE.search(body) else _CUT)
        self._held = bytearray()
        relayed = b"".join([self._relay(frame(json_text(chunk))) for chunk in chunks if not self._is_over])
        return relayed if self._is_over else relayed + self._end(b"")

    def _upstream_failure(self, payload: object) -> ErrorAnswer:
        return from_upstream_payload(payload, names=self._source.names, secrets=self._source.secrets)

    def _fail(self, failure: ErrorAnswer) -> bytes:
        """Fail. What waits goes out where the client has a part of the answer already."""
        self.failure = failure
        self._pending.clear()
        return self._chunks.frames.release() if self._held is None else b""


def _parse(payload: bytes) -> object:
    """Return the JSON value, ``_NOT_JSON``, or the failure of one that exceeds a bound."""
    try:
        return parse_bounded(payload, MAX_EVENT_VALUES)
    except BoundExceededError as error:
        return error.failure
    except ValueError:
        return _NOT_JSON


def _comments(text: bytes) -> bytes:
    """Return the comments of ``text``, each as an event of its own."""
    return b"".join([comment + b"\n\n" for comment in _COMMENT.findall(text)])


def _data_lines(event: bytes) -> list[bytes]:
    """Return the values of the ``data`` lines of an event."""
    end = len(event) - 2
    if event.startswith(b"data: ") and event.find(b"\n") == end and b"\r" not in event:
        return [event[6:end]]  # Nearly every event looks so, and this is many times as fast.
    return _DATA_LINE.findall(event)
