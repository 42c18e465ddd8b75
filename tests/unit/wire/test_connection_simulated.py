"""The gateway's client connections on a simulated network with faults, for many seeds."""

import asyncio
import json
from collections import Counter

from rig.simulation import Faults, World, compare, simulate
from rig.simulation.clients import Answer, call_in_pairs, draw_behaviour
from rig.simulation.http2_client import Http2Client
from rig.simulation.wire_server import WireServer, refuse

from addon.text.http_heads import Headers, Response, ResponseHead
from addon.wire.connection import WireSettings
from addon.wire.http2 import Http2Connection
from addon.wire.stream import ClientLeft, Stream

FAULTY = Faults(
    latency_s=(0.0005, 0.2),
    piece_bytes=(1, 1_500),
    buffer_bytes=(200, 8_000),
    after_bytes=(0, 1_500),
    reset=0.1,
    stalled=0.1,
    stall_s=(1, 60),
    half_closed=0.05,
    refused=0.02,
    slow_connect=0.1,
)
CALLS = 40


class NameServer:
    """A server that answers each call with its name, many times, whole or streamed."""

    def __init__(self, world: World) -> None:
        self._random = world.random
        self.ended: Counter[str] = Counter()

    async def serve(self, stream: Stream) -> None:
        try:
            with stream.while_connected():
                fields = json.loads(await self._body(stream))
                await asyncio.sleep(self._random.random())
            words = [f"{fields['user']} "] * self._random.randint(1, 300)
            await (self._stream if fields["stream"] else self._whole)(stream, words)
            self.ended[fields["user"]] += 1
        except ClientLeft:
            self.ended["left"] += 1

    async def _body(self, stream: Stream) -> bytes:
        body = b""
        while piece := await stream.read():
            body += piece
        return body

    async def _whole(self, stream: Stream, words: list[str]) -> None:
        body = json.dumps({"choices": [{"message": {"content": "".join(words)}}]}).encode()
        await stream.respond(Response(200, Headers([("content-type", "application/json")]), body))

    async def _stream(self, stream: Stream, words: list[str]) -> None:
        stream.begin(ResponseHead(200, Headers([("content-type", "text/event-stream")])))
        for word in words:
            event = json.dumps({"choices": [{"delta": {"content": word}}]}).encode()
            with stream.while_connected():
                await stream.send(b"data: " + event + b"\n\n")
                await asyncio.sleep(self._random.random() / 20)
        await stream.end(b"data: [DONE]\n\n")


async def many_calls(world: World) -> list[Answer]:
    """Let each client make two calls on one connection."""
    name_server = NameServer(world)
    server = WireServer(world, name_server.serve, WireSettings(refuse, clock=world.clock))
    await server.start()
    world.network.faults[server.port] = FAULTY

    answers = await call_in_pairs(world, server.port, "name_server", CALLS, longest_pause_s=20)
    await server.stop()
    assert not any(connection.stream_count for connection in server.connections)
    return answers


async def many_calls_of_http2(world: World) -> list[Answer]:
    """Let eight clients make five calls each on one connection."""
    name_server = NameServer(world)
    server = WireServer(world, name_server.serve, WireSettings(refuse, clock=world.clock), Http2Connection)
    await server.start()
    world.network.faults[server.port] = FAULTY

    async def customer(first: int) -> list[Answer]:
        await asyncio.sleep(world.random.uniform(0, 20))
        try:
            _, client = await world.loop.create_connection(Http2Client, "127.0.0.1", server.port)
        except ConnectionRefusedError:
            return []

        async def one(number: int) -> Answer:
            await asyncio.sleep(world.random.uniform(0, 3))
            return await client.call(f"call-{number}", draw_behaviour(world.random))

        answers = await asyncio.gather(*map(one, range(first, first + 5)))
        await client.close()
        return answers

    answers = [one for own in await asyncio.gather(*map(customer, range(0, CALLS, 5))) for one in own]
    await server.stop()
    assert not any(connection.stream_count for connection in server.connections)
    return answers


def test_every_http2_client_gets_the_answer_of_its_own_call_and_nothing_is_left():
    runs = [simulate(seed, many_calls_of_http2) for seed in range(2)]
    endings: Counter[str] = Counter()
    for ran in runs:
        assert (ran.errors, ran.left) == ([], []), f"seed {ran.seed}"
        for answer in ran.result:
            endings[answer.ending] += 1
            assert answer.ending != "whole" or answer.is_complete, answer
            if answer.is_complete:
                assert set(answer.text.split()) == {answer.call}, f"seed {ran.seed}"
    assert endings["whole"] > len(runs) * CALLS / 4
    assert {"left", "BrokenMessage"} <= set(endings)
    assert compare(runs[1], simulate(1, many_calls_of_http2)) == ""


def test_every_client_gets_the_answer_of_its_own_call_and_nothing_is_left():
    runs = [simulate(seed, many_calls) for seed in range(4)]
    endings: Counter[str] = Counter()
    for ran in runs:
        assert (ran.errors, ran.left) == ([], []), f"seed {ran.seed}"
        for answer in ran.result:
            endings[answer.ending] += 1
            assert answer.ending != "whole" or (answer.is_complete or answer.status == 408), answer
            if answer.is_complete:
                assert set(answer.text.split()) == {answer.call}, f"seed {ran.seed}"
    assert endings["whole"] > len(runs) * CALLS / 3
    assert {"left", "ConnectionResetError", "BrokenMessage", "ConnectionRefusedError"} <= set(endings)
    assert compare(runs[3], simulate(3, many_calls)) == ""
