"""New connections to providers: name look-up, a race of the addresses, the egress proxy, the TLS handshake."""

import asyncio
import ipaddress
import os
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain, zip_longest
from typing import Final, Protocol

from addon.runtime.deadline import Deadline
from addon.runtime.keepalive import keep_alive
from addon.runtime.read_buffer import new_read_buffer
from addon.settings.egress_proxy import EgressProxy
from addon.upstream.origin import Origin, Unreachable
from addon.upstream.provider_socket import ProviderSocket
from addon.upstream.round_trip import read_min_rtt_s
from addon.upstream.tls import TlsTransport, make_context
from addon.upstream.tunnel import Tunnel

LOOKUPS: Final = 32
"""How many names are looked up at once, each in a thread."""

ATTEMPT_DELAY_S: Final = 0.25
"""How long one address is tried alone before the next one is tried too. Source: RFC 8305, 8."""

type MakeSocket = Callable[[], ProviderSocket]
type Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host name, the best first. Raises OSError."""


class Connector(Protocol):
    """The maker of the pool's connections."""

    async def connect(
        self, origin: Origin, proxy: EgressProxy | None, timeout_s: float, make: MakeSocket
    ) -> ProviderSocket:
        """Return a socket of ``make`` that is open to ``origin``, within ``timeout_s``. Raise Unreachable.

        When cancelled, leave no socket open.
        """

    def close(self) -> None:
        """Free what it needs to connect."""


class Resolver:
    """A resolver with its own threads, so a slow name server blocks nothing else."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of ``host``, with IPv4 and IPv6 in turn. Raise OSError."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(LOOKUPS, "lookup")
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        return interleave([(family, str(address[0])) for family, _, _, _, address in found])

    @property
    def is_full(self) -> bool:
        """Whether a look-up waits for a thread."""
        return self._threads is not None and self._threads._work_queue.qsize() > 0

    def close(self) -> None:
        """Stop the threads."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)


def interleave(found: Sequence[tuple[int, str]]) -> list[str]:
    """Return the addresses with the families in turn. Within a family, keep the order. Source: RFC 8305, 4."""
    families = dict.fromkeys(family for family, _ in found)
    by_family = [[address for one, address in found if one == family] for family in families]
    return [address for address in chain(*zip_longest(*by_family)) if address is not None]


class SocketConnector:
    """A connector that uses ``create_connection`` of the running loop. ``resolve`` looks up names."""

    def __init__(self, context: ssl.SSLContext | None = None, resolve: Resolve | None = None) -> None:
        self._given_context = context
        self._buffer = new_read_buffer()
        self._resolver = Resolver()
        self._resolve: Resolve = resolve or self._resolver

    async def connect(
        self, origin: Origin, proxy: EgressProxy | None, timeout_s: float, make: MakeSocket
    ) -> ProviderSocket:
        """As ``Connector.connect``. Look-up, connect, proxy and TLS together take at most ``timeout_s``."""
        loop = asyncio.get_running_loop()
        timeout = asyncio.timeout(None)
        deadline: Deadline | None = None
        try:
            async with timeout:
                deadline = Deadline(timeout_s, lambda: timeout.reschedule(loop.time()))
                return await self._connect(origin, proxy, make)
        except (OSError, UnicodeError) as error:
            if not timeout.expired() or deadline is None:
                raise Unreachable(_reason(error)) from None
            lagged = self._resolver.is_full or not deadline.has_given_full_time
            raise Unreachable("not connected in time", lagged=lagged) from None
        finally:
            if deadline is not None:
                deadline.cancel()

    def close(self) -> None:
        """Stop the look-ups."""
        self._resolver.close()

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return self._given_context or make_context()

    async def _connect(self, origin: Origin, proxy: EgressProxy | None, make: MakeSocket) -> ProviderSocket:
        first: Callable[[], asyncio.BaseProtocol] = make
        if origin.scheme == "https":
            first = partial(TlsTransport, self._context, self._buffer, origin.host, make)
        at: Origin | EgressProxy = origin
        if proxy is not None:
            at, first = proxy, partial(Tunnel, proxy.make_connect_request(origin.host, origin.port), first)
        addresses = await self._addresses(at.host, at.port)
        transport, protocol = await race(first, addresses, at.port)
        try:
            _set_options(transport)
            round_trip_s: float | None = None
            while isinstance(protocol, Tunnel | TlsTransport):
                reached = await protocol.ready
                round_trip_s, protocol = protocol.round_trip_s, reached
            if not isinstance(protocol, ProviderSocket):
                raise TypeError("the protocol is not a ProviderSocket")
            # Of the kernel only without a proxy and without TLS: it knows the way to the next machine.
            protocol.round_trip_s = read_min_rtt_s(transport) if round_trip_s is None else round_trip_s
        except BaseException:
            transport.abort()
            raise
        return protocol

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return await self._resolve(host, port)
        return (host,)


async def race(
    make: Callable[[], asyncio.BaseProtocol], addresses: Sequence[str], port: int
) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
    """Connect to the first of ``addresses`` that answers. The attempts start one after another. Raise OSError."""
    loop = asyncio.get_running_loop()
    if len(addresses) == 1:
        return await loop.create_connection(make, addresses[0], port)
    failure: BaseException = OSError("the name has no address")
    untried, attempts = deque(addresses), set[asyncio.Task[tuple[asyncio.Transport, asyncio.BaseProtocol]]]()
    pending = set(attempts)
    try:
        while untried or pending:
            if untried:
                pending.add(loop.create_task(loop.create_connection(make, untried.popleft(), port)))
                attempts |= pending
            delay_s = ATTEMPT_DELAY_S if untried else None
            done, pending = await asyncio.wait(pending, timeout=delay_s, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                if (error := attempt.exception()) is None:
                    attempts.remove(attempt)
                    return attempt.result()
                failure = error
        raise failure
    finally:
        for attempt in attempts:
            attempt.cancel()
            attempt.add_done_callback(_discard)


def _discard(attempt: asyncio.Task[tuple[asyncio.Transport, asyncio.BaseProtocol]]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result()[0].abort()


def _set_options(transport: asyncio.Transport) -> None:
    """Make small requests leave at once, and detect a provider that is gone. Simulated transports have no socket."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    with suppress(OSError):  # It may be closed already.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(sock)


def _reason(error: Exception) -> str:
    """Return the reason, with nothing that a peer sent."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the certificate does not verify: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or 'the handshake failed').lower().replace('_', ' ')}"
    if isinstance(error, socket.gaierror):
        return "the host name can't be resolved"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error) if isinstance(error, ConnectionError) else "the host name or address can't be used"
