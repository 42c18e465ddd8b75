"""A stream is relayed event by event, under the catalog slug, with no other byte changed.

``StreamRelay`` is a machine: pieces of an OpenAI-shaped event stream in, bytes for the client out, and the same
result for every way of cutting the stream into pieces. Framing: WHATWG HTML, "Server-sent events". Pure.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from addon.errors import (
    NO_NAMES,
    ErrorAnswer,
    from_upstream_payload,
    is_error_payload,
    stream_interrupted,
    upstream_garbage,
)
from addon.message import choice_text_chars, finish_reason
from addon.splice import apply_edits, model_edits
from addon.sse_template import Template
from addon.usage import merge_usage, parse_usage
from policies.facts import Usage

MAX_EVENT_BYTES = 4 * 1024 * 1024
MAX_HELD_BYTES = 64 * 1024

_DONE = b"[DONE]"
# A line end and a blank line. A final \r ends it only once the next byte shows that it isn't half of \r\n.
_EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\n|\r\n|\r(?=[^\n]))")
_EVENT_END_MAX_BYTES = 5  # the longest such ending, with the byte looked at behind it
_CLOSED = re.compile(rb"\A\Z|(?:\A|\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)\Z")
_DATA_LINE = re.compile(rb"(?<![^\r\n])(?:\xef\xbb\xbf)?data(?:: ?|(?=[\r\n]|\Z))([^\r\n]*)")
_ERROR_EVENT = re.compile(rb"(?<![^\r\n])(?:\xef\xbb\xbf)?event: ?error[ \t]*(?=[\r\n]|\Z)")
_FIELD_LINE = re.compile(rb"(?<![^\r\n])[^:\r\n]")  # any line but a comment or a blank one
_NOT_JSON = object()

_CUT = stream_interrupted()
_UNREADABLE = upstream_garbage("an event of its stream is not a JSON object.")
_TOO_LARGE = upstream_garbage("an event of its stream is too large.")
_NO_STREAM = upstream_garbage("it is not an event stream.")


class StreamRelay:
    """One streamed answer on its way to the client.

    ``names`` maps upstream model ids to what the client may see in their place, in error messages, where
    ``secrets`` never appear.
    Nothing leaves before the first event that proves that the upstream answers; comments before it are
    held back, at most ``MAX_HELD_BYTES``. Once ``failure`` is set or ``done`` is true, nothing more leaves.
    """

    def __init__(
        self,
        model_slug: str,
        names: Mapping[str, str] = NO_NAMES,
        max_event_bytes: int = MAX_EVENT_BYTES,
        secrets: Sequence[str] = (),
    ) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.relayed_text_chars = 0  # answer, reasoning and tool arguments, for estimates
        self.failure: ErrorAnswer | None = None
        self.done = False  # [DONE] has been relayed, or added
        self._model = json.dumps(model_slug).encode()
        self._names = names
        self._secrets = secrets
        self._max_event_bytes = max_event_bytes
        self._pending = bytearray()
        self._scanned = 0
        self._has_cr = False
        self._template: Template | None = None
        self._held: bytearray | None = bytearray()  # None as soon as the first event is out

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
            self._fail(_TOO_LARGE)
        return b"".join(relayed)

    def finish(self) -> bytes:
        """Return the last bytes for the client, now that the upstream has ended its message cleanly.

        Sets ``done`` or ``failure``: a stream without [DONE] and without a finish_reason was cut short.
        """
        if self._is_over:
            return b""
        rest = bytes(self._pending)
        self._pending.clear()
        if not _DATA_LINE.search(rest):
            return self._end(rest)
        relayed = self._relay(_closed(rest), at_end=True)
        return relayed if self._is_over else relayed + self._end(b"")

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

    def _relay(self, event: bytes, *, at_end: bool = False) -> bytes:
        """Return what the client gets for one event; at the end of the stream an unreadable one was cut."""
        if len(event) > self._max_event_bytes:
            return self._fail(_TOO_LARGE)
        if self._template and (filled := self._template.fill(event)):
            self.relayed_text_chars += filled[1]
            return self._release(filled[0])
        lines = _data_lines(event)
        payload = b"\n".join([event[start:end] for start, end in lines])
        if b"event:" in event and _ERROR_EVENT.search(event):
            value = _parse(payload)
            return self._fail(self._upstream_failure(None if value is _NOT_JSON else value))
        if not lines:
            return self._hold(event)
        if payload.strip() == _DONE:
            self.done = True
            return self._release(event)
        if not payload.strip() and not at_end:
            return b""  # It says nothing, and clients that expect JSON in every event would fail on it.
        chunk = _parse(payload)
        broken = _CUT if at_end else _UNREADABLE
        if chunk is _NOT_JSON:
            return self._relay_each(event, at_end=at_end) if len(lines) > 1 else self._fail(broken)
        if is_error_payload(chunk):
            return self._fail(self._upstream_failure(chunk))
        if not isinstance(chunk, dict):
            return self._fail(broken)
        chars, says_more = self._learn(chunk)
        edits = model_edits(payload, chunk, self._model, insert="choices" in chunk)
        placed = [(_place(start, lines), _place(end, lines), text) for start, end, text in edits]
        self._template = None if says_more else Template.of(event, placed, chars)
        return self._release(apply_edits(event, placed))

    def _relay_each(self, event: bytes, *, at_end: bool) -> bytes:
        """Some servers leave out the blank line between two events: then each data line is its own event."""
        starts = [0, *[line.start() for line in _DATA_LINE.finditer(event)][1:], len(event)]
        relayed = b""
        for start, end in pairwise(starts):
            if not self._is_over:
                relayed += self._relay(_closed(event[start:end]), at_end=at_end)
        return relayed

    def _learn(self, chunk: Mapping[str, object]) -> tuple[int, bool]:
        """Take in what a chunk says. Return the length of its text, and whether it says anything else."""
        if usage := parse_usage(chunk):
            self.usage = merge_usage(self.usage, usage)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return 0, True
        reason, chars = finish_reason(choices), sum(map(choice_text_chars, choices))
        self.finish_reason = reason or self.finish_reason
        self.relayed_text_chars += chars
        return chars, bool(usage or reason)

    def _hold(self, event: bytes) -> bytes:
        """An event without data, such as a comment, proves nothing: it waits for the first one that does."""
        if self._held is None:
            return event
        if len(self._held) + len(event) <= MAX_HELD_BYTES:
            self._held += event
        return b""

    def _release(self, event: bytes) -> bytes:
        if not self._held:
            self._held = None
            return event
        held, self._held = bytes(self._held), None
        return held + event

    def _end(self, rest: bytes) -> bytes:
        """End a stream that hasn't said [DONE]; ``rest`` has no data line and no blank line behind it."""
        if self._held is not None:
            return self._fail(self._failure_of_body(bytes(self._held) + rest))
        if self.finish_reason is None or _FIELD_LINE.search(rest):
            return self._fail(_CUT)
        self.done = True
        return _closed(rest) + b"data: [DONE]\n\n"

    def _failure_of_body(self, body: bytes) -> ErrorAnswer:
        """Say what is wrong with an answer that is no event stream: mostly an error, whatever its label."""
        payload = _parse(body.removeprefix(b"\xef\xbb\xbf"))
        if payload is not _NOT_JSON and is_error_payload(payload):
            return self._upstream_failure(payload)
        return _NO_STREAM if _FIELD_LINE.search(body) else _CUT

    def _upstream_failure(self, payload: object) -> ErrorAnswer:
        return from_upstream_payload(payload, names=self._names, secrets=self._secrets)

    def _fail(self, failure: ErrorAnswer) -> bytes:
        self.failure = failure
        self._pending.clear()
        return b""


def _parse(payload: bytes) -> object:
    try:
        return json.loads(payload.decode())
    except (ValueError, RecursionError):
        return _NOT_JSON


def _closed(text: bytes) -> bytes:
    """Return ``text`` with the line ends that it lacks to be a whole event."""
    return next(text + ends for ends in (b"", b"\n", b"\n\n") if _CLOSED.search(text + ends))


def _data_lines(event: bytes) -> list[tuple[int, int]]:
    """Return where the values of the ``data`` lines of an event start and end."""
    end = len(event) - 2
    if event.startswith(b"data: ") and event.find(b"\n") == end and b"\r" not in event:
        return [(6, end)]  # Nearly every event looks so, and this is many times as fast.
    return [line.span(1) for line in _DATA_LINE.finditer(event)]


def _place(position: int, lines: Sequence[tuple[int, int]]) -> int:
    """Return where a byte of the joined data stands in the event."""
    for start, end in lines:
        if start + position <= end:
            return start + position
        position -= end - start + 1
    raise ValueError("a position beyond the event's data")
