"""Small servers and clients for tests of the simulation itself."""

import asyncio
from contextlib import suppress

from rig.simulation import World

HOUR_S = 3600.0
PORT = 80


async def hear_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Echo each line until the client ends."""
    try:
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def echo(world: World, text: bytes) -> bytes:
    """Send a line to a listening server. Return its answer."""
    reader, writer = await asyncio.open_connection("localhost", PORT)
    try:
        writer.write(text + b"\n")
        writer.write_eof()
        return await reader.read()
    except ConnectionError as error:
        return type(error).__name__.encode()
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


class Recorder(asyncio.Protocol):
    """A protocol that records the calls of its transport. ``stays_open``: it stays open after EOF."""

    def __init__(self, stays_open: bool = False) -> None:
        self.stays_open = stays_open
        self.calls: list[str] = []
        self.data = bytearray()
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.calls.append("made")

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return self.stays_open

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append(f"lost {type(exc).__name__}")
        self.lost.set_result(exc)


async def joined(world: World, **options: bool) -> tuple[Recorder, Recorder, asyncio.AbstractServer]:
    """Return the client's end and the server's end of one connection."""
    made: list[Recorder] = []

    def accept() -> Recorder:
        made.append(Recorder(**options))
        return made[-1]

    server = await world.loop.create_server(accept, port=PORT)
    _, client = await world.loop.create_connection(lambda: Recorder(**options), "localhost", PORT)
    return client, made[0], server
