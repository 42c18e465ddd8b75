"""A server that speaks as Redis does, and says what a test tells it: for what a real one says too seldom."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

OK = b"+OK\r\n"

type Say = Callable[[list[bytes]], bytes]


def all_slots_at(port: int) -> bytes:
    """Return the answer to CLUSTER SLOTS of a cluster with one primary."""
    return b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % port


def read_commands(data: bytes) -> list[list[bytes]]:
    """Return commands that came as a whole."""
    words = iter(data.split(b"\r\n"))
    return [[(next(words), next(words))[1] for _ in range(int(head[1:]))] for head in words if head]


@asynccontextmanager
async def speaking(say: Say) -> AsyncIterator[int]:
    """Serve with what ``say`` returns for each command. Give the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100_000):
            writer.write(b"".join(map(say, read_commands(data))))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def serving(answers: Mapping[bytes, bytes]) -> AsyncIterator[int]:
    """Serve with an answer for each subcommand, and OK to all others. Give the port."""
    async with speaking(lambda command: answers.get(command[-1], answers.get(command[1], OK))) as port:
        yield port
