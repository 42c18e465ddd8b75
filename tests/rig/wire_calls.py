"""Coroutines for streams that wait for the test, and waits for states without an event."""

import asyncio
from collections.abc import Callable

from addon.text.http_heads import Headers, Response, ResponseHead
from addon.wire.stream import ClientLeft, Stream
from rig.bounds import BOUND_S

POST = b"POST /x HTTP/1.1\r\nHost: h\r\n"
"""The head of a request, without its end."""
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
STREAM = ResponseHead(200, Headers([("content-type", "text/event-stream")]))
OK = Response(200, Headers(), b"ok")
TEXT = Headers([("content-type", "text/plain")])


class HeldCall:
    """A coroutine for streams that waits for the test, and whose end the test awaits."""

    def __init__(self, *, begins: bool = False, reads: bool = True) -> None:
        self.begins = begins
        self.reads = reads
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.left = 0
        self.streams: list[Stream] = []

    async def __call__(self, stream: Stream) -> None:
        self.streams.append(stream)
        try:
            while self.reads and await stream.read():
                pass
            if self.begins:
                stream.begin(STREAM)
                await stream.send(b"first")
            self.begun.set()
            with stream.while_connected():
                await self.go.wait()
            if self.begins:
                await stream.end(b"last")
            else:
                await stream.respond(OK)
        except ClientLeft:
            self.left += 1
            # The rest of a call goes on after its client left.
            await asyncio.sleep(0)
        finally:
            self.ended.set()

    async def until(self, event: asyncio.Event) -> None:
        await asyncio.wait_for(event.wait(), BOUND_S)


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition`` is true."""
    async with asyncio.timeout(BOUND_S):
        while not condition():  # noqa: ASYNC110  (these states have no event)
            await asyncio.sleep(0.005)


async def wait_until_stable(measure: Callable[[], int]) -> int:
    """Wait until ``measure`` no longer changes. Return its value."""
    before, now = -1, measure()
    while now != before:
        await asyncio.sleep(0.05)
        before, now = now, measure()
    return now


async def read_body(stream: Stream) -> bytes:
    pieces = []
    while piece := await stream.read():
        pieces.append(piece)
    return b"".join(pieces)


async def echo_body(stream: Stream) -> None:
    await stream.respond(Response(200, TEXT, await read_body(stream)))


class HeldCalls:
    """Calls that wait for the test, with the end of each."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.left: list[Stream] = []
        self.go_on = asyncio.Event()
        self.finish = asyncio.Event()

    async def serve(self, stream: Stream) -> None:
        self.streams.append(stream)
        try:
            with stream.while_connected():
                await self.go_on.wait()
            await stream.respond(Response(200, TEXT, b"done"))
        except ClientLeft:
            self.left.append(stream)
            await self.finish.wait()
            raise
