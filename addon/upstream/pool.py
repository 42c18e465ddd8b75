"""The pool of connections to providers, one for the process.

Connections are shared by origin, the last one used first. A call holds one at a time, within the bounds of its
workspace and of the origin; beyond them it waits for its turn.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from addon.deadline import within
from addon.upstream.connect import Connector
from addon.upstream.connection import UpstreamConnection
from addon.upstream.gates import Gate
from addon.upstream.link import Link
from addon.upstream.origin import Origin, Unreachable
from addon.upstream.proxy import EgressProxy, parse_proxy

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


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Bounds of the pool.

    ``idle_s`` is below the 60 s after which AWS's load balancers close an idle connection, and the 75 s of nginx
    (``keepalive_timeout``), so that it is this side that closes. ``age_s`` lets a provider move its address: a
    connection is not used again after that.
    """

    idle_per_origin: int = 64
    idle: int = 1024
    open_per_origin: int = 1024
    open_per_workspace: int = 256
    idle_s: float = 50.0
    age_s: float = 600.0


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Connections ``open`` now, ``idle`` ones among them; how often one was ``opened`` and ``reused`` so far."""

    open: int
    idle: int
    opened: int
    reused: int


@dataclass(frozen=True, slots=True)
class _Hold:
    """What a held connection counts for."""

    origin: Origin
    workspace: str
    proxy: EgressProxy | None


class _Lane:
    """The connections of one origin: ``idle`` ones, the last used at the end, and a gate for those that are held."""

    __slots__ = ("gate", "idle")

    def __init__(self, limit: int) -> None:
        self.gate = Gate(limit)
        self.idle: list[Link] = []


class Pool:
    """The connections of one process. All of its methods belong to one event loop."""

    def __init__(
        self, connector: Connector, limits: PoolLimits = PoolLimits(), proxy: EgressProxy | None = None
    ) -> None:
        self._connector = connector
        self._limits = limits
        self._proxy = proxy
        self._lanes: dict[Origin, _Lane] = {}
        self._gates: dict[str, Gate] = {}
        self._open: set[Link] = set()
        self._held: dict[Link, tuple[_Hold, UpstreamConnection]] = {}
        self._idle: dict[Link, Origin] = {}
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
        lane = self._try_enter(origin, workspace) or await self._enter(origin, workspace, timeout_s)
        try:
            hold = _Hold(origin, workspace, self._proxy)
            idle = None if fresh else self._take_idle(lane)
            link = idle or await self._connect(lane, hold, timeout_s)
        except BaseException:
            self._leave(origin, workspace)
            raise
        self._reused += idle is not None
        self._held[link] = (
            hold,
            connection := UpstreamConnection(link, self._take_back, is_reused=idle is not None),
        )
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
        for _, connection in list(self._held.values()):
            connection.close()
        self._connector.close()
        while self._open:
            self._none_open.clear()
            await self._none_open.wait()

    # Places.

    def _try_enter(self, origin: Origin, workspace: str) -> _Lane | None:
        gate, lane = self._gate_of(workspace), self._lane_of(origin)
        if gate.try_enter():
            if lane.gate.try_enter():
                return lane
            gate.leave()
        return None

    async def _enter(self, origin: Origin, workspace: str, timeout_s: float) -> _Lane:
        try:
            async with within(timeout_s):
                await self._gate_of(workspace).enter()
                try:
                    lane = self._lane_of(origin)
                    await lane.gate.enter()
                except BaseException:
                    self._gates[workspace].leave()
                    raise
                return lane
        except TimeoutError:
            raise PoolFull from None
        finally:
            self._forget_unused(origin, workspace)

    def _leave(self, origin: Origin, workspace: str) -> None:
        self._lanes[origin].gate.leave()
        self._gates[workspace].leave()
        self._forget_unused(origin, workspace)

    def _gate_of(self, workspace: str) -> Gate:
        gate = self._gates.get(workspace)
        if gate is None:
            gate = self._gates[workspace] = Gate(self._limits.open_per_workspace)
        return gate

    def _lane_of(self, origin: Origin) -> _Lane:
        lane = self._lanes.get(origin)
        if lane is None:
            lane = self._lanes[origin] = _Lane(self._limits.open_per_origin)
        return lane

    def _forget_unused(self, origin: Origin, workspace: str = "") -> None:
        lane, gate = self._lanes.get(origin), self._gates.get(workspace)
        if lane is not None and lane.gate.is_unused and not lane.idle:
            del self._lanes[origin]
        if gate is not None and gate.is_unused:
            del self._gates[workspace]

    # Connections.

    async def _connect(self, lane: _Lane, hold: _Hold, timeout_s: float) -> Link:
        if lane.idle and lane.gate.inside + len(lane.idle) > self._limits.open_per_origin:
            self._close_idle(lane.idle[0])
        link = await self._connector.connect(hold.origin, hold.proxy, timeout_s, self._make)
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
        hold, _ = self._held.pop(link)
        if is_clean:
            self._keep(link, hold)
        self._leave(hold.origin, hold.workspace)

    def _keep(self, link: Link, hold: _Hold) -> None:
        lane, now_s = self._lanes[hold.origin], asyncio.get_running_loop().time()
        is_full = len(lane.idle) >= self._limits.idle_per_origin
        if is_full or self._is_closed or hold.proxy != self._proxy or self._is_old(link, now_s):
            link.abort()
            return
        if len(self._idle) >= self._limits.idle:
            self._close_idle(next(iter(self._idle)))
        link.idle_since_s = now_s
        lane.idle.append(link)
        self._idle[link] = hold.origin
        if self._sweep_timer is None:
            loop = asyncio.get_running_loop()
            self._sweep_timer = loop.call_at(now_s + self._limits.idle_s, self._sweep)

    def _take_idle(self, lane: _Lane) -> Link | None:
        while lane.idle:
            link = lane.idle.pop()
            del self._idle[link]
            if not link.is_stale and not self._is_old(link, asyncio.get_running_loop().time()):
                return link
            link.abort()
        return None

    def _is_old(self, link: Link, now_s: float) -> bool:
        return now_s - link.opened_at_s >= self._limits.age_s

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
        origin = self._idle.pop(link)
        self._lanes[origin].idle.remove(link)
        self._forget_unused(origin)
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
