"""What the fake upstream does with a request, as a tuple of steps, and the answers that tests are made of.

``bytes`` are written as one piece; a ``Gate`` is waited for; ``CLOSE``, ``RESET`` and ``UNTIL_CLIENT_LEAVES``
end the connection. A script that runs out leaves the connection open for the next request.
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
    """Holds a script until the test opens it."""

    def __init__(self) -> None:
        self._opened: Future[None] = Future()

    def open(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    async def passed(self) -> None:
        await asyncio.shield(asyncio.wrap_future(self._opened))


class Ending(Enum):
    """How a script ends a connection."""

    CLOSE = "close"
    RESET = "reset"
    UNTIL_CLIENT_LEAVES = "until client leaves"


CLOSE, RESET, UNTIL_CLIENT_LEAVES = Ending.CLOSE, Ending.RESET, Ending.UNTIL_CLIENT_LEAVES

type Step = bytes | Gate | Ending
type Script = tuple[Step, ...]


@dataclass
class Received:
    """One request as it came over the wire, ``nth`` (from 1) on its ``connection`` (from 1)."""

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
        """The value of one header, joined when repeated, or None."""
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
    """An answer with a length; ``body`` is bytes as they are, or anything else as JSON."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    typed = [("Content-Type", content_type)] if content_type else []
    return (response_head(status, [*typed, *headers, ("Content-Length", str(len(raw)))]) + raw,)


def http_chunk(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)


def chunked(
    *pieces: Step, status: int = 200, content_type: str | None = "text/event-stream", finish: bool = True
) -> Script:
    """A chunked answer: every ``bytes`` step is one HTTP chunk and one write; other steps stand between."""
    typed = [("Content-Type", content_type)] if content_type else []
    head = response_head(status, [*typed, ("Transfer-Encoding", "chunked")])
    steps = tuple(http_chunk(p) if isinstance(p, bytes) else p for p in pieces if p != b"")
    ending = () if not finish or (pieces and isinstance(pieces[-1], Ending)) else (b"0\r\n\r\n",)
    return (head, *steps, *ending)


def until_close(*pieces: Step, status: int = 200, content_type: str = "text/event-stream") -> Script:
    """An answer that has no length and ends with its connection."""
    head = response_head(status, [("Content-Type", content_type), ("Connection", "close")])
    return (head, *pieces, CLOSE)


def event(payload: Any) -> bytes:
    """One SSE event; ``payload`` is a str as it is, or anything else as compact JSON."""
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
    """One OpenAI-shaped chunk; with ``usage`` alone, the chunk whose choices are empty."""
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
    """An ordinary streamed answer, one write an event."""
    events = [event(chunk(word)) for word in words]
    tail = [event(chunk(finish="stop")), event(chunk(usage=usage)), DONE]
    return chunked(*events, *tail)


def completion(content: str | None = "hello", **changes: Any) -> dict[str, Any]:
    """An ordinary whole answer, as a provider words it; ``changes`` replace top-level keys."""
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
    """What a healthy provider answers: a stream when a stream was asked for, otherwise a whole completion."""
    streams = request.json().get("stream") is True
    return stream_of("hel", "lo") if streams else whole(completion())
