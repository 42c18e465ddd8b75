"""The events of a stream of Anthropic's Messages API, as bytes. Pure."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from addon.answers.stream_chunks import Event
from addon.text.json_edits import Edit, apply_edits, members, prepend_edit
from addon.text.json_encode import encode_json

HOLDERS: Final[Mapping[object, str]] = MappingProxyType(
    {"content_block_start": "content_block", "content_block_delta": "delta"}
)
"""The events that have content, and the member that holds it."""
TEXTS: Final[Mapping[object, str]] = MappingProxyType(
    {
        **{"text": "text", "text_delta": "text"},
        **{"thinking": "thinking", "thinking_delta": "thinking"},
        "input_json_delta": "partial_json",
    }
)
"""The types of blocks and deltas with a text that clients join, and the name of that text."""
STOP_EVENT: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

_TYPE_LINE: Final = re.compile(rb"(?<![^\n])event:")
_TYPE: Final = re.compile(r"[a-z_]{1,64}")


def encode_event(event: Mapping[str, Any]) -> bytes:
    """Return an event of a known type."""
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), encode_json(event))


def framed(event: Event, kind: str) -> bytes:
    """Return an event as it came, with its type in a line of its own: clients read that line.

    The last one of a stream may lack the blank line at its end, without which clients ignore it.
    """
    text = event.text if event.text.endswith(b"\n\n") else event.text.rstrip(b"\n") + b"\n\n"
    if event.start < 0 or _TYPE_LINE.search(text) or not _TYPE.fullmatch(kind):
        return text
    return b"event: %b\n%b" % (kind.encode(), text)


def with_model(event: Event, model: bytes) -> Event:
    """Return a ``message_start`` with another model. ``model`` is JSON."""
    payload = apply_edits(event.payload, _model_edits(event.payload, model))
    if event.start < 0:
        return Event(b"data: %b\n\n" % payload, payload, len(b"data: "))
    end = event.start + len(event.payload)
    return Event(event.text[: event.start] + payload + event.text[end:], payload, event.start)


def _model_edits(payload: bytes, model: bytes) -> list[Edit]:
    edits: list[Edit] = []
    for message in members(payload, payload.index(b"{"), "message"):
        found = members(payload, message.start, "model")
        edits += [(one.start, one.end, model) for one in found] or [
            prepend_edit(payload, message.start, "model", model)
        ]
    return edits
