"""Client connections and the pool, joined by a minimal relay on a simulated network with faults, for many seeds."""

from collections import Counter

from rig.conservation import assert_pool_empty
from rig.simulation import Faults, World, compare, simulate
from rig.simulation.clients import Answer, call_in_pairs
from rig.simulation.provider import Generated, Provider
from rig.simulation.wire_server import WireServer, refuse

from addon.runtime.deadline import within
from addon.text.http_heads import Headers, Response, ResponseHead
from addon.upstream.connection import UpstreamConnection
from addon.upstream.connection_error import UpstreamConnectionError
from addon.upstream.connector import SocketConnector
from addon.upstream.origin import Origin, Unreachable
from addon.upstream.pool import Pool, PoolFull, PoolLimits
from addon.wire.connection import WireSettings
from addon.wire.stream import ClientLeft, Stream
from policies.resend import may_send_again

CALLS = 40
READ_TIMEOUT_S = 120.0
CLIENT_LINK = Faults(
    latency_s=(0.0005, 0.1),
    piece_bytes=(1, 3_000),
    buffer_bytes=(500, 20_000),
    reset=0.05,
    stalled=0.1,
    half_closed=0.03,
)
PROVIDER_LINK = Faults(
    latency_s=(0.001, 0.3),
    piece_bytes=(1, 4_000),
    buffer_bytes=(500, 20_000),
    after_bytes=(0, 20_000),
    refused=0.05,
    slow_connect=0.1,
    reset=0.1,
    stalled=0.1,
    stall_s=(1, 300),
    half_closed=0.05,
)
JSON = Headers([("content-type", "application/json")])


class Relay:
    """A relay that passes on a call and its answer unchanged."""

    def __init__(self, pool: Pool, port: int) -> None:
        self._pool = pool
        self._origin = Origin("http", "127.0.0.1", port)
        self.ended: Counter[str] = Counter()

    async def serve(self, stream: Stream) -> None:
        try:
            body = b""
            with stream.while_connected():
                while piece := await stream.read():
                    body += piece
            self.ended[await self._relay(stream, body)] += 1
        except ClientLeft:
            self.ended["left"] += 1

    async def _relay(self, stream: Stream, body: bytes) -> str:
        for is_last in (False, True):
            try:
                with stream.while_connected():
                    connection = await self._pool.acquire(self._origin, "acme", 10.0, fresh=is_last)
            except (Unreachable, PoolFull) as error:
                return await self._fail(stream, type(error).__name__)
            try:
                async with within(READ_TIMEOUT_S):
                    return await self._exchange(stream, connection, body)
            except UpstreamConnectionError as error:
                if may_send_again(error.lost, int(is_last)):
                    continue
                return await self._fail(stream, "broke")
            except TimeoutError:
                return await self._fail(stream, "timeout")
            finally:
                connection.close()
        raise AssertionError("unreachable")

    async def _exchange(self, stream: Stream, connection: UpstreamConnection, body: bytes) -> str:
        head = b"POST / HTTP/1.1\r\nhost: provider\r\ncontent-length: %d\r\n\r\n" % len(body)
        with stream.while_connected():
            connection.send(head, body)
            answer = await connection.head()
            stream.begin(ResponseHead(answer.status, answer.headers))
            while piece := await connection.read():
                await stream.send(piece)
        connection.release()
        await stream.end()
        return "whole"

    async def _fail(self, stream: Stream, why: str) -> str:
        if stream.is_answered:
            stream.abort()
        else:
            await stream.respond(Response(502, JSON, b'{"error": {}}'))
        return why


async def many_calls(world: World) -> tuple[list[Answer], list[Generated], Counter[str], int]:
    """Let each customer make two calls on its own connection, at random times."""
    provider = Provider(world)
    await provider.start()
    pool = Pool(SocketConnector(), PoolLimits(open_per_origin=8, idle_per_origin=4))
    relay = Relay(pool, provider.port)
    server = WireServer(world, relay.serve, WireSettings(refuse, clock=world.clock))
    await server.start()
    world.network.faults |= {server.port: CLIENT_LINK, provider.port: PROVIDER_LINK}

    answers = await call_in_pairs(world, server.port, "simulated", CALLS, longest_pause_s=60)
    await server.stop()
    await pool.close()
    assert_pool_empty(pool)
    await provider.stop()
    return answers, provider.log, relay.ended, pool.stats().opened


def test_no_call_gets_the_answer_of_another_and_no_connection_is_left():
    runs = [simulate(seed, many_calls) for seed in range(5)]
    ended: Counter[str] = Counter()
    for ran in runs:
        assert (ran.errors, ran.left) == ([], []), f"seed {ran.seed}"
        answers, log, how, opened = ran.result
        ended += how
        assert opened <= len(log) + how["Unreachable"] + how["broke"] + how["left"]
        for answer in answers:
            # Bytes after an answer may arrive so late that they look like the next answer.
            if answer.is_complete and b"chatcmpl" in answer.body:
                assert f'chatcmpl-{answer.call}"'.encode() in answer.body, f"seed {ran.seed}: {answer}"
                sent = [one.completion_tokens for one in log if one.call == answer.call]
                assert len(answer.text) // 4 in sent, f"seed {ran.seed}: {answer}"
    assert set(ended) == {"whole", "left", "broke", "timeout", "Unreachable"}
    assert ended["whole"] > CALLS * len(runs) / 3
    assert compare(runs[3], simulate(3, many_calls)) == ""
