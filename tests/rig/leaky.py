"""Providers that repeat their key: in each text of an answer, in errors, and in headers.

Each leak is a function from the key to a script. There is a leak for each text of a whole answer and of a stream.
"""

import copy
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rig.scripts import (
    CLOSE,
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
    response_head,
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

WHOLE: Mapping[str, dict[str, Any]] = {
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
    leaks["stream, in two writes"] = lambda key: _in_two(sse(_put(named, (0, "note"), key)), key)
    leaks["stream, later"] = lambda key: chunked(
        *map(event, events[:-1]), event(events[-1] | {"note": key}), DONE
    )
    leaks["stream, after its end"] = lambda key: chunked(
        *map(event, events), DONE, f": {key}\n\n".encode(), event(key)
    )
    return leaks


def _in_two(script: Script, key: str) -> Script:
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


def _error(message: str, **changes: Any) -> dict[str, Any]:
    fields = {"message": message, "type": "t", "param": "p", "code": "c", "status": "S"}
    return {"error": fields | changes}


SENTENCE = "The key {} can't be used for this."

_BODIES: Mapping[str, Callable[[str], Any]] = {
    "message": lambda key: _error(SENTENCE.format(key)),
    "message alone": _error,
    "param": lambda key: _error("No.", param=key),
    "code": lambda key: _error("No.", code=key, type=key, status=key),
    "details": lambda key: _error("", details=[{"reason": key, "message": SENTENCE.format(key)}]),
    "two keys": lambda key: _error(f"Neither {key} nor {key[:-4]} nor {key[4:]}."),
    "upper case": lambda key: _error(SENTENCE.format(key.upper())),
    "percent-encoded": lambda key: _error(SENTENCE.format("".join(f"%{ord(char):02x}" for char in key))),
    "JSON in JSON": lambda key: _error(json.dumps(_error(SENTENCE.format(key)))),
    "escaped": lambda key: _escaped(_error(SENTENCE.format(key)), key),
    "over lines": lambda key: _error(f"The key\n{key}\nis bad."),
    "unseen characters": lambda key: _error(SENTENCE.format(key[:20] + "\u200b" + key[20:])),
    "halves": lambda key: _error(f"The key {key[:20]} {key[20:]} is bad."),
    "long": lambda key: _error("x" * 1990 + f" {key}"),
    "flat": lambda key: {"message": SENTENCE.format(key)},
    "detail": lambda key: {"detail": [{"loc": ["header", key], "msg": SENTENCE.format(key)}]},
    "list": lambda key: [_error(SENTENCE.format(key))],
    "name": lambda key: _error("No.") | {key: key},
    "HTML": lambda key: f"<html><title>{key}</title><body>{key}</body></html>".encode(),
    "text": lambda key: SENTENCE.format(key).encode(),
    "no text": lambda key: key.encode() + b"\xff{",
}


def _escaped(body: object, key: str) -> bytes:
    return json.dumps(body).replace(key, "".join(f"\\u{ord(char):04x}" for char in key)).encode()


def leaks_of_errors(dialect: str) -> Leaks:
    """Return errors with the key: for each status and place of the body, in a success, and in a begun stream."""
    leaks: dict[str, Leak] = {}
    for name, made in _BODIES.items():
        leaks[f"400, {name}"] = lambda key, made=made: whole(made(key), 400)
        leaks[f"200, {name}"] = lambda key, made=made: whole(made(key))
    for status in (302, 401, 403, 404, 408, 422, 429, 500, 503, 599):
        leaks[f"{status}"] = lambda key, status=status: whole(_error(SENTENCE.format(key)), status)
    first = STREAMED[dialect][:1]
    for name, event_ in {
        "an error event": lambda key: event(_error(SENTENCE.format(key))),
        "an error event over two data lines": lambda key: (
            f'data: {{"error": {{"message":\ndata: "No {key}."}}}}\n\n'.encode()
        ),
        "an event of type error": lambda key: b"event: error\n" + event({"message": key}),
        "no JSON": lambda key: event(key),
        "no JSON in two lines": lambda key: f"data: {{{key}\ndata: {key}\n\n".encode(),
        "cut": lambda key: f'data: {{"id": "{key}'.encode(),
    }.items():
        leaks[f"stream, {name}"] = lambda key, made=event_: chunked(made(key))
        leaks[f"stream, {name} later"] = lambda key, made=event_: chunked(event(first[0]), made(key))
    in_one = _BODIES["message"]
    leaks["stream, an error event in two writes"] = lambda key: _in_two(chunked(event(in_one(key))), key)
    return leaks


def _head(key: str, *headers: tuple[str, str], status: int = 200, reason: str = "OK") -> bytes:
    return response_head(status, [("Content-Type", "application/json"), *headers], reason)


WIRE: Leaks = {
    "headers": lambda key: whole(
        completion(),
        headers=[
            (name, key) for name in ("X-Request-Id", "Set-Cookie", "OpenAI-Organization", "Server", key)
        ],
    ),
    "headers of an error": lambda key: whole(
        _error("No."),
        401,
        headers=[(name, key) for name in ("Retry-After", "WWW-Authenticate", "Location", "X-Request-Id")],
    ),
    "Retry-After": lambda key: whole(_error("Slower."), 429, headers=[("Retry-After", key)]),
    "Location": lambda key: whole(b"", 307, headers=[("Location", f"http://127.0.0.1:1/?key={key}")]),
    "reason": lambda key: (_head(key, ("Content-Length", "2"), status=500, reason=key) + b"{}",),
    "content type": lambda key: whole(completion(), content_type=f"text/{key}"),
    "content encoding": lambda key: whole(completion(), headers=[("Content-Encoding", key)]),
    "gzip": lambda key: whole(
        gzip.compress(json.dumps(completion(f"It is {key}.")).encode()),
        headers=[("Content-Encoding", "gzip")],
    ),
    "not gzip": lambda key: whole(key.encode(), headers=[("Content-Encoding", "gzip")]),
    "status line": lambda key: (f"HTTP/1.1 {key} OK\r\n\r\n".encode(), CLOSE),
    "no HTTP": lambda key: (f"{key}\r\n\r\n".encode(), CLOSE),
    "header without a colon": lambda key: (b"HTTP/1.1 200 OK\r\n" + f"{key}\r\n\r\n".encode(), CLOSE),
    "header with a space": lambda key: (_head(key, (f"{key} ", key)), CLOSE),
    "content length": lambda key: (_head(key, ("Content-Length", key)), CLOSE),
    "transfer encoding": lambda key: (_head(key, ("Transfer-Encoding", key)), CLOSE),
    "chunk size": lambda key: (_head(key, ("Transfer-Encoding", "chunked")) + f"{key}\r\n".encode(), CLOSE),
    "chunk extension": lambda key: (
        _head(key, ("Transfer-Encoding", "chunked")) + f"2;{key}\r\n{{}}\r\n0\r\n\r\n".encode(),
    ),
    "trailer": lambda key: (
        _head(key, ("Transfer-Encoding", "chunked")) + f"2\r\n{{}}\r\n0\r\nX-Key: {key}\r\n\r\n".encode(),
    ),
    "informational": lambda key: (
        f"HTTP/1.1 103 {key}\r\nLink: {key}\r\n\r\n".encode(),
        *whole(completion()),
    ),
    "body cut": lambda key: (_head(key, ("Content-Length", "9999")) + f'{{"id": "{key}"'.encode(), CLOSE),
    "body after its end": lambda key: (*whole(completion()), f"{key}\r\n\r\n".encode()),
    "not JSON": lambda key: whole(key.encode()),
    "JSON, not an object": lambda key: whole(json.dumps([key]).encode()),
    "no number": lambda key: whole(b'{"choices": [], "usage": NaN, "id": "%s"}' % key.encode()),
}
