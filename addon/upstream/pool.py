"""The pool of connections to providers, one for the process.

Connections are shared by origin, the last one used first. A call holds one at a time, within the bounds of its
workspace and of the origin; beyond them it waits for its turn.
"""

import asyncio
from typing import Final, NamedTuple

from addon.runtime.deadline import within
from addon.settings.egress_proxy import EgressProxy, parse_proxy
from addon.upstream.connect import Connector
from addon.upstream.connection import UpstreamConnection
from addon.upstream.numbers import DEFAULT_LIMITS, PoolLimits, PoolStats
from addon.upstream.origin import Origin, Unreachable
from addon.upstream.provider_socket import Link
from addon.upstream.semaphores import Gate

__all__ = [
    "EgressProxy",
    "Origin",
    "Pool",
    "PoolFull",
    "PoolLimits",
    "PoolStats",
    "Unreachable",
    "parse_proxy",
]

_CLOSED: Final = "the pool of connections is closed"


class PoolFull(Exception):  # noqa: N818  (it names what happened, as ``Unreachable`` does)
    """All places of the origin or of the workspace were taken for as long as the call would wait."""


class _Lane:
    """The connections of one origin: ``idle`` ones, the last used at the end, and a gate for those that are held."""

    __slots__ = ("gate", "idle", "origin")

    def __init__(self, origin: Origin, limit: int) -> None:
        self.origin = origin
        self.gate = Gate(limit)
        self.idle: list[Link] = []


class _Place(NamedTuple):
    """What a held connection takes: a place of its workspace and one of its origin."""

    workspace: str
    gate: Gate
    lane: _Lane


class _Hold(NamedTuple):
    """A connection in a call's hands, and the setting it was made with."""

    place: _Place
    proxy: EgressProxy | None
    connection: UpstreamConnection


class Pool:
    """The connections of one process. All of its methods belong to one event loop."""

    def __init__(
        self, connector: Connector, limits: PoolLimits = DEFAULT_LIMITS, proxy: EgressProxy | None = None
    ) -> None:
        self._connector = connector
        self._limits = limits
        self._proxy = proxy
        self._lanes: dict[Origin, _Lane] = {}
        self._gates: dict[str, Gate] = {}
        self._connecting: set[asyncio.Future[Link]] = set()
        self._open: set[Link] = set()
        self._held: dict[Link, _Hold] = {}
        self._idle: dict[Link, _Lane] = {}
        """The longest idle first."""
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._opened = 0
        self._reused = 0
        self._is_closed = False
        self._none_open = asyncio.Event()

    async def acquire(
        self, origin: Origin, workspace: str, timeout_s: float, *, fresh: bool = False
    ) -> UpstreamConnection:
        """Return a connection that is the caller's alone until it releases or closes it.

        With ``fresh`` it was never used before. Waits at most ``timeout_s`` for a place, then at most ``timeout_s``
        for a connection. Raises PoolFull and Unreachable.
        """
        if self._is_closed:
            raise Unreachable(_CLOSED, lagged=True)
        place = self._try_enter(origin, workspace) or await self._enter(origin, workspace, timeout_s)
        proxy = self._proxy_for(origin)
        try:
            if self._is_closed:  # While this call waited for its place.
                raise Unreachable(_CLOSED, lagged=True)
            idle = None if fresh else self._take_idle(place.lane)
            link = idle or await self._connect(place.lane, proxy, timeout_s)
        except BaseException:
            self._leave(place)
            raise
        self._reused += idle is not None
        connection = UpstreamConnection(link, self._take_back, is_reused=idle is not None)
        self._held[link] = _Hold(place, proxy, connection)
        return connection

    def stats(self) -> PoolStats:
        """Return the numbers for the metrics."""
        return PoolStats(len(self._open), len(self._idle), self._opened, self._reused)

    def set_proxy(self, proxy: EgressProxy | None) -> None:
        """Make new connections through ``proxy``; those of another setting are closed as soon as they are idle."""
        if proxy != self._proxy:
            self._proxy = proxy
            self._close_all_idle()

    async def close(self) -> None:
        """Close every connection, those of calls too, and wait until their sockets are closed."""
        self._is_closed = True
        self._close_all_idle()
        for hold in list(self._held.values()):
            hold.connection.close()
        for connecting in self._connecting:
            connecting.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        self._connector.close()
        while self._open:
            self._none_open.clear()
            await self._none_open.wait()

    # Places.

    def _try_enter(self, origin: Origin, workspace: str) -> _Place | None:
        gate, lane = self._gate_of(workspace), self._lane_of(origin)
        if gate.try_enter():
            if lane.gate.try_enter():
                return _Place(workspace, gate, lane)
            gate.leave()
        return None

    async def _enter(self, origin: Origin, workspace: str, timeout_s: float) -> _Place:
        try:
            async with within(timeout_s):
                gate = self._gate_of(workspace)
                await gate.enter()
                try:
                    lane = self._lane_of(origin)
                    await lane.gate.enter()
                except BaseException:
                    gate.leave()
                    raise
                return _Place(workspace, gate, lane)
        except TimeoutError:
            raise PoolFull from None
        finally:
            self._forget_unused_gate(workspace)
            self._forget_unused_lane(self._lane_of(origin))

    def _leave(self, place: _Place) -> None:
        place.lane.gate.leave()
        place.gate.leave()
        self._forget_unused_lane(place.lane)
        if place.gate.is_unused:
            self._forget_unused_gate(place.workspace)

    def _gate_of(self, workspace: str) -> Gate:
        gate = self._gates.get(workspace)
        if gate is None:
            gate = self._gates[workspace] = Gate(self._limits.open_per_workspace)
        return gate

    def _lane_of(self, origin: Origin) -> _Lane:
        lane = self._lanes.get(origin)
        if lane is None:
            lane = self._lanes[origin] = _Lane(origin, self._limits.open_per_origin)
        return lane

    def _forget_unused_gate(self, workspace: str) -> None:
        gate = self._gates.get(workspace)
        if gate is not None and gate.is_unused:
            del self._gates[workspace]

    def _forget_unused_lane(self, lane: _Lane) -> None:
        if not lane.idle and lane.gate.is_unused:
            self._lanes.pop(lane.origin, None)

    # Connections.

    def _proxy_for(self, origin: Origin) -> EgressProxy | None:
        return None if origin.is_direct else self._proxy

    async def _connect(self, lane: _Lane, proxy: EgressProxy | None, timeout_s: float) -> Link:
        if lane.idle and lane.gate.inside + len(lane.idle) > self._limits.open_per_origin:
            self._close_idle(lane.idle[0])
        connecting = asyncio.ensure_future(self._connector.connect(lane.origin, proxy, timeout_s, self._make))
        self._connecting.add(connecting)
        try:
            link = await connecting
        except asyncio.CancelledError:
            _abort_made(connecting)
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise Unreachable(_CLOSED, lagged=True) from None  # It was ``close`` that cancelled.
        finally:
            self._connecting.discard(connecting)
        if link.is_closed or self._is_closed:
            link.abort()
            raise Unreachable("the connection ended as soon as it was made", lagged=self._is_closed)
        link.opened_at_s = asyncio.get_running_loop().time()
        self._open.add(link)
        self._opened += 1
        return link

    def _make(self) -> Link:
        return Link(self._forget)

    def _take_back(self, link: Link, is_clean: bool) -> None:
        hold = self._held.pop(link)
        if is_clean:
            self._keep(link, hold.place.lane, hold.proxy)
        self._leave(hold.place)

    def _keep(self, link: Link, lane: _Lane, proxy: EgressProxy | None) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        is_full = len(lane.idle) >= self._limits.idle_per_origin
        is_old = now_s - link.opened_at_s >= self._limits.age_s
        if is_full or is_old or self._is_closed or proxy != self._proxy_for(lane.origin):
            link.abort()
            return
        if len(self._idle) >= self._limits.idle:
            self._close_idle(next(iter(self._idle)))
        link.idle_since_s = now_s
        lane.idle.append(link)
        self._idle[link] = lane
        if self._sweep_timer is None:
            self._sweep_timer = loop.call_at(now_s + self._limits.idle_s, self._sweep)

    def _take_idle(self, lane: _Lane) -> Link | None:
        while lane.idle:
            link = lane.idle.pop()
            del self._idle[link]
            age_s = asyncio.get_running_loop().time() - link.opened_at_s
            if age_s < self._limits.age_s and not link.is_stale:
                return link
            link.abort()
        return None

    def _sweep(self) -> None:
        """Close what has been idle for too long; look again when the next one will have been."""
        loop = asyncio.get_running_loop()
        self._sweep_timer = None
        for link in list(self._idle):
            due_s = link.idle_since_s + self._limits.idle_s
            if due_s > loop.time():
                self._sweep_timer = loop.call_at(due_s, self._sweep)
                return
            self._close_idle(link)

    def _close_all_idle(self) -> None:
        for link in list(self._idle):
            self._close_idle(link)

    def _close_idle(self, link: Link) -> None:
        self._remove_idle(link)
        link.abort()

    def _remove_idle(self, link: Link) -> None:
        lane = self._idle.pop(link)
        lane.idle.remove(link)
        self._forget_unused_lane(lane)
        if not self._idle and self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    def _forget(self, link: Link) -> None:
        """The connection's socket is closed."""
        if link in self._idle:
            self._remove_idle(link)
        self._open.discard(link)
        if not self._open:
            self._none_open.set()


def _abort_made(connecting: asyncio.Future[Link]) -> None:
    """Close what was connected in the very moment of giving up."""
    if connecting.done() and not connecting.cancelled() and connecting.exception() is None:
        connecting.result().abort()
