"""An egress proxy on a real socket, in the test's event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rig.provider import Peer, Provider

GRANTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@asynccontextmanager
async def run_egress_proxy(answer: bytes = GRANTED) -> AsyncIterator[tuple[Provider, list[bytes]]]:
    """Run an egress proxy that sends ``answer``. With ``GRANTED`` it then passes bytes in both directions."""
    asked: list[bytes] = []

    async def serve(peer: Peer) -> None:
        asked.append(await peer.reader.readuntil(b"\r\n\r\n"))
        await peer.send(answer)
        if answer != GRANTED:
            return
        host, _, port = asked[-1].split(b" ")[1].decode().rpartition(":")
        reader, writer = await asyncio.open_connection("127.0.0.1" if host != "localhost" else host, port)
        try:
            await asyncio.gather(copy_bytes(peer.reader, writer), copy_bytes(reader, peer.writer))
        finally:
            writer.transport.abort()

    async with Provider(serve) as proxy:
        yield proxy, asked


async def copy_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.write_eof() if writer.can_write_eof() else writer.close()
