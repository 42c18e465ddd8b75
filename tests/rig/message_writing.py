"""Chat answers written as Messages: what a client gets for chunks that a test makes."""

from typing import Any

from anthropic.types import Message

from addon.apis.messages.answer import MessagesWriter
from addon.apis.writer import WriterContext
from policies.usage import Usage
from rig.message_events import ReadEvent, check_events, read_events

SLUG = "house/slug"
CALL_ID = "0b5c9c1e-call"


def context(**request: Any) -> WriterContext:
    return WriterContext(CALL_ID, SLUG, 1_760_000_000, 11, {"model": SLUG, "messages": [], **request})


def write(*chunks: dict[str, Any], usage: Usage | None = None, **request: Any) -> list[ReadEvent]:
    """Return the events for these chunks, once they are checked."""
    writer = MessagesWriter(context(**request))
    events = read_events(b"".join([*map(writer.write, chunks), writer.finish(usage)]))
    assert writer.events_sent == len(events)
    check_events(events)
    return events


def message_of(*chunks: dict[str, Any], usage: Usage | None = None, **request: Any) -> Message:
    """Return the message that the SDK joins."""
    return check_events(write(*chunks, usage=usage, **request))


def blocks_of(message: Message) -> list[dict[str, Any]]:
    """Return the blocks of a message, without members that are unset."""
    return [block.model_dump(exclude_unset=True, exclude_none=True) for block in message.content]
