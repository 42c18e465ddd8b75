"""The table of requests, on real sockets against the wire alone: each gets the statuses of the table."""

import asyncio

from rig.bounds import BOUND_S
from rig.http1_inputs import RequestInput, request_inputs
from rig.wire import Wire, wire

from addon.text.http_heads import Headers, Response
from addon.wire.stream import Stream
from policies.refusal import Refusal


async def serve(stream: Stream) -> None:
    """Answer like the gateway: check the method, then the key, then the body."""
    if stream.head.method != "POST":
        await stream.respond(Response(405, Headers()))
    elif "authorization" not in stream.head.headers:
        await stream.respond(Response(401, Headers()))
    else:
        try:
            while await stream.read():
                pass
        except Refusal:
            await stream.respond(Response(400, Headers(), close=True))
        else:
            await stream.respond(Response(200, Headers()))


async def outcome_of(given: RequestInput, served: Wire) -> tuple[list[int], bool]:
    """Return the statuses of the final answers on one connection, and whether the gateway closed it."""
    statuses: list[int] = []
    async with asyncio.timeout(BOUND_S), await served.connect() as peer:
        peer.send(given.raw)
        while len(statuses) < len(given.statuses):
            answer = await peer.answer()
            if answer.status != 100:
                statuses.append(answer.status)
        if given.closes:
            assert await peer.rest() == b"", given.name
            return statuses, True
        peer.send(b"PUT / HTTP/1.1\r\nHost: a\r\n\r\n")
        return statuses, given.closes is not None and (await peer.answer()).status != 405


async def test_each_request_gets_the_statuses_of_the_table():
    wrong = []
    async with wire(serve) as served:
        for given in request_inputs():
            try:
                statuses, closes = await outcome_of(given, served)
            except (AssertionError, OSError) as error:
                wrong.append((given.name, repr(error)[:200]))
                continue
            if tuple(statuses) != given.statuses or given.closes not in (None, closes):
                wrong.append((given.name, statuses, closes))
    assert not wrong
