"""The calls and the canned answers of all benchmarks. Pure."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Final, Literal, get_args

Kind = Literal["whole", "streamed", "alone", "firehose", "slow"]

SLUG = "bench-chat"
UPSTREAM_MODEL_ID = "vendor/bench-chat-2026"
EVENTS: Final[dict[Kind, int]] = {"streamed": 20, "alone": 200, "firehose": 20_000, "slow": 60}
"""How many events a stream has, including ``[DONE]`` at its end."""
PAUSE_S: Final[dict[Kind, float]] = {"alone": 0.002, "slow": 2.0}
"""How long the provider waits between two events. It does not wait in other kinds."""

_KIND = re.compile(rb"\[bench ([a-z]+)\]")

_WORDS = "The gateway forwards what the provider said and counts every token on the way. "
_USAGE = {"prompt_tokens": 24, "completion_tokens": 60, "total_tokens": 84}


@dataclass(frozen=True, slots=True)
class Target:
    """A server of chat-completion calls: its name in the table, its process and its port.

    With ``tls`` its clients use TLS. They do not verify its certificate. ``model`` is its name for the benchmark's
    model. ``headers`` are lines that it needs in addition to those of every call.
    """

    name: str
    pid: int
    port: int
    key: str = "none"
    tls: bool = False
    model: str = SLUG
    headers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """``calls`` calls of one kind over ``connections`` connections, with one in flight on each.

    Each connection serves many calls, or one if ``fresh``. With ``tls`` the clients use TLS.
    """

    kind: Kind
    connections: int
    calls: int
    fresh: bool = False
    tls: bool = False

    def __str__(self) -> str:
        plural = "s"[: self.connections > 1]
        return f"{self.kind}{', TLS' if self.tls else ''}, {self.connections} connection{plural}"


def request_bytes(kind: Kind, key: str, slug: str = SLUG, headers: Sequence[str] = ()) -> bytes:
    """Return one whole HTTP/1.1 call, like a small call of an SDK."""
    body: dict[str, Any] = {
        "model": slug,
        "messages": [
            {"role": "system", "content": f"You are a helpful assistant. [bench {kind}]"},
            {"role": "user", "content": "Say in one sentence what a gateway does."},
        ],
        "temperature": 0.7,
        "max_tokens": 256,
        "stream": kind != "whole",
    }
    if kind in EVENTS:
        body["stream_options"] = {"include_usage": True}
    payload = json.dumps(body).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\n"
        "Host: 127.0.0.1\r\n"
        f"Authorization: Bearer {key}\r\n"
        "Content-Type: application/json\r\n"
        "Accept: application/json\r\n"
        f"{''.join(f'{line}\r\n' for line in headers)}"
        f"Content-Length: {len(payload)}\r\n\r\n"
    )
    return head.encode() + payload


def request_to(target: Target, kind: Kind) -> bytes:
    """Return one whole call as ``target`` wants it."""
    return request_bytes(kind, target.key, target.model, target.headers)


def kind_of(request: bytes) -> Kind | None:
    """Return the kind that ``request`` names, or None if it names none."""
    found = _KIND.search(request)
    for kind in get_args(Kind):
        if found and kind.encode() == found[1]:
            return kind  # type: ignore[no-any-return]
    return None


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


def streamed_answer(events: int) -> list[bytes]:
    """Return the pieces of a streamed answer, one for each event. The first has the head, the last the body's end."""
    words = islice(cycle((_WORDS * 2).split()), events - 4)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word + " "} for word in words]
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
    """Return whether ``body``, without transfer coding, is all that the upstream sent."""
    if kind in EVENTS:
        # A relay may cut the pieces differently, but must lose no event and must keep the end.
        return body.count(b"data: ") == EVENTS[kind] and body.endswith(b"data: [DONE]\n\n")
    return body.endswith(b"}") and body.count(_WORDS.encode()) == 4 and b'"total_tokens"' in body


def _object(kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-bench0000000000000000",
        "object": kind,
        "created": 1_790_000_000,
        "model": UPSTREAM_MODEL_ID,
        "choices": choices,
    }
