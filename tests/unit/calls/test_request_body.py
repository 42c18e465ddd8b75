"""The length of a request body: what is declared is checked before it is read, and what is read is counted."""

import asyncio
from pathlib import Path

import pytest
from rig.attempt_runs import KEY
from rig.call_stages import make_dependencies
from rig.simulation import World, simulate
from rig.simulation.http_messages import chunk
from rig.simulation.wire_server import WireServer, refuse

from addon.calls.call import admit, begin
from addon.calls.request_body import check_size, declared_length, read_request
from addon.settings.settings import Settings
from addon.text.http_heads import Headers, RequestHead
from addon.wire.connection import WireSettings
from addon.wire.stream import Stream
from policies.refusal import Refusal

BODY = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'
DECLARED = b"content-length: %d" % len(BODY)
CHUNKED = b"transfer-encoding: chunked"


def head(length: str) -> RequestHead:
    return RequestHead("POST", "/", "1.1", Headers([("content-length", length)]))


@pytest.mark.parametrize(("text", "length"), [("17", 17), ("0", 0), ("", 0), ("-1", 0), ("1e3", 0)])
def test_a_declared_length_is_a_plain_number(text: str, length: int) -> None:
    assert declared_length(head(text)) == length


def test_a_declared_length_above_the_limit_is_refused() -> None:
    check_size(head("10"), 10)
    with pytest.raises(Refusal, match="exceeds 10 bytes") as refused:
        check_size(head("11"), 10)
    assert refused.value.code == "request_too_large"


def read_in_pieces(settings: Settings, database: Path, framing: bytes, pieces: list[bytes]) -> int | str:
    """Return how many bytes are counted of a body that arrives like this, or why it is refused."""

    async def main(world: World) -> int | str:
        deps = make_dependencies(settings, database, world.clock)
        counted: asyncio.Future[int | str] = world.loop.create_future()

        async def serve(stream: Stream) -> None:
            call = begin(deps)
            await admit(call, stream.head, deps)
            try:
                await read_request(call, stream, deps.bodies)
                counted.set_result(call.counted_bytes)
            except Refusal as refusal:
                counted.set_result(refusal.code)
            deps.in_flight.refuse(call, 400, "bad_request")
            await stream.respond(refuse(Refusal("bad_request", "no")))

        server = WireServer(world, serve, WireSettings(refuse, clock=world.clock))
        await server.start()
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        lines = (b"POST /v1/chat/completions HTTP/1.1", b"host: gateway.example", framing)
        key = b"authorization: Bearer " + KEY.encode()
        head = b"\r\n".join((*lines, key, b"content-type: application/json", b"", b""))
        for piece in (head + pieces[0], *pieces[1:]):
            writer.write(piece)
            await asyncio.sleep(0.5)
        found = await counted
        writer.close()
        await server.stop()
        await deps.in_flight.close()
        await deps.pool.close()
        await deps.store.close()
        return found

    return simulate(1, main).result


@pytest.mark.parametrize(
    ("framing", "pieces"),
    [
        (DECLARED, [BODY]),
        (DECLARED, [b"", BODY]),
        (CHUNKED, [chunk(BODY) + chunk(b"")]),
        (CHUNKED, [b"", chunk(BODY[:9]), chunk(BODY[9:]), chunk(b"")]),
    ],
    ids=["whole", "after its head", "chunked", "chunk after chunk"],
)
def test_the_budget_counts_a_body_however_it_comes(
    attempt_settings: Settings, tmp_path: Path, framing: bytes, pieces: list[bytes]
) -> None:
    assert read_in_pieces(attempt_settings, tmp_path / "tollgate.db", framing, pieces) == len(BODY)


def test_a_body_has_its_time(attempt_settings: Settings, tmp_path: Path) -> None:
    """The client sends nothing after the head."""
    found = read_in_pieces(attempt_settings, tmp_path / "tollgate.db", DECLARED, [b""])
    assert found == "request_timeout"
