"""The event streams of the Responses API, as clients read them: the grammar of recorded streams, and the SDK's types.

Nothing here comes from the gateway.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from rig.readers import Answer, ReadChoice, ToolCall, read_arguments

type ReadEvent = dict[str, Any]

_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_RESPONSE: TypeAdapter[Any] = TypeAdapter(Response)
_PART = (
    r"content_part\.added (?:(?:output_text\.delta |output_text\.annotation\.added )*output_text\.done "
    r"|(?:refusal\.delta )*refusal\.done |(?:reasoning_text\.delta )+reasoning_text\.done )content_part\.done "
)
_SUMMARY = (
    r"reasoning_summary_part\.added (?:reasoning_summary_text\.delta )*"
    r"reasoning_summary_text\.done reasoning_summary_part\.done "
)
_BODIES = (
    rf"(?:{_PART})*",
    rf"(?:{_SUMMARY})*",
    r"(?:function_call_arguments\.delta )*function_call_arguments\.done ",
    r"(?:custom_tool_call_input\.delta )*custom_tool_call_input\.done ",
    r"image_generation_call\.in_progress image_generation_call\.generating image_generation_call\.completed ",
)
_ITEM = rf"output_item\.added (?:{'|'.join(_BODIES)})output_item\.done "
GRAMMAR = re.compile(rf"created in_progress (?:{_ITEM})*(?:completed|incomplete) ")
"""Over the types of all events, without ``response.``, each with a blank after it."""


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


def check_events(events: Sequence[ReadEvent]) -> ReadEvent:
    """Check a complete stream. Return its whole answer."""
    kinds = "".join(f"{event['type'].removeprefix('response.')} " for event in events)
    assert GRAMMAR.fullmatch(kinds), kinds
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        _EVENT.validate_json(json.dumps(event), strict=True)
    first, last = events[0]["response"], events[-1]["response"]
    changing = {"status", "output", "usage", "completed_at", "service_tier", "incomplete_details"}
    assert {k: v for k, v in first.items() if k not in changing} == {
        k: v for k, v in last.items() if k not in changing
    }
    assert (first["status"], first["output"], first["usage"]) == ("in_progress", [], None)
    check_items(events, last["output"])
    return check_response(last)


def check_items(events: Sequence[ReadEvent], output: Sequence[Any]) -> None:
    """Check that each item keeps its id and its place, and that its deltas make what its end says."""
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == list(output)
    texts: dict[Any, str] = {}
    for event in events:
        if (number := event.get("output_index")) is None:
            continue
        item = done[number]
        assert (event.get("item_id") or event["item"]["id"]) == item["id"]
        kind = event["type"].rpartition(".")[0]
        place = (number, kind, event.get("content_index", event.get("summary_index")))
        if "delta" in event:
            assert event["delta"], "a delta is never empty"
            texts[place] = texts.get(place, "") + event["delta"]
        elif event["type"].endswith(".done") and "part" not in event and "item" not in event:
            whole = next(event[name] for name in ("text", "refusal", "arguments", "input") if name in event)
            assert texts.pop(place, "") == whole
            assert whole in json.loads(json.dumps(list(_texts(item)))), "the item has the same text"
    assert not texts
    assert len({item["id"] for item in done}) == len(done)


def check_response(response: ReadEvent) -> ReadEvent:
    """Check a whole answer, and return it."""
    _RESPONSE.validate_json(json.dumps(response), strict=True)
    usage = response["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert (response["status"] == "incomplete") == bool(response["incomplete_details"])
    return response


def _texts(item: Mapping[str, Any]) -> Any:
    yield from (item[name] for name in ("arguments", "input") if name in item)
    for part in (*item.get("content", ()), *item.get("summary", ())):
        yield part.get("text", part.get("refusal"))


def read_answer(response: Mapping[str, Any]) -> Answer:
    """Return the content of a whole answer in the plain form of all readers."""
    made = ReadChoice()
    for item in response["output"]:
        if item["type"] == "message":
            made.text += "".join(part.get("text", "") for part in item["content"])
        elif item["type"] == "reasoning":
            parts = (*item.get("content", ()), *item["summary"])
            made.reasoning += "".join(part["text"] for part in parts)
        elif item["type"] == "function_call":
            made.calls.append(ToolCall(item["call_id"], item["name"], read_arguments(item["arguments"])))
    details = response["incomplete_details"] or {}
    reasons = {"max_output_tokens": "length", "content_filter": "content_filter"}
    made.finish_reason = reasons.get(details.get("reason")) or ("tool_calls" if made.calls else "stop")
    return Answer({0: made}, None)
