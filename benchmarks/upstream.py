"""A provider that costs next to nothing: canned answers over keep-alive HTTP/1.1, in a process of its own.

``python -m benchmarks.upstream`` prints its port and serves until its standard input is closed.
"""

import asyncio
import re
import sys
from typing import override

from benchmarks.traffic import ASKS_STREAM, streamed_answer, whole_answer

_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
_WHOLE = whole_answer()
_STREAMED = streamed_answer()


class Provider(asyncio.Protocol):
    """One connection. Answers every request that is complete, whatever its path and headers."""

    def __init__(self) -> None:
        self._buffer = b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (size := _request_size(self._buffer)) is not None and len(self._buffer) >= size:
            request, self._buffer = self._buffer[:size], self._buffer[size:]
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        if not ASKS_STREAM.search(request):
            self._transport.write(_WHOLE)
            return
        # One write an event, because that is how a provider's events arrive.
        for piece in _STREAMED:
            self._transport.write(piece)


def _request_size(buffer: bytes) -> int | None:
    """Return the size in bytes of the first request in ``buffer``; None while its head is not complete."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    length = _CONTENT_LENGTH.search(buffer, 0, end + 2)
    return end + 4 + (int(length[1]) if length else 0)


async def serve() -> None:
    """Serve on a free port until standard input ends, as it does with the process that started this one."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Provider, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
