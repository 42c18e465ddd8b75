"""The wire alone, inside a mitmproxy master in this process: client connections that run a coroutine of the test."""

import asyncio
import logging
import socket
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from addon.runtime.listening import bind
from addon.text.http_heads import Headers, Response
from addon.wire.connection import ServeStream, WireSettings
from addon.wire.stream import Stream
from policies.refusal import Refusal
from rig.bounds import BOUND_S
from rig.conservation import assert_windows_open
from rig.raw_clients import Answer

with warnings.catch_warnings():
    # mitmproxy uses pyparsing, which warns about its own old names.
    warnings.simplefilter("ignore", DeprecationWarning)
    from mitmproxy.log import LegacyLogEvents
    from mitmproxy.master import Master
    from mitmproxy.options import Options
    from mitmproxy.utils import asyncio_utils

    from addon.wire.client_connection import WireConfig
    from addon.wire.hooks import ClientHooks, Listener

MODE = "reverse:http://tollgate.invalid:1"


def refuse(refusal: Refusal) -> Response:
    """Return the answer to a refusal. Its body is the code."""
    status = {
        "bad_request": 400,
        "request_timeout": 408,
        "request_too_large": 413,
        "request_header_fields_too_large": 431,
    }
    return Response(status.get(refusal.code, 500), Headers(), refusal.code.encode())


async def echo(stream: Stream) -> None:
    """Answer with the target and the body of the request."""
    body = [stream.head.target.encode(), b" "]
    while piece := await stream.read():
        body.append(piece)
    await stream.respond(Response(200, Headers([("content-type", "text/plain")]), b"".join(body)))


@dataclass
class Peer:
    """A client that sends exactly the given bytes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    buffer: bytearray = field(default_factory=bytearray)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.transport.abort()
        await asyncio.sleep(0)

    def send(self, data: bytes) -> None:
        """Send ``data``, without waiting."""
        self.writer.write(data)

    def reset(self) -> None:
        """Close with a reset."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.writer.transport.abort()

    async def until(self, mark: bytes) -> bytes:
        """Return the bytes up to and including ``mark``."""
        while (at := self.buffer.find(mark)) < 0:
            piece = await asyncio.wait_for(self.reader.read(65_536), BOUND_S)
            assert piece, f"closed before {mark!r}: {self.buffer!r}"
            self.buffer += piece
        return self._take(at + len(mark))

    async def exactly(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        while len(self.buffer) < count:
            piece = await asyncio.wait_for(self.reader.read(65_536), BOUND_S)
            assert piece, f"closed after {len(self.buffer)} of {count} bytes"
            self.buffer += piece
        return self._take(count)

    def _take(self, count: int) -> bytes:
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    async def rest(self) -> bytes:
        """Return all bytes until the gateway closes."""
        self.buffer += await asyncio.wait_for(self.reader.read(-1), BOUND_S)
        return self._take(len(self.buffer))

    async def answer(self, method: str = "GET") -> Answer:
        """Return the next answer."""
        lines = (await self.until(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        headers = [(n.lower(), v.strip()) for n, _, v in (line.partition(":") for line in lines[1:])]
        answer = Answer(int(lines[0].split()[1]), headers)
        if answer.status == 100 or answer.status in (204, 304) or method == "HEAD":
            return answer
        if (length := answer.header("content-length")) is not None:
            answer.body = await self.exactly(int(length))
        elif answer.header("transfer-encoding"):
            while size := int((await self.until(b"\r\n")).strip(), 16):
                answer.body += await self.exactly(size)
                assert await self.exactly(2) == b"\r\n"
            assert await self.exactly(2) == b"\r\n"
        else:
            answer.body = await self.rest()
        return answer


@dataclass
class Wire:
    """A listening wire."""

    port: int
    host: ClientHooks
    listener: Listener
    tls: ssl.SSLContext | None = None
    peers: list[Peer] = field(default_factory=list)

    async def connect(self, tls: ssl.SSLContext | None = None) -> Peer:
        """Connect a client, with TLS if the port uses it."""
        context = tls or self.tls
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context, server_hostname="localhost" if context else None
        )
        peer = Peer(reader, writer)
        self.peers.append(peer)
        return peer

    async def ask(self, data: bytes, method: str = "GET") -> Answer:
        """Send ``data`` on a new connection and return the answer."""
        async with await self.connect() as peer:
            peer.send(data)
            return await peer.answer(method)

    async def wait_until_gone(self) -> None:
        """Wait until every connection is closed and no call runs."""
        await asyncio.wait_for(self.host.clients.wait_until_gone(), BOUND_S)


@asynccontextmanager
async def wire(
    serve_stream: ServeStream = echo,
    certificate: Path | None = None,
    tls: ssl.SSLContext | None = None,
    tcp_timeout: int = 600,
    **settings: Any,
) -> AsyncIterator[Wire]:
    """Serve until the block ends. Fail if a task or a socket is left."""
    before = asyncio.all_tasks()
    with asyncio_utils.set_eager_task_factory(), bind("127.0.0.1", 0) as sock:
        master = Master(Options())
        for handler in logging.getLogger().handlers[:]:
            if isinstance(handler, LegacyLogEvents):
                handler.uninstall()
        bounds = WireSettings(refuse, **{"linger_s": 0.2} | settings)
        host = ClientHooks(WireConfig(serve_stream, bounds), lambda: certificate)
        listener = Listener(host, MODE)
        master.addons.add(listener, host)
        master.options.update(connection_strategy="lazy", tcp_timeout=tcp_timeout)
        server = await listener.accept(sock)
        served = Wire(sock.getsockname()[1], host, listener, tls)
        try:
            yield served
            for connection in host.clients.connections():
                assert_windows_open(connection)
        finally:
            for peer in served.peers:
                peer.writer.transport.abort()
            server.close()
            await host.clients.close_all()
            await master.done()
    assert not host.clients.open
    assert not listener.connections
    for _ in range(5):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() <= before
