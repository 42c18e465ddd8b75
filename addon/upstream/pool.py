"""``Pool``: the connections to providers, one pool for the process.

Connections are shared by origin. The one that was used last is used first. A call holds one connection at a time,
within the bounds of its workspace and of the origin. When a bound is reached, calls wait in their order.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec import Struct

from addon.runtime.deadline import within
from addon.runtime.read_buffer import new_read_buffer
from addon.settings.egress_proxy import EgressProxy
from addon.upstream.connection import UpstreamConnection
from addon.upstream.connector import Connector
from addon.upstream.idle_connections import IdleConnections
from addon.upstream.origin import Origin, Unreachable
from addon.upstream.pool_stats import PoolStats
from addon.upstream.provider_socket import ProviderSocket
from addon.upstream.semaphores import KeyedSemaphores

_CLOSED: Final = "the pool of connections is closed"


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The bounds of a pool.

    AWS's load balancers close an idle connection after 60 s, and nginx after 75 s (``keepalive_timeout``). ``idle_s``
    is lower, so that this side closes first, and ``IdleConnections`` lowers it where a provider closes even earlier. No
    connection is used again after ``age_s``, so a provider can change its address.
    """

    idle_per_origin: int = 64
    idle: int = 1024
    open_per_origin: int = 1024
    open_per_workspace: int = 256
    idle_s: float = 50.0
    age_s: float = 600.0


DEFAULT_LIMITS = PoolLimits()


class PoolFull(Exception):  # noqa: N818  (it names what happened, as ``Unreachable`` does)
    """All connections of the origin or of the workspace were in use for as long as the call would wait."""


class _Lease(Struct):
    """A connection that a call holds, with the workspace whose bound it uses."""

    workspace: str
    connection: UpstreamConnection


class Pool:
    """The connections of one process. All of its methods belong to one event loop."""

    def __init__(
        self, connector: Connector, limits: PoolLimits = DEFAULT_LIMITS, proxy: EgressProxy | None = None
    ) -> None:
        self._connector = connector
        self._buffer = new_read_buffer()
        self._limits = limits
        self._proxy = proxy
        self._workspaces = KeyedSemaphores[str](limits.open_per_workspace)
        self._origins = KeyedSemaphores[Origin](limits.open_per_origin)
        self._connecting: set[asyncio.Future[ProviderSocket]] = set()
        self._open: set[ProviderSocket] = set()
        self._leases: dict[ProviderSocket, _Lease] = {}
        self._idle = IdleConnections(limits.idle, limits.idle_s, limits.age_s)
        self._opened = 0
        self._reused = 0
        self._is_closed = False
        self._none_open = asyncio.Event()

    async def acquire(
        self, origin: Origin, workspace: str, timeout_s: float, *, fresh: bool = False
    ) -> UpstreamConnection:
        """Return a connection that only the caller uses until it releases or closes it.

        With ``fresh``, the connection is new. Wait at most ``timeout_s`` until the bounds allow one, then at most
        ``timeout_s`` for the connection. Raise PoolFull or Unreachable.
        """
        if self._is_closed:
            raise Unreachable(_CLOSED, lagged=True)
        if not fresh and (connection := self.try_acquire(origin, workspace)):
            return connection
        if not self._try_reserve(origin, workspace):
            await self._reserve(origin, workspace, timeout_s)
        try:
            if self._is_closed:  # ``close`` may have run while this call waited.
                raise Unreachable(_CLOSED, lagged=True)
            idle = None if fresh else self._idle.take(origin)
            socket = idle or await self._connect(origin, timeout_s)
        except BaseException:
            self._free(origin, workspace)
            raise
        return self._lease(socket, workspace, is_reused=idle is not None)

    def try_acquire(self, origin: Origin, workspace: str) -> UpstreamConnection | None:
        """Return an idle connection as ``acquire`` does, or None if it must wait or connect."""
        if origin not in self._idle.by_origin or not self._try_reserve(origin, workspace):
            return None
        socket = self._idle.take(origin)
        if socket is None:
            self._free(origin, workspace)
            return None
        return self._lease(socket, workspace, is_reused=True)

    def _lease(self, socket: ProviderSocket, workspace: str, *, is_reused: bool) -> UpstreamConnection:
        self._reused += is_reused
        connection = UpstreamConnection(socket, self._on_returned, is_reused=is_reused)
        self._leases[socket] = _Lease(workspace, connection)
        return connection

    def stats(self) -> PoolStats:
        """Return the numbers for the metrics."""
        workspaces, origins = self._workspaces, self._origins
        return PoolStats(
            open=len(self._open),
            idle=len(self._idle),
            opened=self._opened,
            reused=self._reused,
            leased=len(self._leases),
            connecting=len(self._connecting),
            workspace_places=workspaces.all_in_use,
            origin_places=origins.all_in_use,
            waiting=workspaces.waiting + origins.waiting,
        )

    def set_proxy(self, proxy: EgressProxy | None) -> None:
        """Make new connections through ``proxy``. Close connections of another setting as soon as they are idle."""
        if proxy != self._proxy:
            self._proxy = proxy
            self._idle.close_all()

    async def close(self) -> None:
        """Close every connection, those of calls too, and wait until their sockets are closed."""
        self._is_closed = True
        self._idle.close_all()
        for lease in list(self._leases.values()):
            lease.connection.close()
        for connecting in self._connecting:
            connecting.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        self._connector.close()
        while self._open:
            self._none_open.clear()
            await self._none_open.wait()

    # The bounds of workspaces and origins.

    def _try_reserve(self, origin: Origin, workspace: str) -> bool:
        if not self._workspaces.try_acquire(workspace):
            return False
        if self._origins.try_acquire(origin):
            return True
        self._workspaces.release(workspace)
        return False

    async def _reserve(self, origin: Origin, workspace: str, timeout_s: float) -> None:
        try:
            async with within(timeout_s):
                await self._workspaces.acquire(workspace)
                try:
                    await self._origins.acquire(origin)
                except BaseException:
                    self._workspaces.release(workspace)
                    raise
        except TimeoutError:
            raise PoolFull from None

    def _free(self, origin: Origin, workspace: str) -> None:
        self._origins.release(origin)
        self._workspaces.release(workspace)

    # Connections of calls.

    async def _connect(self, origin: Origin, timeout_s: float) -> ProviderSocket:
        proxy = None if origin.is_direct else self._proxy
        idle = len(self._idle.by_origin.get(origin, ()))
        if idle and self._origins.in_use(origin) + idle > self._limits.open_per_origin:
            self._idle.close_oldest(origin)
        new_socket = partial(ProviderSocket, self._on_closed, self._buffer, origin, proxy)
        connecting = asyncio.ensure_future(self._connector.connect(origin, proxy, timeout_s, new_socket))
        self._connecting.add(connecting)
        try:
            socket = await connecting
        except asyncio.CancelledError:
            _abort_connected(connecting)
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise Unreachable(_CLOSED, lagged=True) from None  # ``close`` cancelled the attempt.
        finally:
            self._connecting.discard(connecting)
        if socket.is_closed or self._is_closed:
            socket.abort()
            raise Unreachable("the connection ended as soon as it was made", lagged=self._is_closed)
        socket.opened_at_s = asyncio.get_running_loop().time()
        self._open.add(socket)
        self._opened += 1
        return socket

    def _on_returned(self, socket: ProviderSocket, is_clean: bool) -> None:
        lease, origin = self._leases.pop(socket), socket.origin
        if is_clean:
            self._keep(socket, origin)
        elif lease.connection.is_stale:
            self._idle.note_stale(socket)
        self._origins.release(origin)
        self._workspaces.release(lease.workspace)

    def _keep(self, socket: ProviderSocket, origin: Origin) -> None:
        is_full = len(self._idle.by_origin.get(origin, ())) >= self._limits.idle_per_origin
        is_other = socket.proxy != self._proxy and not origin.is_direct
        if is_full or is_other or self._is_closed:
            socket.abort()
        else:
            self._idle.add(socket)

    def _on_closed(self, socket: ProviderSocket) -> None:
        self._idle.forget_closed(socket)
        self._open.discard(socket)
        if not self._open:
            self._none_open.set()


def _abort_connected(connecting: asyncio.Future[ProviderSocket]) -> None:
    """Close a connection that was made at the moment of the cancellation."""
    if connecting.done() and not connecting.cancelled() and connecting.exception() is None:
        connecting.result().abort()
