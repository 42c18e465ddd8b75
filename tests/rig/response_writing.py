"""Chat answers written as Responses: what a client gets for chunks that a test makes."""

from collections.abc import Mapping
from typing import Any

from addon.apis.responses.answer import ResponsesWriter
from addon.apis.writer import WriterContext
from policies.usage import Usage
from rig.response_events import ReadEvent, check_events, read_events

SLUG = "house/slug"
CALL_ID = "0b5c9c1e-call"


def context(**request: Any) -> WriterContext:
    return WriterContext(CALL_ID, SLUG, 1_760_000_000, 11, {"model": SLUG, "input": "hi", **request})


def chunk(delta: Mapping[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": dict(delta or {}), "finish_reason": finish, **more}]}


def call(
    index: int, arguments: str = "", call_id: str | None = None, name: str | None = None
) -> dict[str, Any]:
    """Return a delta with a piece of one call."""
    head = {} if call_id is None else {"id": call_id, "type": "function"}
    function = {"arguments": arguments} | ({} if name is None else {"name": name})
    return {"tool_calls": [{"index": index, **head, "function": function}]}


def write(*chunks: dict[str, Any], usage: Usage | None = None, **request: Any) -> list[ReadEvent]:
    """Return the events for these chunks, once they are checked."""
    writer = ResponsesWriter(context(**request))
    sent = b"".join([*map(writer.write, chunks), writer.finish(usage)])
    events = read_events(sent)
    assert writer.events_sent == len(events)
    check_events(events)
    return events


def answer(*chunks: dict[str, Any], usage: Usage | None = None, **request: Any) -> dict[str, Any]:
    """Return the whole answer at the end of the events."""
    found: dict[str, Any] = write(*chunks, usage=usage, **request)[-1]["response"]
    return found


def kinds(events: list[ReadEvent]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]
