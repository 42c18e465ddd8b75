"""The event streams of the Messages API, as clients read them: the grammar of recorded streams, and the SDK's types.

Nothing here comes from the gateway.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from rig.native_anthropic_answers import accumulated

type ReadEvent = dict[str, Any]

_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
_MESSAGE: TypeAdapter[Any] = TypeAdapter(Message)
GRAMMAR = re.compile(
    r"message_start ping (?:content_block_start (?:content_block_delta )*content_block_stop )*"
    r"message_delta message_stop "
)
"""Over the types of all events, each with a blank after it."""
_DELTAS = {
    "text": ("text_delta",),
    "thinking": ("thinking_delta", "signature_delta"),
    "tool_use": ("input_json_delta",),
    "redacted_thinking": (),
}


def read_events(stream: bytes) -> list[ReadEvent]:
    """Read a stream. Each event has its type in a line of its own, and one line of data."""
    *events, rest = stream.decode().split("\n\n")
    assert rest == "", rest
    found = []
    for event in events:
        if event.startswith(":"):
            continue
        first, second = event.split("\n")
        value = json.loads(second.removeprefix("data: "))
        assert first == f"event: {value['type']}", event
        found.append(value)
    return found


def check_beginning(events: Sequence[ReadEvent]) -> None:
    """Check the events of a stream that may go on."""
    open_index, begun, kinds = None, 0, ()
    for event in events:
        if event["type"] != "ping":  # The SDK has no type for it.
            _EVENT.validate_json(json.dumps(event), strict=True)
        if event["type"] == "content_block_start":
            assert open_index is None and event["index"] == begun
            open_index, begun, kinds = begun, begun + 1, _DELTAS[event["content_block"]["type"]]
        elif event["type"] == "content_block_delta":
            assert event["index"] == open_index and event["delta"]["type"] in kinds
        elif event["type"] == "content_block_stop":
            assert event["index"] == open_index
            open_index = None


def check_events(events: Sequence[ReadEvent]) -> Message:
    """Check a complete stream. Return its message as the SDK joins it."""
    kinds = "".join(f"{event['type']} " for event in events)
    assert GRAMMAR.fullmatch(kinds), kinds
    check_beginning(events)
    start = events[0]["message"]
    assert (start["content"], start["stop_reason"], start["usage"]["output_tokens"]) == ([], None, 1)
    return accumulated(events)


def check_message(body: bytes) -> Message:
    """Check a whole answer, and return it as the SDK reads it."""
    message: Message = _MESSAGE.validate_json(body, strict=True)
    assert message.stop_reason and message.type == "message"
    return message
