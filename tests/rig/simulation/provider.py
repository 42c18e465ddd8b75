"""A simulated provider: OpenAI-shaped answers, outcomes by seed, and a log of what it generated."""

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
"""A token of four characters, like in the gateway's estimates."""
MOST_TOKENS = 16_384
_PIECE_TOKENS = 60
LATE_END_S = 0.5
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
        "sends more": 3,
    }
)
"""The weight of each outcome. "breaks off when finished": without usage, ``[DONE]`` and the end of the message.

A provider of one fate may also have "503", or "closes unanswered": it reads the request, works, and closes. Or
"ends late": it ends the message of a stream a while after ``[DONE]``.
"""


@dataclass(slots=True)
class Generated:
    """The outcome of one request. ``call`` is from its prompt. The tokens are what the provider would bill so far."""

    call: str
    outcome: str
    stream: bool
    prompt_tokens: int = 0
    completion_tokens: int = 0
    arrived_s: float = 0.0
    """When the request was there, by the loop's clock."""
    is_ended: bool = False
    """The whole answer was written."""


class Provider:
    """A provider on a port of the world's network. The prompt of a call has its name: ``call-17``."""

    def __init__(self, world: World, weights: Mapping[str, int] = WEIGHTS) -> None:
        self._world = world
        self.weights = weights
        self.unanswered_after_s = 5.0
        """How long it works on a request before it "closes unanswered"."""
        self.log: list[Generated] = []
        self.port = 0
        self.connections = 0
        self._tasks: dict[asyncio.Task[Any], None] = {}

    async def start(self) -> None:
        """Listen."""
        self._server: Any = await asyncio.start_server(self._serve, port=0)
        self.port = self._server.port

    async def stop(self) -> None:
        """Stop listening, and abort every connection."""
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._server.abort_clients()
        await self._server.wait_closed()

    def outcomes(self) -> Counter[str]:
        """Return how many requests had each outcome."""
        return Counter(generated.outcome for generated in self.log)

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
        """Answer one request. Return whether the connection serves another."""
        random = self._world.random
        # The number of draws is the same for each request.
        outcome = random.choices([*self.weights], [*self.weights.values()])[0]
        cap_tokens = body.get("max_completion_tokens") or body.get("max_tokens") or MOST_TOKENS
        tokens, at = random.randint(1, cap_tokens), random.random()
        prompt_tokens, pause_s = random.randint(1, 9), random.uniform(0.0, 0.3)
        named = re.search(r"call-\d+", json.dumps(body["messages"]))
        generated = Generated(named[0] if named else "", outcome, bool(body.get("stream")))
        generated.arrived_s = self._world.loop.time()
        self.log.append(generated)
        if not await self._starts_answer(outcome, writer, random.uniform(0.01, 2.0)):
            return False
        if outcome in ("429", "500", "503", "401"):
            return await self._refuse(int(outcome), writer)
        generated.prompt_tokens = prompt_tokens
        answer = _Answer(writer, generated, tokens, at, pause_s)
        await (answer.stream() if generated.stream else answer.whole())
        return outcome not in ("closes after", "sends more") and generated.is_ended

    async def _starts_answer(self, outcome: str, writer: asyncio.StreamWriter, delay_s: float) -> bool:
        """Return whether an answer follows at all."""
        transport: Any = writer.transport
        await asyncio.sleep(
            {"silent": _FOREVER_S, "closes unanswered": self.unanswered_after_s}.get(outcome, delay_s)
        )
        if outcome == "closes unanswered":
            return False
        if outcome == "garbage":
            writer.write(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        elif outcome == "reset before the head":
            transport.reset()
        else:
            return outcome != "silent"
        return False

    async def _refuse(self, status: int, writer: asyncio.StreamWriter) -> bool:
        body = json.dumps({"error": {"message": f"refused with {status}", "type": "refused"}}).encode()
        writer.write(_head(f"{status} Refused", "application/json", f"content-length: {len(body)}") + body)
        await writer.drain()
        return True


class _Answer:
    """One completion. ``at`` is the part of it after which a fault happens."""

    def __init__(
        self, writer: asyncio.StreamWriter, generated: Generated, tokens: int, at: float, pause_s: float
    ) -> None:
        self._writer, self._generated, self._tokens = writer, generated, tokens
        self._outcome, self._at, self._pause_s = generated.outcome, at, pause_s

    async def whole(self) -> None:
        """Send the completion as one JSON object."""
        self._generated.completion_tokens = self._tokens
        message = {"role": "assistant", "content": TOKEN * self._tokens}
        body = json.dumps(self._object("chat.completion", message=message, finish_reason="stop")).encode()
        self._writer.write(_head("200 OK", "application/json", f"content-length: {len(body)}"))
        cut = int(len(body) * self._at)
        if self._outcome == "reset after the head" or self._fails_in_the_body:
            self._writer.write(body[: 0 if self._outcome == "reset after the head" else cut])
            await self._fail()
            return
        if self._outcome == "slow":
            self._writer.write(body[:cut])
            await asyncio.sleep(self._pause_s * 20)
            body = body[cut:]
        await self._end(body)

    async def stream(self) -> None:
        """Send the completion as events. The first has the role, the last the usage."""
        self._writer.write(_head("200 OK", "text/event-stream", "transfer-encoding: chunked"))
        if self._outcome == "reset after the head":
            await self._fail()
            return
        await self._send(self._object("chat.completion.chunk", delta={"role": "assistant", "content": ""}))
        left, random_at = self._tokens, int(self._tokens * self._at)
        while left:
            size = min(left, max(1, int(_PIECE_TOKENS * (0.2 + self._at))))
            self._generated.completion_tokens += size
            left -= size
            await self._send(self._object("chat.completion.chunk", delta={"content": TOKEN * size}))
            await asyncio.sleep(self._pause_s * 20 if self._outcome == "slow" else self._pause_s / 10)
            if self._fails_in_the_body and left <= random_at:
                await self._fail()
                return
        await self._send(self._object("chat.completion.chunk", delta={}, finish_reason="stop"))
        if self._outcome == "breaks off when finished":
            return
        if self._outcome != "no usage":
            await self._send(self._object("chat.completion.chunk") | {"usage": self._usage()})
        last = chunk(b"data: [DONE]\n\n")
        if self._outcome == "ends late":
            self._writer.write(last)
            await asyncio.sleep(LATE_END_S)
            last = b""
        await self._end(last + chunk(b""))

    @property
    def _fails_in_the_body(self) -> bool:
        return self._outcome in ("reset in the body", "closes in the body", "silent in the body")

    async def _fail(self) -> None:
        transport: Any = self._writer.transport
        await self._writer.drain()
        if self._outcome == "silent in the body":
            await asyncio.sleep(_FOREVER_S)
        elif self._outcome != "closes in the body":
            transport.reset()

    async def _send(self, event: dict[str, Any]) -> None:
        self._writer.write(chunk(b"data: " + json.dumps(event).encode() + b"\n\n"))
        await self._writer.drain()

    async def _end(self, last: bytes) -> None:
        if self._outcome == "sends more":
            last += _head("200 OK", "application/json", "content-length: 8") + b'{"a": 1}'
        self._writer.write(last)
        await self._writer.drain()
        self._generated.is_ended = True

    def _object(self, kind: str, **choice: Any) -> dict[str, Any]:
        choices = [{"index": 0, "finish_reason": None} | choice] if choice else []
        made = {"id": f"chatcmpl-{self._generated.call}", "object": kind, "created": 1, "model": "simulated"}
        usage = {"usage": self._usage()} if kind == "chat.completion" and self._outcome != "no usage" else {}
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
