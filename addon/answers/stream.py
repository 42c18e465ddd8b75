"""The reader of a streamed answer: it checks each event, and a dialect interprets it. Pure."""

import re
from operator import attrgetter
from typing import Any

from addon.answers.bounds import (
    MAX_EVENT_VALUES,
    TOO_MANY_CHOICES,
    BoundExceededError,
    TooManyChoicesError,
    exceeded_bound,
    finite_logprobs,
    parse_bounded,
)
from addon.answers.context import AnswerContext
from addon.answers.silence import MAX_SILENT_BYTES, Silence
from addon.answers.sse import (
    DONE_EVENT,
    MAX_EVENT_LINES,
    EventSplitter,
    comments,
    count_lines,
    data_lines,
    find_comments_end,
    frame,
    has_data,
    has_field,
    is_error_event,
    only_data_line,
    separate_comments,
)
from addon.answers.stream_chunks import Chunks, Event
from addon.text.errors import (
    ErrorAnswer,
    is_error_payload,
    stream_interrupted,
    unreadable_answer,
    upstream_error_in_success,
)
from addon.text.json_encode import encode_json

MAX_EVENT_BYTES = 4 * 1024 * 1024
MAX_HELD_BYTES = 64 * 1024

_DONE = b"[DONE]"
_TRAILING_COMMA = re.compile(rb",\s*\]\s*\Z")
_CHOICES = frozenset({"choices", "candidates"})
_NOT_JSON = object()

_CUT = stream_interrupted()
_UNREADABLE = unreadable_answer("an event of its stream is not a JSON object.")
_NOT_UNDERSTOOD = unreadable_answer("an event of its stream is malformed.")
_TOO_LARGE = unreadable_answer("an event of its stream is too large.")
_TOO_MANY_LINES = unreadable_answer(f"an event of its stream has more than {MAX_EVENT_LINES} lines.")
_SILENT = unreadable_answer(f"its stream went on for {MAX_SILENT_BYTES >> 20} MiB without content.")
_NO_STREAM = unreadable_answer("it is not an event stream.")
_NO_COMPLETION = unreadable_answer("its stream has no completion.")


class StreamedAnswerReader:
    """One streamed answer on its way to the client.

    Nothing is sent before the first event that proves that the upstream answers. Comments before it are held, at most
    ``MAX_HELD_BYTES``. Nothing is sent once ``failure`` is set or ``is_done`` is true.
    """

    def __init__(
        self, chunks: Chunks, context: AnswerContext, max_event_bytes: int = MAX_EVENT_BYTES
    ) -> None:
        self.failure: ErrorAnswer | None = None
        self.is_done = False  # [DONE] has been relayed, or added
        self._chunks = chunks
        self._context = context
        self._max_event_bytes = max_event_bytes
        self._splitter = EventSplitter()
        self._held: bytearray | None = bytearray()  # None as soon as the first event is out
        self._silence = Silence()

    has_pending = property(attrgetter("_chunks.placement.has_pending"))
    buffered_bytes = 0
    usage = property(attrgetter("_chunks.usage"))
    finish_reason = property(attrgetter("_chunks.finish_reason"))
    has_finished = property(lambda self: self.is_done or self._chunks.is_complete)
    relayed_text_chars = property(attrgetter("_chunks.text_chars"))

    def feed(self, piece: bytes) -> bytes:
        """Take the next bytes of the upstream's answer. Return those that are ready for the client."""
        if self.is_done or self.failure is not None:
            return b""
        splitter = self._splitter
        if splitter.is_between_events and (filled := self._chunks.fill(piece, 0, self._max_event_bytes)):
            self._silence.bytes = 0
            if filled.end == len(piece):
                return filled.relayed
            return filled.relayed + self._relay_events(splitter.add(piece[filled.end :]))
        chars, pending_bytes = self._chunks.text_chars, splitter.pending_bytes
        relayed = self._relay_events(splitter.add(piece))
        if self._is_over or self._chunks.text_chars > chars:
            self._silence.bytes = 0
        elif self._silence.is_too_long(pending_bytes + len(piece) - splitter.pending_bytes):
            # An answer that is complete loses nothing.
            relayed += self._close() if self.is_complete else self._fail(_SILENT)
        return relayed

    def _relay_events(self, events: bytes) -> bytes:
        """Relay ``events``, which are whole."""
        relayed: list[bytes] = []
        at, find, silent = 0, events.find, self._silence.events
        while not self._is_over:
            end = find(b"\n\n", at) + 2
            while events[at:end] in silent:
                at, end = end, find(b"\n\n", end) + 2
            if at == len(events):
                break
            if filled := self._chunks.fill(events, at, self._max_event_bytes):
                relayed.append(filled.relayed)
                at = filled.end
            elif (
                comments_end := find_comments_end(events, at)
            ) > at and comments_end - at <= self._max_event_bytes:
                relayed.append(self._relay_comments(events[at:comments_end]))
                at = comments_end
            else:
                relayed.append(self._relay(events[at:end]))
                at = end
        if self._is_over:
            self._splitter.clear()
        elif self._splitter.pending_bytes > self._max_event_bytes:
            relayed.append(self._fail(_TOO_LARGE))
        return b"".join(relayed)

    def finish(self) -> bytes:
        """Return the last bytes for the client, after the upstream has ended its message cleanly.

        Sets ``is_done`` or ``failure``. A stream is cut short when it has neither [DONE] nor the end of every choice.
        """
        if self._is_over:
            return b""
        rest = self._splitter.rest()
        if not has_data(rest):
            return self._end(rest)
        relayed = self._relay(rest, at_end=True)
        return relayed if self._is_over else relayed + self._end(b"")

    @property
    def is_complete(self) -> bool:
        """Whether every choice that was asked for has its ``finish_reason``: a break now loses nothing."""
        return not self._is_over and self._chunks.has_all_choices

    def flush_pending(self) -> bytes:
        """Return the chunk that waits for the usage, because it has waited long enough."""
        sent = self._chunks.placement.flush_pending()
        return self._release(sent) if sent else b""

    def error_so_far(self) -> ErrorAnswer | None:
        """Return None: the first part of a stream reports no error."""

    @property
    def _is_over(self) -> bool:
        return self.is_done or self.failure is not None

    def _relay(self, text: bytes, *, at_end: bool = False) -> bytes:
        """Return the client's bytes for one event. At the end, an unreadable event is treated as cut off."""
        if len(text) > self._max_event_bytes:
            return self._fail(_TOO_LARGE)
        if (line := only_data_line(text)) is not None:
            return self._relay_data(text, [line], at_end=at_end)
        if count_lines(text) > MAX_EVENT_LINES:
            return self._fail(_TOO_MANY_LINES)
        lines = data_lines(text)
        if is_error_event(text):
            value = _parse(b"\n".join(lines))
            is_read = value is not _NOT_JSON and not isinstance(value, ErrorAnswer)
            return self._fail(self._upstream_failure(value if is_read else None))
        if not lines:
            return self._hold(text)
        return self._relay_data(text, lines, at_end=at_end)

    def _relay_data(self, text: bytes, lines: list[bytes], *, at_end: bool) -> bytes:
        # In JSON a line end can only be between tokens, so a space can replace it.
        payload = b" ".join(lines).strip()
        if payload == _DONE:
            return self._close()
        if not payload:
            return self._silence.add(
                text
            )  # An empty event: clients that expect JSON in every event would fail on it.
        chunk = _parse(payload)
        if chunk is _NOT_JSON and (finite := finite_logprobs(payload)) != payload:
            payload, chunk = finite, _parse(finite)
        if isinstance(chunk, ErrorAnswer):
            return self._fail(chunk)
        if chunk is _NOT_JSON and len(lines) > 1:
            return self._relay_each(lines, at_end=at_end)
        if chunk is not _NOT_JSON and is_error_payload(chunk):
            return self._fail(self._upstream_failure(chunk))
        if not isinstance(chunk, dict):
            return self._handle_unreadable(at_end=at_end)
        if failure := exceeded_bound(chunk):
            return self._fail(failure)
        return self._read(Event(text, payload, text.find(payload) if len(lines) == 1 else -1), chunk)

    def _relay_each(self, lines: list[bytes], *, at_end: bool) -> bytes:
        """Relay each data line as an event: some servers leave out the blank line between two events."""
        whole = (self._relay_data(frame(line), [line], at_end=at_end) for line in lines if not self._is_over)
        return b"".join(whole)

    def _handle_unreadable(self, *, at_end: bool) -> bytes:
        if not at_end:
            return self._fail(_UNREADABLE)
        return self._close() if self._chunks.is_complete else self._fail(_CUT)

    def _read(self, event: Event, chunk: dict[str, Any]) -> bytes:
        try:
            relayed = self._chunks.read(event, chunk)
        except TooManyChoicesError:
            return self._fail(TOO_MANY_CHOICES)
        except ValueError:
            return self._fail(_NOT_UNDERSTOOD)
        if relayed and self._held is not None:
            relayed = self._release(relayed)
        elif not relayed and self._chunks.ignores(chunk):
            self._silence.add(event.text)
        return relayed + self._close() if self._chunks.is_closed else relayed

    def _relay_comments(self, events: bytes) -> bytes:
        """Relay events of comments alone, or hold as many as there is room for."""
        if self._held is None:
            return separate_comments(events)
        room = MAX_HELD_BYTES - len(self._held)
        end = events.rfind(b"\n\n", 0, room)
        if end >= 0:
            self._held += events[: end + 2]
        return b""

    def _hold(self, event: bytes) -> bytes:
        """Hold an event without data, such as a comment, until an event with data proves that the upstream answers."""
        if self._held is None:
            return comments(event) or self._silence.add(event)
        if event.startswith(b"event:"):
            self._silence.add(event)
        if len(self._held) + len(event) <= MAX_HELD_BYTES:
            self._held += event
        return b""

    def _release(self, event: bytes) -> bytes:
        """Return ``event``, after the comments that were held for it."""
        if not self._held:
            self._held = None
            return event
        held, self._held = bytes(self._held), None
        return comments(held) + event

    def _end(self, rest: bytes) -> bytes:
        """End a stream without [DONE]. ``rest`` has no data line, and no blank line at its end."""
        if self._held is not None and not self._chunks.placement.has_begun:
            return self._read_body(bytes(self._held) + rest)
        if not self._chunks.is_complete:
            return self._fail(_CUT)
        return self._close()

    def _close(self) -> bytes:
        if not self._chunks.placement.has_begun:
            return self._fail(_NO_COMPLETION)
        try:
            last = self._chunks.finish()
        except ValueError:
            return self._fail(_NOT_UNDERSTOOD)
        self.is_done = True
        return self._release(last + DONE_EVENT)

    def _read_body(self, body: bytes) -> bytes:
        """Read an answer that is not an event stream, whatever its content type. Mostly it is an error.

        Some servers send the chunks as one JSON array (Gemini without ``alt=sse``), or a whole answer.
        """
        payload = _parse(finite_logprobs(_TRAILING_COMMA.sub(b"]", body.removeprefix(b"\xef\xbb\xbf"))))
        if isinstance(payload, ErrorAnswer):
            return self._fail(payload)
        if payload is not _NOT_JSON and is_error_payload(payload):
            return self._fail(self._upstream_failure(payload))
        chunks = payload if isinstance(payload, list) else [payload]
        if not chunks or not all(isinstance(chunk, dict) and _CHOICES & chunk.keys() for chunk in chunks):
            return self._fail(_NO_STREAM if has_field(body) else _CUT)
        self._held = bytearray()
        try:
            events = [frame(encode_json(chunk)) for chunk in chunks]
        except ValueError:
            return self._fail(_NOT_UNDERSTOOD)
        relayed = b"".join([self._relay(event) for event in events if not self._is_over])
        return relayed if self._is_over else relayed + self._end(b"")

    def _upstream_failure(self, payload: object) -> ErrorAnswer:
        return upstream_error_in_success(payload, names=self._context.names, secrets=self._context.secrets)

    def _fail(self, failure: ErrorAnswer) -> bytes:
        """Set the failure. Return the pending chunk if the client already has a part of the answer."""
        self.failure = failure
        self._splitter.clear()
        return self._chunks.placement.flush_pending() if self._held is None else b""


def _parse(payload: bytes) -> object:
    """Return the JSON value, ``_NOT_JSON``, or the failure of a value that exceeds a bound."""
    try:
        return parse_bounded(payload, MAX_EVENT_VALUES)
    except BoundExceededError as error:
        return error.failure
    except ValueError:
        return _NOT_JSON
