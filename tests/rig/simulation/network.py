"""The network of one simulated loop: names, servers, connections, and the faults of each server."""

import asyncio
import contextvars
import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from rig.simulation.faults import CALM, ConnectionFaults, Faults, draw_faults
from rig.simulation.pipe import Pipe
from rig.simulation.trace import Trace
from rig.simulation.transport import SimulatedSocket, SimulatedTransport

type Factory = Callable[[], asyncio.BaseProtocol]
type Address = tuple[str, int]

_FIRST_SERVER_PORT = 20_000
_FIRST_CLIENT_PORT = 40_000


class SimulatedServer(asyncio.AbstractServer):
    """A listening port. ``wait_closed`` waits for its connections, as asyncio's server does."""

    def __init__(self, network: "Network", factory: Factory, port: int) -> None:
        self._network, self.factory, self.port = network, factory, port
        self.context = contextvars.copy_context()
        self._transports: dict[SimulatedTransport, None] = {}
        self._is_closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def sockets(self) -> tuple[()]:
        """No sockets: see ``port``."""
        return ()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """See asyncio.Server."""
        return self._network.loop

    def is_serving(self) -> bool:
        """See asyncio.Server."""
        return not self._is_closed

    async def start_serving(self) -> None:
        """Do nothing: it serves already."""

    async def serve_forever(self) -> None:
        """Serve until cancelled."""
        try:
            await self._network.loop.create_future()
        finally:
            self.close()

    def close(self) -> None:
        """Accept no more connections."""
        self._is_closed = True
        self._network.forget(self)

    async def wait_closed(self) -> None:
        """Wait for the end of every accepted connection."""
        await self._idle.wait()

    def close_clients(self) -> None:
        """Close every accepted connection."""
        for transport in list(self._transports):
            transport.close()

    def abort_clients(self) -> None:
        """Abort every accepted connection."""
        for transport in list(self._transports):
            transport.abort()

    def attach(self, transport: SimulatedTransport) -> None:
        """Count one more connection."""
        self._transports[transport] = None
        self._idle.clear()

    def detach(self, transport: SimulatedTransport) -> None:
        """Count one less."""
        self._transports.pop(transport, None)
        if not self._transports:
            self._idle.set()


class Network:
    """The network of one machine. Every address of ``names``, and every literal address, is this machine."""

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random, trace: Trace) -> None:
        self.loop = loop
        self.names: dict[str, list[str]] = {"localhost": ["127.0.0.1"]}
        self.faults: dict[int, Faults] = {}
        """The faults by the server's port. The default is ``CALM``."""
        self.open: dict[SimulatedTransport, str] = {}
        """Every end of an open connection, with its name."""
        self._random, self._trace = random, trace
        self._servers: dict[int, SimulatedServer] = {}
        self._next_server_port, self._next_client_port = _FIRST_SERVER_PORT, _FIRST_CLIENT_PORT

    def addresses(self, host: str, port: int) -> Iterator[tuple[int, Any]]:
        """Yield family and address of each address of a name, or of a literal address."""
        for address in self.names.get(host, [host] if _is_literal(host) else []):
            if ":" in address:
                yield socket.AF_INET6, (address, port, 0, 0)
            else:
                yield socket.AF_INET, (address, port)

    def listen(self, factory: Factory, port: int) -> SimulatedServer:
        """Accept connections on ``port``. Raise OSError if it is in use."""
        if not port:
            port, self._next_server_port = self._next_server_port, self._next_server_port + 1
        if port in self._servers:
            raise OSError(errno.EADDRINUSE, f"address already in use: {port}")
        self._servers[port] = SimulatedServer(self, factory, port)
        return self._servers[port]

    def kill(self, belongs: Callable[[contextvars.Context], bool]) -> None:
        """Close the servers and connections of a killed process: those whose context belongs to it."""
        for server in [one for one in self._servers.values() if belongs(one.context)]:
            self.forget(server)
        for transport in [one for one in self.open if belongs(one.context)]:
            transport.kill()

    def forget(self, server: SimulatedServer) -> None:
        """Free the port of a server."""
        if self._servers.get(server.port) is server:
            del self._servers[server.port]

    async def connect(
        self, factory: Factory, address: Any
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        """Connect to a server. Raise ConnectionRefusedError if there is none, or as a fault."""
        host, port = address[0], address[1]
        faults = draw_faults(self.faults.get(port, CALM), self._random)
        number, self._next_client_port = self._next_client_port, self._next_client_port + 1
        await asyncio.sleep(faults.connect_s)
        server = self._servers.get(port)
        self._trace.add(self.loop.time(), "connects", number, port, faults.is_refused or not server)
        if faults.is_refused or server is None:
            await asyncio.sleep(faults.back.latency_s)
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ({host!r}, {port})")
        near = self._join(server, faults, (host, number), (host, port))
        with _closed_unless_connected(near):
            await asyncio.sleep(faults.back.latency_s)
            protocol, connected = factory(), self.loop.create_future()
            near.start(protocol, connected)
            await connected
        return near, protocol

    def _join(
        self, server: SimulatedServer, faults: ConnectionFaults, near: Address, far: Address
    ) -> SimulatedTransport:
        """Make both ends of a connection. The server's end starts at once."""
        forth = Pipe(self.loop, f"{near[1]}>{far[1]}", faults.forth, self._random, self._trace)
        back = Pipe(self.loop, f"{near[1]}<{far[1]}", faults.back, self._random, self._trace)
        forth.back, back.back = back, forth

        def on_closed(transport: SimulatedTransport) -> None:
            del self.open[transport]
            server.detach(transport)

        kernel = {"socket": SimulatedSocket(faults.forth.latency_s + faults.back.latency_s)}
        names = ({"sockname": near, "peername": far}, {"sockname": far, "peername": near})
        mine = SimulatedTransport(self.loop, back, forth, kernel | names[0], on_closed)
        theirs = SimulatedTransport(self.loop, forth, back, kernel | names[1], on_closed)
        self.open |= {mine: f"client {near[1]}>{far[1]}", theirs: f"server {near[1]}>{far[1]}"}
        server.attach(theirs)
        server.context.run(lambda: theirs.start(server.factory()))
        return mine


@contextmanager
def _closed_unless_connected(transport: SimulatedTransport) -> Iterator[None]:
    try:
        yield
    except BaseException:
        transport.abort()
        raise


def _is_literal(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False
