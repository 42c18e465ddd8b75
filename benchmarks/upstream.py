"""A provider with almost no cost: canned answers over keep-alive HTTP/1.1, in its own process.

``python -m benchmarks.upstream [CERTIFICATE]`` prints its port and serves until its standard input closes. With a
certificate it uses TLS.
"""

import asyncio
import re
import ssl
import sys
from typing import override

from benchmarks.traffic import EVENTS, PAUSE_S, kind_of, streamed_answer, whole_answer

_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
_WHOLE = whole_answer()
_STREAMED = {kind: streamed_answer(events) for kind, events in EVENTS.items()}


class ProviderConnection(asyncio.Protocol):
    """One connection of a provider. A subclass answers each complete request."""

    def __init__(self) -> None:
        self._buffer = b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (size := request_size(self._buffer)) is not None and len(self._buffer) >= size:
            request, self._buffer = self._buffer[:size], self._buffer[size:]
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        raise NotImplementedError


class CannedAnswers(ProviderConnection):
    """A connection with canned answers, whatever the path and the headers of a request."""

    @override
    def _answer(self, request: bytes) -> None:
        if (kind := kind_of(request)) is None:  # A gateway asks for the models, for example.
            self._transport.write(_NOT_FOUND)
        elif kind == "whole":
            self._transport.write(_WHOLE)
        elif kind in PAUSE_S:
            self._write_slowly(_STREAMED[kind], 0, PAUSE_S[kind])
        else:
            # One write for each event, as the events of real providers arrive.
            for piece in _STREAMED[kind]:
                self._transport.write(piece)

    def _write_slowly(self, pieces: list[bytes], number: int, pause_s: float) -> None:
        if number < len(pieces) and not self._transport.is_closing():
            self._transport.write(pieces[number])
            loop = asyncio.get_running_loop()
            loop.call_later(pause_s, self._write_slowly, pieces, number + 1, pause_s)


def request_size(buffer: bytes) -> int | None:
    """Return the size in bytes of the first request in ``buffer``, or None while its head is not complete."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    length = _CONTENT_LENGTH.search(buffer, 0, end + 2)
    return end + 4 + (int(length[1]) if length else 0)


async def serve(tls: ssl.SSLContext | None) -> None:
    """Serve on a free port until standard input ends. It also ends with the process that started this one."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(CannedAnswers, "127.0.0.1", 0, backlog=4096, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


def tls_of(certificate: str) -> ssl.SSLContext:
    """Return the TLS context of a server with ``certificate``, a PEM file with its key."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


if __name__ == "__main__":
    asyncio.run(serve(tls_of(sys.argv[1]) if len(sys.argv) > 1 else None))
