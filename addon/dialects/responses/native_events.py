"""The events of a native stream, as bytes. Pure."""

from addon.answers.sse import frame
from addon.answers.stream_chunks import Event
from addon.text.json_edits import Edit, apply_edits, members, prepend_edit, value_edit
from addon.text.json_encode import encode_json


def whole_event(event: Event) -> bytes:
    """Return an event as it came, with a blank line at its end."""
    return event.text if event.text.endswith(b"\n\n") else event.text.rstrip(b"\n") + b"\n\n"


def with_delta(event: Event, text: str) -> bytes:
    """Return an event with another text as its delta."""
    return _edited(event, [value_edit(event.payload, "delta", encode_json(text))])


def with_model(event: Event, model: bytes) -> bytes:
    """Return an event with another model in its response. ``model`` is JSON."""
    payload = event.payload
    edits: list[Edit] = []
    for response in members(payload, payload.index(b"{"), "response"):
        if payload[response.start : response.start + 1] != b"{":
            continue
        found = members(payload, response.start, "model")
        edits += [(one.start, one.end, model) for one in found] or [
            prepend_edit(payload, response.start, "model", model)
        ]
    return _edited(event, edits)


def _edited(event: Event, edits: list[Edit]) -> bytes:
    payload = apply_edits(event.payload, edits)
    if event.start < 0:
        return frame(payload)
    end = event.start + len(event.payload)
    return whole_event(Event(event.text[: event.start] + payload + event.text[end:], payload, event.start))
