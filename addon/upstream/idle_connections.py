"""``IdleConnections``: the connections of a pool that wait for the next request, and how long those of an origin may.

The one that was used last is used first. An origin that closed a connection before this side did so has half the time
from then on.
"""

import asyncio
from typing import Final

from msgspec import Struct

from addon.upstream.origin import Origin
from addon.upstream.provider_socket import ProviderSocket
from policies.resend import halve_idle_bound_s

MAX_BOUNDS: Final = 1024
"""For so many origins a shorter bound is known at a time. One more forgets the oldest."""
BOUND_LIFE_S: Final = 3600.0
"""A shorter bound is forgotten after this: the provider may only have been restarted."""


KEEP_ALIVE_MARGIN_S: Final = 1.0
"""How long before the time that its provider names a connection is closed."""


class _Bound(Struct):
    seconds: float
    since_s: float


class IdleConnections:
    """Idle connections, at most ``most`` and each at most ``idle_s``. No connection is taken ``age_s`` after it opened.

    All methods belong to one event loop.
    """

    def __init__(self, most: int, idle_s: float, age_s: float) -> None:
        self._most, self._idle_s, self._age_s = most, idle_s, age_s
        self._all: dict[ProviderSocket, None] = {}
        """The longest idle first."""
        self.by_origin: dict[Origin, list[ProviderSocket]] = {}
        """The longest idle first. An origin without idle connections has no entry. Only to be read from outside."""
        self._bounds: dict[Origin, _Bound] = {}
        """The bounds that are shorter than ``idle_s``, the oldest first. Those over ``BOUND_LIFE_S`` count no more."""
        self._sweep_timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._all)

    def add(self, socket: ProviderSocket) -> None:
        """Keep ``socket`` for the next request, if it may be idle at all."""
        loop, origin = asyncio.get_running_loop(), socket.origin
        now_s = loop.time()
        bound_s = self._bound_s(origin, now_s) if self._bounds else self._idle_s
        if socket.keep_alive_s is not None:
            bound_s = min(bound_s, socket.keep_alive_s - KEEP_ALIVE_MARGIN_S)
        if bound_s <= 0 or now_s - socket.opened_at_s >= self._age_s:
            socket.abort()
            return
        if len(self._all) >= self._most:
            self.close(next(iter(self._all)))
        socket.idle_since_s, socket.idle_until_s = now_s, now_s + bound_s
        self.by_origin.setdefault(origin, []).append(socket)
        self._all[socket] = None
        if self._sweep_timer is None or socket.idle_until_s < self._sweep_timer.when():
            self._sweep_at(socket.idle_until_s)

    def take(self, origin: Origin) -> ProviderSocket | None:
        """Return a connection that can be used now, or None. It is no longer idle."""
        while idle := self.by_origin.get(origin):
            socket = idle.pop()
            del self._all[socket]
            if not idle:
                del self.by_origin[origin]
            now_s = asyncio.get_running_loop().time()
            if now_s >= socket.idle_until_s or now_s - socket.opened_at_s >= self._age_s:
                socket.abort()
            elif socket.is_stale:
                self.note_stale(socket)
                socket.abort()
            else:
                return socket
        return None

    def close(self, socket: ProviderSocket) -> None:
        """Close an idle connection."""
        self._remove(socket)
        socket.abort()

    def close_oldest(self, origin: Origin) -> None:
        """Close the connection to ``origin`` that is idle for the longest time."""
        self.close(self.by_origin[origin][0])

    def close_all(self) -> None:
        """Close all idle connections."""
        for socket in list(self._all):
            self.close(socket)
        self._cancel_sweep()  # Its timer runs on where all have left.

    def forget_closed(self, socket: ProviderSocket) -> None:
        """Remove ``socket``, if its provider has closed it while it was idle."""
        if socket in self._all:
            self._remove(socket)
            self.note_stale(socket)

    def note_stale(self, socket: ProviderSocket) -> None:
        """Halve the bound of an origin that closed ``socket`` before this side did."""
        origin, now_s = socket.origin, asyncio.get_running_loop().time()
        bound_s = self._bound_s(origin, now_s)
        shorter_s = halve_idle_bound_s(bound_s, now_s - socket.idle_since_s)
        if shorter_s < bound_s:
            self._bounds.pop(origin, None)
            self._bounds[origin] = _Bound(shorter_s, now_s)
            if len(self._bounds) > MAX_BOUNDS:
                del self._bounds[next(iter(self._bounds))]

    def _bound_s(self, origin: Origin, now_s: float) -> float:
        bound = self._bounds.get(origin)
        if bound is None or now_s - bound.since_s >= BOUND_LIFE_S:
            return self._idle_s
        return bound.seconds

    def _sweep_at(self, due_s: float) -> None:
        self._cancel_sweep()
        self._sweep_timer = asyncio.get_running_loop().call_at(due_s, self._sweep)

    def _sweep(self) -> None:
        """Close the connections whose time is over. Run again when the next one's is."""
        self._sweep_timer = None
        now_s = asyncio.get_running_loop().time()
        for socket in [one for one in self._all if one.idle_until_s <= now_s]:
            self.close(socket)
        if self._all:
            self._sweep_at(min(one.idle_until_s for one in self._all))

    def _remove(self, socket: ProviderSocket) -> None:
        del self._all[socket]
        idle = self.by_origin[socket.origin]
        idle.remove(socket)
        if not idle:
            del self.by_origin[socket.origin]

    def _cancel_sweep(self) -> None:
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
