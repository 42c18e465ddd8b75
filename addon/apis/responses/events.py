"""The events of a stream as bytes: one counter numbers all of them, and deltas are the fast path. Pure.

Each has its type in a line of its own and in its JSON, whose keys are in OpenAI's order.
"""

from typing import Any

from addon.text.json_encode import encode_json


class EventLog:
    """Numbers the events of one stream. ``sent`` is how many there are."""

    def __init__(self) -> None:
        self.sent = 0

    def add(self, kind: str, **members: Any) -> bytes:
        """Return the next event."""
        event = {"type": kind, **dict(sorted(members.items())), "sequence_number": self.sent}
        self.sent += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode_json(event))

    def add_response(self, kind: str, response: bytes) -> bytes:
        """Return the next event, which has the response object, as JSON."""
        name, number = kind.encode(), self.sent
        self.sent += 1
        form = b'event: %b\ndata: {"type":"%b","response":%b,"sequence_number":%d}\n\n'
        return form % (name, name, response, number)


class DeltaEvents:
    """The deltas of one text: only the text and the number differ, so the bytes around them are made once."""

    def __init__(self, log: EventLog, kind: str, **members: Any) -> None:
        self._log = log
        before = encode_json(
            {"type": kind} | {name: members[name] for name in sorted(members) if name < "delta"}
        )
        after = encode_json({name: members[name] for name in sorted(members) if name > "delta"})
        self._before = b'event: %b\ndata: %b,"delta":' % (kind.encode(), before[:-1])
        self._after = b"," + after[1:-1] + b',"sequence_number":'

    def add(self, text: str) -> bytes:
        """Return the next event, with ``text``."""
        log = self._log
        number = log.sent
        log.sent = number + 1
        return b"%b%b%b%d}\n\n" % (self._before, encode_json(text), self._after, number)
