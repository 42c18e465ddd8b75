"""Providers that repeat their key in each text of an answer, whole and streamed.

Each leak is a function from the key to a script. There is a leak for each text of a whole answer and of a stream.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rig import native_responses
from rig.scripts import (
    DONE,
    USAGE,
    Received,
    Script,
    Step,
    chunk,
    chunked,
    completion,
    event,
    http_chunk,
    whole,
)

type Leak = Callable[[str], Script]
type Leaks = Mapping[str, Leak]

AUTH = {"openai": "authorization", "anthropic": "x-api-key", "gemini": "x-goog-api-key"}


def shown_key(request: Received) -> str:
    """Return the key of a request to a provider."""
    shown = [value for name in AUTH.values() if (value := request.header(name))]
    assert len(shown) == 1, f"{len(shown)} keys in one request"
    return shown[0].removeprefix("Bearer ")


_CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":"b"}'}}
_TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": "b"}}
_ANTHROPIC_USAGE = {"input_tokens": 9, "output_tokens": 2, "service_tier": "standard"}

_RESPONSE = native_responses.response(
    native_responses.reasoning("hm"),
    native_responses.message("hi"),
    native_responses.function_call("f", {"a": "b"}),
)

WHOLE: Mapping[str, dict[str, Any]] = {
    "responses": _RESPONSE,
    "openai": completion(
        "hello",
        choices=[
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "hi",
                    "reasoning_content": "hm",
                    "tool_calls": [_CALL],
                },
                "finish_reason": "stop",
            }
        ],
        system_fingerprint="fp_1",
        usage={**USAGE, "note": "n"},
    ),
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "hi"},
            _TOOL_USE,
        ],
        "stop_reason": "end_turn",
        "stop_sequence": "stop here",
        "usage": _ANTHROPIC_USAGE,
    },
    "gemini": {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "hm", "thought": True},
                        {"text": "hi", "thoughtSignature": "c2ln"},
                        {"functionCall": {"name": "f", "args": {"a": "b"}}},
                    ],
                },
                "finishReason": "STOP",
                "finishMessage": "m",
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 9,
            "candidatesTokenCount": 2,
            "totalTokenCount": 11,
            "trafficType": "t",
        },
        "modelVersion": "gemini-x",
        "responseId": "r1",
    },
}

STREAMED: Mapping[str, list[dict[str, Any]]] = {
    "responses": native_responses.events(_RESPONSE, pieces=1),
    "openai": [
        chunk("hi", role="assistant") | {"system_fingerprint": "fp_1"},
        chunk(tool_calls=[{"index": 0, **_CALL}]),
        chunk(reasoning_content="hm"),
        chunk(finish="stop"),
        chunk(usage={**USAGE, "note": "n"}),
    ],
    "anthropic": [
        {"type": "message_start", "message": {**WHOLE["anthropic"], "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": _TOOL_USE | {"input": {}}},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'},
        },
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": _ANTHROPIC_USAGE},
        {"type": "message_stop"},
    ],
    "gemini": [
        {
            "candidates": [{"content": {"role": "model", "parts": [{"text": "h"}]}, "index": 0}],
            "responseId": "r1",
        },
        WHOLE["gemini"],
    ],
}


def _places(node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Return the paths of the texts in a JSON value."""
    members = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in members:
        if isinstance(value, str):
            yield (*path, key)
        yield from _places(value, (*path, key))


def _put[T](node: T, path: tuple[str | int, ...], text: str) -> T:
    changed = copy.deepcopy(node)
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = text
    return changed


def sse(events: list[Any], *around: Step) -> Script:
    """Return a stream of these events, with the bytes ``around`` first."""
    return chunked(*around, *map(event, events), DONE)


def leaks_of_answers(dialect: str) -> Leaks:
    """Return successes with the key, one for each text and one with the key as the name of a member."""
    body, leaks = WHOLE[dialect], dict[str, Leak]()
    for path in _places(body):
        leaks[f"whole {path}"] = lambda key, path=path: whole(_put(body, path, key))
    leaks["whole, a member's value"] = lambda key: whole(body | {"note": {"deep": [f"({key})"]}})
    leaks["whole, a member's name"] = lambda key: whole(body | {key: 1})
    return leaks


def leaks_of_streams(dialect: str) -> Leaks:
    """Return streams with the key in one text of one event, between events, and split into two pieces."""
    events, leaks = STREAMED[dialect], dict[str, Leak]()
    for path in _places(events):
        leaks[f"stream {path}"] = lambda key, path=path: sse(_put(events, path, key))
    named = [events[0] | {"note": "?"}, *events[1:]]
    for field in ("", "id", "event", "retry", "other"):
        leaks[f"stream, field {field!r}"] = lambda key, field=field: sse(
            events, f"{field}: {key}\n\n".encode()
        )
        leaks[f"stream, field {field!r} of an event"] = lambda key, field=field: sse(
            events, f"{field}: {key}\n".encode()
        )
    leaks["stream, a member's name"] = lambda key: sse([events[0] | {key: 1}, *events[1:]])
    leaks["stream, in two writes"] = lambda key: in_two_pieces(sse(_put(named, (0, "note"), key)), key)
    leaks["stream, later"] = lambda key: chunked(
        *map(event, events[:-1]), event(events[-1] | {"note": key}), DONE
    )
    leaks["stream, after its end"] = lambda key: chunked(
        *map(event, events), DONE, f": {key}\n\n".encode(), event(key)
    )
    return leaks


def in_two_pieces(script: Script, key: str) -> Script:
    """Split each chunk with the key in two, with a part of the key in each."""
    made: list[Step] = []
    for step in script:
        head, found, rest = step.partition(key.encode()) if isinstance(step, bytes) else (b"", b"", b"")
        if not found:
            made.append(step)
            continue
        half = len(found) // 2
        made += [http_chunk(head.partition(b"\r\n")[2] + found[:half])]
        made += [http_chunk(found[half:] + rest.removesuffix(b"\r\n"))]
    return tuple(made)
