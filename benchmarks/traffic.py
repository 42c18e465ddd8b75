"""The calls and the canned answers that all three targets are measured with. Pure."""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["whole", "streamed"]

SLUG = "bench-chat"
UPSTREAM_MODEL_ID = "vendor/bench-chat-2026"
STREAM_EVENTS = 20
ASKS_STREAM = re.compile(rb'"stream"\s*:\s*true')

_WORDS = "The gateway forwards what the provider said and counts every token on the way. "
_USAGE = {"prompt_tokens": 24, "completion_tokens": 60, "total_tokens": 84}


@dataclass(frozen=True, slots=True)
class Target:
    """Something that answers chat-completion calls: its name in the table, its process, and where it listens."""

    name: str
    pid: int
    port: int
    key: str = "none"


@dataclass(frozen=True, slots=True)
class Scenario:
    """``calls`` calls of one kind over ``connections`` keep-alive connections, one in flight on each."""

    kind: Kind
    connections: int
    calls: int


def request_bytes(kind: Kind, key: str) -> bytes:
    """Return one whole HTTP/1.1 call, as small SDK calls are."""
    body = {
        "model": SLUG,
        "messages": [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": "Say in one sentence what a gateway does."},
        ],
        "temperature": 0.7,
        "max_tokens": 256,
        "stream": kind == "streamed",
    }
    payload = json.dumps(body).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\n"
        "Host: 127.0.0.1\r\n"
        f"Authorization: Bearer {key}\r\n"
        "Content-Type: application/json\r\n"
        "Accept: application/json\r\n"
        f"Content-Length: {len(payload)}\r\n\r\n"
    )
    return head.encode() + payload


def whole_answer() -> bytes:
    """Return a complete HTTP/1.1 answer with a chat completion of about 600 bytes."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": _WORDS * 4},
        "logprobs": None,
        "finish_reason": "stop",
    }
    payload = json.dumps(_object("chat.completion", [choice]) | {"usage": _USAGE}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
    return head.encode() + payload


def streamed_answer() -> list[bytes]:
    """Return the pieces of a streamed answer, one event each, the first with the head, the last the body's end."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word + " "} for word in (_WORDS * 2).split()[: STREAM_EVENTS - 4]]
    chunks = [
        _object("chat.completion.chunk", [{"index": 0, "delta": delta, "finish_reason": None}])
        for delta in deltas
    ]
    chunks.append(_object("chat.completion.chunk", [{"index": 0, "delta": {}, "finish_reason": "stop"}]))
    chunks.append(_object("chat.completion.chunk", []) | {"usage": _USAGE})
    lines = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks] + [b"data: [DONE]\n\n"]
    pieces = [b"%x\r\n%s\r\n" % (len(line), line) for line in lines]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head + pieces[0], *pieces[1:-1], pieces[-1] + b"0\r\n\r\n"]


def is_complete(kind: Kind, body: bytes) -> bool:
    """Whether ``body``, without any transfer coding, is all that the upstream said."""
    if kind == "streamed":
        # A relay may cut the events elsewhere, but may lose none and must keep the end.
        return body.count(b"data: ") == STREAM_EVENTS and body.endswith(b"data: [DONE]\n\n")
    return body.endswith(b"}") and body.count(_WORDS.encode()) == 4 and b'"total_tokens"' in body


def _object(kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-bench0000000000000000",
        "object": kind,
        "created": 1_790_000_000,
        "model": UPSTREAM_MODEL_ID,
        "choices": choices,
    }
