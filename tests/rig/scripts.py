"""Scripts of the fake upstream: the steps of an answer as a tuple, and common answers.

The upstream writes ``bytes`` as one piece and waits for a ``Gate``. ``CLOSE``, ``RESET`` and ``UNTIL_CLIENT_LEAVES``
end the connection. At the end of a script the connection stays open for the next request.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Gate:
    """A pause of a script until the test opens it."""

    def __init__(self) -> None:
        self._opened: Future[None] = Future()

    def open(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    async def passed(self) -> None:
        await asyncio.shield(asyncio.wrap_future(self._opened))


class Ending(Enum):
    """The ways to end a connection."""

    CLOSE = "close"
    RESET = "reset"
    UNTIL_CLIENT_LEAVES = "until client leaves"


CLOSE, RESET, UNTIL_CLIENT_LEAVES = Ending.CLOSE, Ending.RESET, Ending.UNTIL_CLIENT_LEAVES

type Step = bytes | Gate | Ending
type Script = tuple[Step, ...]


@dataclass
class Received:
    """One received request: the ``nth`` (from 1) of its ``connection`` (from 1)."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    connection: int
    nth: int
    client_left: threading.Event = field(repr=False)

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        """Return the value of a header, joined if it is repeated, or None."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        return ", ".join(values) if values else None

    @property
    def header_names(self) -> set[str]:
        return {name.lower() for name, _ in self.headers}


type Behaviour = Callable[[Received], Script]


def response_head(status: int, headers: Iterable[tuple[str, str]] = (), reason: str = "Scripted") -> bytes:
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def whole(
    body: Any,
    status: int = 200,
    headers: Iterable[tuple[str, str]] = (),
    content_type: str | None = "application/json",
) -> Script:
    """Return an answer with a length. A ``body`` other than bytes is sent as JSON."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    typed = [("Content-Type", content_type)] if content_type else []
    return (response_head(status, [*typed, *headers, ("Content-Length", str(len(raw)))]) + raw,)


def http_chunk(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)


def chunked(
    *pieces: Step, status: int = 200, content_type: str | None = "text/event-stream", finish: bool = True
) -> Script:
    """Return a chunked answer. Each ``bytes`` step is one HTTP chunk and one write, with other steps between."""
    typed = [("Content-Type", content_type)] if content_type else []
    head = response_head(status, [*typed, ("Transfer-Encoding", "chunked")])
    steps = tuple(http_chunk(p) if isinstance(p, bytes) else p for p in pieces if p != b"")
    ending = () if not finish or (pieces and isinstance(pieces[-1], Ending)) else (b"0\r\n\r\n",)
    return (head, *steps, *ending)


def until_close(*pieces: Step, status: int = 200, content_type: str = "text/event-stream") -> Script:
    """Return an answer without a length. It ends with its connection."""
    head = response_head(status, [("Content-Type", content_type), ("Connection", "close")])
    return (head, *pieces, CLOSE)


def event(payload: Any) -> bytes:
    """Return an SSE event. A ``payload`` other than a str is sent as compact JSON."""
    text = payload if isinstance(payload, str) else json.dumps(payload, separators=(",", ":"))
    return f"data: {text}\n\n".encode()


DONE = event("[DONE]")


def chunk(
    content: str | None = None,
    *,
    finish: str | None = None,
    usage: Any = None,
    model: str = "vendor",
    **delta: Any,
) -> dict[str, Any]:
    """Return a chunk in the OpenAI shape. With only ``usage``, its choices are empty."""
    made: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": model,
    }
    if content is not None:
        delta["content"] = content
    bare = usage is not None and not delta and finish is None
    made["choices"] = [] if bare else [{"index": 0, "delta": delta, "finish_reason": finish}]
    if usage is not None:
        made["usage"] = usage
    return made


USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


def stream_of(*words: str, usage: Any = USAGE) -> Script:
    """Return an ordinary streamed answer with one write an event."""
    events = [event(chunk(word)) for word in words]
    tail = [event(chunk(finish="stop")), event(chunk(usage=usage)), DONE]
    return chunked(*events, *tail)


def completion(content: str | None = "hello", **changes: Any) -> dict[str, Any]:
    """Return an ordinary whole answer; ``changes`` replace top-level keys."""
    message = {"role": "assistant", "content": content}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "vendor-model-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": dict(USAGE),
    } | changes


def ordinary(request: Received) -> Script:
    """Answer like a healthy provider: with a stream if the request asks for one, otherwise with a completion."""
    streams = request.json().get("stream") is True
    return stream_of("hel", "lo") if streams else whole(completion())
