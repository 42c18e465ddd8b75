"""A simulated provider: OpenAI-shaped answers, faults by seed, and a log of what it really generated."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rig.simulation.http_messages import BrokenMessage, Head, body_pieces, chunk, read_head
from rig.simulation.run import World

TOKEN = "four"
"""Each of its tokens has four characters, as the estimates of the gateway have it."""
MOST_TOKENS = 16_384
_PIECE_TOKENS = 60
_FOREVER_S = 3_000.0

WEIGHTS: Mapping[str, int] = MappingProxyType(
    {
        "good": 60,
        "slow": 8,
        "closes after": 6,
        "429": 4,
        "500": 4,
        "401": 2,
        "reset before the head": 4,
        "reset after the head": 3,
        "reset in the body": 4,
        "closes in the body": 3,
        "silent": 3,
        "silent in the body": 3,
        "garbage": 3,
        "no usage": 3,
        "breaks off when finished": 4,
        "says more": 3,
    }
)
"""How often an answer meets each fate. "breaks off when finished": without usage, ``[DONE]`` and the message's end."""


@dataclass(slots=True)
class Generated:
    """What became of one request, ``call`` by its prompt. The tokens are what the provider would bill, as it goes."""

    call: str
    fate: str
    stream: bool
    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_ended: bool = False
    """The whole answer was written."""


class Provider:
    """Listens on a port of the world's network. A call names itself in its prompt: ``call-17``."""

    def __init__(self, world: World, weights: Mapping[str, int] = WEIGHTS) -> None:
        self._world = world
        self._weights = weights
        self.log: list[Generated] = []
        self.port = 0
        self.connections = 0
        self._tasks: dict[asyncio.Task[Any], None] = {}

    async def start(self) -> None:
        """Listen."""
        self._server: Any = await asyncio.start_server(self._serve, port=0)
        self.port = self._server.port

    async def stop(self) -> None:
        """Stop listening, and let go of every connection."""
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._server.abort_clients()
        await self._server.wait_closed()

    def fates(self) -> Counter[str]:
        """How many requests met each."""
        return Counter(generated.fate for generated in self.log)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task
        self._tasks[task] = None
        try:
            with suppress(ConnectionError, BrokenMessage, asyncio.CancelledError):
                while head := await read_head(reader):
                    body = b"".join([piece async for piece in body_pieces(reader, head)])
                    if not await self._answer(head, json.loads(body), writer):
                        break
        finally:
            writer.close()
            del self._tasks[task]

    async def _answer(self, head: Head, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection serves another."""
        random = self._world.random
        # Drawn whether needed or not: the same number for each request.
        fate = random.choices([*self._weights], [*self._weights.values()])[0]
        cap_tokens = body.get("max_completion_tokens") or body.get("max_tokens") or MOST_TOKENS
        tokens, at = random.randint(1, cap_tokens), random.random()
        prompt_tokens, pause_s = random.randint(1, 9), random.uniform(0.0, 0.3)
        named = re.search(r"call-\d+", json.dumps(body["messages"]))
        generated = Generated(named[0] if named else "", fate, bool(body.get("stream")))
        self.log.append(generated)
        if not await self._begins(fate, writer, random.uniform(0.01, 2.0)):
            return False
        if fate in ("429", "500", "401"):
            return await self._refuse(int(fate), writer)
        generated.prompt_tokens = prompt_tokens
        answer = _Answer(writer, generated, tokens, at, pause_s)
        await (answer.stream() if generated.stream else answer.whole())
        return fate not in ("closes after", "says more") and generated.is_ended

    async def _begins(self, fate: str, writer: asyncio.StreamWriter, thinks_s: float) -> bool:
        """Whether an answer follows at all."""
        transport: Any = writer.transport
        await asyncio.sleep(thinks_s if fate != "silent" else _FOREVER_S)
        if fate == "garbage":
            writer.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        elif fate == "reset before the head":
            transport.reset()
        else:
            return fate != "silent"
        return False

    async def _refuse(self, status: int, writer: asyncio.StreamWriter) -> bool:
        body = json.dumps({"error": {"message": f"refused with {status}", "type": "refused"}}).encode()
        writer.write(_head(f"{status} Refused", "application/json", f"content-length: {len(body)}") + body)
        await writer.drain()
        return True


class _Answer:
    """One completion on its way, ``at`` the part of it where its fate strikes."""

    def __init__(
        self, writer: asyncio.StreamWriter, generated: Generated, tokens: int, at: float, pause_s: float
    ) -> None:
        self._writer, self._generated, self._tokens = writer, generated, tokens
        self._fate, self._at, self._pause_s = generated.fate, at, pause_s

    async def whole(self) -> None:
        """Send it as one JSON object."""
        self._generated.completion_tokens = self._tokens
        message = {"role": "assistant", "content": TOKEN * self._tokens}
        body = json.dumps(self._object("chat.completion", message=message, finish_reason="stop")).encode()
        self._writer.write(_head("200 OK", "application/json", f"content-length: {len(body)}"))
        cut = int(len(body) * self._at)
        if self._fate == "reset after the head" or self._strikes_in_the_body:
            self._writer.write(body[: 0 if self._fate == "reset after the head" else cut])
            await self._strike()
            return
        if self._fate == "slow":
            self._writer.write(body[:cut])
            await asyncio.sleep(self._pause_s * 20)
            body = body[cut:]
        await self._end(body)

    async def stream(self) -> None:
        """Send it as events, the first with the role, the last with the usage."""
        self._writer.write(_head("200 OK", "text/event-stream", "transfer-encoding: chunked"))
        if self._fate == "reset after the head":
            await self._strike()
            return
        await self._send(self._object("chat.completion.chunk", delta={"role": "assistant", "content": ""}))
        left, random_at = self._tokens, int(self._tokens * self._at)
        while left:
            size = min(left, max(1, int(_PIECE_TOKENS * (0.2 + self._at))))
            self._generated.completion_tokens += size
            left -= size
            await self._send(self._object("chat.completion.chunk", delta={"content": TOKEN * size}))
            await asyncio.sleep(self._pause_s * 20 if self._fate == "slow" else self._pause_s / 10)
            if self._strikes_in_the_body and left <= random_at:
                await self._strike()
                return
        await self._send(self._object("chat.completion.chunk", delta={}, finish_reason="stop"))
        if self._fate == "breaks off when finished":
            return
        if self._fate != "no usage":
            await self._send(self._object("chat.completion.chunk") | {"usage": self._usage()})
        await self._end(chunk(b"data: [DONE]\n\n") + chunk(b""))

    @property
    def _strikes_in_the_body(self) -> bool:
        return self._fate in ("reset in the body", "closes in the body", "silent in the body")

    async def _strike(self) -> None:
        transport: Any = self._writer.transport
        await self._writer.drain()
        if self._fate == "silent in the body":
            await asyncio.sleep(_FOREVER_S)
        elif self._fate != "closes in the body":
            transport.reset()

    async def _send(self, event: dict[str, Any]) -> None:
        self._writer.write(chunk(b"data: " + json.dumps(event).encode() + b"\n\n"))
        await self._writer.drain()

    async def _end(self, last: bytes) -> None:
        if self._fate == "says more":
            last += _head("200 OK", "application/json", "content-length: 8") + b'{"a": 1}'
        self._writer.write(last)
        await self._writer.drain()
        self._generated.is_ended = True

    def _object(self, kind: str, **choice: Any) -> dict[str, Any]:
        choices = [{"index": 0, "finish_reason": None} | choice] if choice else []
        made = {"id": f"chatcmpl-{self._generated.call}", "object": kind, "created": 1, "model": "simulated"}
        usage = {"usage": self._usage()} if kind == "chat.completion" and self._fate != "no usage" else {}
        return made | {"choices": choices} | usage

    def _usage(self) -> dict[str, int]:
        prompt_tokens, completion_tokens = self._generated.prompt_tokens, self._generated.completion_tokens
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        }


def _head(status: str, content_type: str, framing: str) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\n{framing}\r\n\r\n".encode()
