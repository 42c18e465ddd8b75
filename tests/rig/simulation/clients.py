"""Simulated clients of HTTP/1.1: they make whole or streamed calls, read at their own speed, and may leave."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from rig.simulation.http_messages import BrokenMessage, Head, body_pieces, read_head
from rig.simulation.run import World

CALL_TIMEOUT_S = 5_000.0
"""A call that takes longer hangs: every bound of a gateway is shorter."""


@dataclass(frozen=True, slots=True)
class ClientBehaviour:
    """The behaviour of the client in one call."""

    stream: bool
    cap_tokens: int | None
    include_usage: bool
    leaves_after_s: float | None
    leaves_by: str
    """``abort``, ``close`` or ``half-close``."""
    read_bytes: int
    """How much it reads at a time."""
    read_pause_s: float
    """How long it waits between two reads: 0 unless it is slow."""


def draw_behaviour(
    random: Random, most_tokens: int = 1_000, leaves: float = 0.25, slow: float = 0.2
) -> ClientBehaviour:
    """Draw a behaviour. The number of draws is always the same."""
    stream, include_usage = random.random() < 0.5, random.random() < 0.5
    cap_tokens = random.randint(1, most_tokens) if random.random() < 0.8 else None
    does_leave, leaves_after_s = random.random() < leaves, random.expovariate(1 / 1.5)
    leaves_by = random.choice(("abort", "close", "half-close"))
    is_slow, read_bytes = random.random() < slow, random.randint(100, 4_000)
    pause_s = random.uniform(0.01, 2.0)
    return ClientBehaviour(
        stream,
        cap_tokens,
        stream and include_usage,
        leaves_after_s if does_leave else None,
        leaves_by,
        read_bytes if is_slow else 65_536,
        pause_s if is_slow else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer that a client received. ``ending`` is ``whole`` if the message is complete, else how it ended."""

    call: str
    ending: str
    status: int | None = None
    request_id: str | None = None
    body: bytes = b""

    @property
    def _is_stream(self) -> bool:
        return self.body.startswith((b"data:", b":"))

    @property
    def events(self) -> list[Any]:
        """The events of a stream, ``[DONE]`` as that text."""
        lines = [line[6:] for line in self.body.decode().split("\n\n") if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]

    @property
    def is_complete(self) -> bool:
        """Whether the answer is complete and not an error."""
        if self.ending != "whole" or self.status != 200:
            return False
        return not self._is_stream or self.events[-1] == "[DONE]"

    @property
    def usage(self) -> dict[str, int] | None:
        """The usage in the answer."""
        if self.status != 200 or not self.body:
            return None
        if not self._is_stream:
            return dict(json.loads(self.body)).get("usage")
        shown = [event["usage"] for event in self.events if event != "[DONE]" and event.get("usage")]
        return shown[0] if shown else None

    @property
    def text(self) -> str:
        """The model's text, as far as it arrived. An incomplete JSON object has none."""
        if not self._is_stream:
            return (
                ""
                if self.ending != "whole"
                else str(json.loads(self.body)["choices"][0]["message"]["content"])
            )
        choices = [event["choices"] for event in self.events if event != "[DONE]" and event.get("choices")]
        return "".join(choice[0]["delta"].get("content") or "" for choice in choices)

    @property
    def error_code(self) -> str | None:
        """The code of the error in the answer, whole or in its stream."""
        objects = self.events if self._is_stream else [json.loads(self.body or b"{}")]
        codes = [one["error"].get("code") for one in objects if isinstance(one, dict) and "error" in one]
        return codes[0] if codes else None


class Client:
    """One connection of a customer to the gateway at ``port``. It opens with the first call."""

    def __init__(self, port: int, key: str, model: str) -> None:
        self._port, self._key, self._model = port, key, model
        self._writer: asyncio.StreamWriter | None = None
        self._head: Head | None = None
        self._body = bytearray()

    async def call(self, call: str, behaviour: ClientBehaviour) -> Answer:
        """Make a call named ``call``. The name is its ``user`` and is in its prompt."""
        self._head = None
        self._body.clear()
        async with asyncio.timeout(CALL_TIMEOUT_S):
            ending = await self._ending(call, behaviour)
        head = self._head
        request_id = head.fields.get("x-request-id") if head else None
        return Answer(call, ending, head.status if head else None, request_id, bytes(self._body))

    async def close(self) -> None:
        """End the connection."""
        writer, self._writer = self._writer, None
        if writer:
            writer.close()
            with _collect_ending():
                await writer.wait_closed()

    async def _ending(self, call: str, behaviour: ClientBehaviour) -> str:
        with _collect_ending() as endings:
            try:
                async with asyncio.timeout(behaviour.leaves_after_s):
                    await self._exchange(call, behaviour)
                    endings.append("whole")
            except TimeoutError:
                endings.append("left")
                await self._leave(behaviour.leaves_by)
        if endings[-1] != "whole":
            await self.close()
        return endings[-1]

    async def _exchange(self, call: str, behaviour: ClientBehaviour) -> None:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                "127.0.0.1", self._port, limit=behaviour.read_bytes
            )
        self._writer.write(self._request(call, behaviour))
        await self._writer.drain()
        received = asyncio.StreamReader()
        feeder = asyncio.create_task(_feed(self._reader, received, behaviour))
        try:
            await self._read_answer(received)
        finally:
            feeder.cancel()
            with suppress(asyncio.CancelledError):
                await feeder

    async def _read_answer(self, reader: asyncio.StreamReader) -> None:
        self._head = await read_head(reader)
        if self._head is None:
            raise BrokenMessage("no answer")
        async for piece in body_pieces(reader, self._head):
            self._body += piece
        if not reader.at_eof() and getattr(reader, "_buffer", b""):
            raise BrokenMessage("more came than one answer")

    async def _leave(self, leaves_by: str) -> None:
        """Leave. A client that half-closes reads until the end."""
        if self._writer is None:
            return
        if leaves_by == "abort":
            self._writer.transport.abort()
        elif leaves_by == "half-close":
            self._writer.write_eof()
            while await self._reader.read(65_536):
                pass

    def _request(self, call: str, behaviour: ClientBehaviour) -> bytes:
        fields: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "user", "content": f"This is {call}."}],
            "user": call,
            "stream": behaviour.stream,
        }
        if behaviour.cap_tokens is not None:
            fields["max_tokens"] = behaviour.cap_tokens
        if behaviour.include_usage:
            fields["stream_options"] = {"include_usage": True}
        body = json.dumps(fields).encode()
        lines = (
            "POST /v1/chat/completions HTTP/1.1",
            "host: gateway.example",
            f"authorization: Bearer {self._key}",
            "content-type: application/json",
            f"content-length: {len(body)}",
        )
        return "\r\n".join((*lines, "", "")).encode() + body


async def call_in_pairs(
    world: World, port: int, model: str, calls: int, longest_pause_s: float
) -> list[Answer]:
    """Let each client make two of ``calls`` on its own connection, at random times."""

    async def call_twice(first: int) -> list[Answer]:
        client = Client(port, "no-key", model)
        answers = []
        for number in range(first, first + 2):
            await asyncio.sleep(world.random.uniform(0, longest_pause_s))
            answers.append(await client.call(f"call-{number}", draw_behaviour(world.random)))
        await client.close()
        return answers

    return [one for both in await asyncio.gather(*map(call_twice, range(0, calls, 2))) for one in both]


async def _feed(
    reader: asyncio.StreamReader, received: asyncio.StreamReader, behaviour: ClientBehaviour
) -> None:
    """Pass on bytes as fast as the client reads. The rest stays in the network."""
    try:
        while piece := await reader.read(behaviour.read_bytes):
            received.feed_data(piece)
            await asyncio.sleep(behaviour.read_pause_s)
        received.feed_eof()
    except ConnectionError as error:
        received.set_exception(error)


@contextmanager
def _collect_ending() -> Iterator[list[str]]:
    """Collect an error as the last ending."""
    endings: list[str] = []
    try:
        yield endings
    except (ConnectionError, BrokenMessage) as error:
        endings.append(type(error).__name__)
