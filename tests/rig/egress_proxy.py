"""An egress proxy on a real socket, in the test's own event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rig.provider import Peer, Provider

GRANTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@asynccontextmanager
async def proxying(answer: bytes = GRANTED) -> AsyncIterator[tuple[Provider, list[bytes]]]:
    """An egress proxy that answers so, and passes bytes where it says 200."""
    asked: list[bytes] = []

    async def serve(peer: Peer) -> None:
        asked.append(await peer.reader.readuntil(b"\r\n\r\n"))
        await peer.say(answer)
        if answer != GRANTED:
            return
        host, _, port = asked[-1].split(b" ")[1].decode().rpartition(":")
        reader, writer = await asyncio.open_connection("127.0.0.1" if host != "localhost" else host, port)
        try:
            await asyncio.gather(pass_on(peer.reader, writer), pass_on(reader, peer.writer))
        finally:
            writer.transport.abort()

    async with Provider(serve) as proxy:
        yield proxy, asked


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.write_eof() if writer.can_write_eof() else writer.close()
