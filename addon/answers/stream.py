"""The reader of a streamed answer: it checks each event, and a dialect interprets it. Pure."""

from operator import attrgetter
from typing import Any

from addon.answers.bounds import FailedStreamError, exceeded_bound, finite_logprobs
from addon.answers.context import AnswerContext
from addon.answers.silence import MAX_SILENT_BYTES, Silence
from addon.answers.sse import (
    MAX_EVENT_LINES,
    EventSplitter,
    comments,
    count_lines,
    data_lines,
    find_comments_end,
    frame,
    has_data,
    is_error_event,
    only_data_line,
    separate_comments,
)
from addon.answers.stream_body import (
    CUT,
    NOT_JSON,
    NOT_UNDERSTOOD,
    events_of_body,
    parse_event,
    reported_failure,
)
from addon.answers.stream_chunks import Chunks, Event
from addon.text.errors import (
    ErrorAnswer,
    is_error_payload,
    unreadable_answer,
)

MAX_EVENT_BYTES = 4 * 1024 * 1024
MAX_HELD_BYTES = 64 * 1024

_DONE = b"[DONE]"

_UNREADABLE = unreadable_answer("an event of its stream is not a JSON object.")
_TOO_LARGE = unreadable_answer("an event of its stream is too large.")
_TOO_MANY_LINES = unreadable_answer(f"an event of its stream has more than {MAX_EVENT_LINES} lines.")
_SILENT = unreadable_answer(f"its stream went on for {MAX_SILENT_BYTES >> 20} MiB without content.")
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
        self.is_done = False  # the end has been relayed, or added
        self.framing_bytes = 0  # how many more bytes the provider sent for the next piece
        self._chunks = chunks
        self._context = context
        self._max_event_bytes = max_event_bytes
        self._splitter = EventSplitter()
        self._held: bytearray | None = bytearray()  # None as soon as the first event is out
        self._silence = Silence()

    has_pending = property(attrgetter("_chunks.placement.has_pending"))
    buffered_bytes = 0
    events_sent = property(attrgetter("_chunks.events_sent"))
    usage = property(attrgetter("_chunks.usage"))
    finish_reason = property(attrgetter("_chunks.finish_reason"))
    has_finished = property(lambda self: self.is_done or self._chunks.is_complete)
    relayed_text_chars = property(attrgetter("_chunks.text_chars"))

    def feed(self, piece: bytes) -> bytes:
        """Take the next bytes of the upstream's answer. Return those that are ready for the client."""
        if self.is_done or self.failure is not None:
            return b""
        splitter, chars = self._splitter, self._chunks.text_chars
        pending_bytes = 0 if splitter.is_between_events else splitter.pending_bytes
        filled = self._chunks.fill(piece, 0, self._max_event_bytes) if splitter.is_between_events else None
        if filled is None:
            relayed = self._relay_events(splitter.add(piece))
        elif filled.end == len(piece) and filled.chars:  # Nearly every piece.
            self._silence.bytes = 0
            return filled.relayed
        else:
            relayed = filled.relayed + self._relay_events(splitter.add(piece[filled.end :]))
        if self._is_over or self._chunks.text_chars > chars:
            self._silence.bytes = 0
            return relayed
        ended_bytes = pending_bytes + len(piece) - splitter.pending_bytes + self.framing_bytes
        if self._silence.is_too_long(ended_bytes, self._chunks.kept_chars):
            # An answer that is complete loses nothing.
            relayed += self._close() if self.is_complete else self._fail(_SILENT)
        return relayed

    def _relay_events(self, events: bytes) -> bytes:
        """Relay ``events``, which are whole."""
        relayed: list[bytes] = []
        at, find, silent, waiting = 0, events.find, self._silence.events, self._silence.waiting
        while not self._is_over:
            end = find(b"\n\n", at) + 2
            while (event := events[at:end]) in silent:
                if silent[event]:
                    if event in waiting:
                        del waiting[event]
                    waiting[event] = None
                at, end = end, find(b"\n\n", end) + 2
            if waiting:
                relayed += [self._relay(one) for one in self._silence.take_waiting() if not self._is_over]
                continue
            if at == len(events):
                break
            if filled := self._chunks.fill(events, at, self._max_event_bytes):
                relayed.append(filled.relayed)
                at = filled.end
            elif at < (comments_end := find_comments_end(events, at)) <= at + self._max_event_bytes:
                relayed.append(self._relay_comments(events[at:comments_end]))
                at = comments_end
            else:
                relayed.append(self._relay(event))
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
            value = parse_event(b"\n".join(lines))
            is_read = value is not NOT_JSON and not isinstance(value, ErrorAnswer)
            return self._fail(reported_failure(value if is_read else None, self._context))
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
        chunk = parse_event(payload)
        if chunk is NOT_JSON and (finite := finite_logprobs(payload)) != payload:
            payload, chunk = finite, parse_event(finite)
        if isinstance(chunk, ErrorAnswer):
            return self._fail(chunk)
        if chunk is NOT_JSON and len(lines) > 1:
            return self._relay_each(lines, at_end=at_end)
        if chunk is not NOT_JSON and is_error_payload(chunk):
            return self._fail(reported_failure(chunk, self._context))
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
        return self._close() if self._chunks.is_complete else self._fail(CUT)

    def _read(self, event: Event, chunk: dict[str, Any]) -> bytes:
        try:
            relayed = self._chunks.read(event, chunk)
        except FailedStreamError as error:
            return self._fail(error.failure)
        except ValueError:
            return self._fail(NOT_UNDERSTOOD)
        if relayed and self._held is not None:
            relayed = self._release(relayed)
        elif not relayed and ((ignored := self._chunks.ignores(chunk)) or self._chunks.only_sets(chunk)):
            self._silence.add(event.text, only_sets=not ignored)
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
            return self._fail(CUT)
        return self._close()

    def _close(self) -> bytes:
        if not self._chunks.placement.has_begun:
            return self._fail(_NO_COMPLETION)
        try:
            last = self._chunks.finish()
        except FailedStreamError as error:
            return self._fail(error.failure)
        except ValueError:
            return self._fail(NOT_UNDERSTOOD)
        self.is_done = True
        return self._release(last + self._chunks.end)

    def _read_body(self, body: bytes) -> bytes:
        """Read an answer that is not an event stream."""
        events = events_of_body(body, self._context)
        if isinstance(events, ErrorAnswer):
            return self._fail(events)
        self._held = bytearray()
        relayed = b"".join([self._relay(event) for event in events if not self._is_over])
        return relayed if self._is_over else relayed + self._end(b"")

    def _fail(self, failure: ErrorAnswer) -> bytes:
        """Set the failure. Return the pending chunk if the client already has a part of the answer."""
        self.failure = failure
        self._splitter.clear()
        return self._chunks.placement.flush_pending() if self._held is None else b""
