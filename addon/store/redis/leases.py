"""The leases of processes that have calls in flight, and the search for dead processes.

A lock shows whether a process of this machine lives, a lease whether one of another machine does. A hold is placed only
while its owner has a lease on the workspace, by Redis's clock. So a search for leases that ended finds every hold of a
dead process without reading the others.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from addon.runtime.clock import Clock
from addon.store.money.sqlite.process_lock import ProcessLock
from addon.store.protocol import LEASE_S
from addon.store.redis.client import RedisClient
from addon.store.redis.keys import LEASES
from addon.store.redis.scripts import FORGET_LEASE, RENEW_LEASES

_RENEW_S = LEASE_S / 2


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of an owner on one workspace. ``end_us`` is its end as Redis has it, in µs."""

    owner: str
    workspace: str
    end_us: str


class Leases:
    """The leases of this process, and the search for those of dead ones. Raises ``StoreUnavailable``."""

    def __init__(self, client: RedisClient, process: ProcessLock, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._process = process
        self.owner = f"{process.machine_id}/{process.id}"
        self._ends: dict[str, tuple[str, float]] = {}
        self._peers: frozenset[str] = frozenset()
        self._dead: frozenset[str] = frozenset()
        self.has_dead_peer = True
        """Whether a dead process of this machine may still have holds. ``mark_reaped`` resets it."""
        self._last_answer_s: float | None = None
        self._judge_others_from_s = 0.0

    def known_end_us(self, workspace: str) -> str | None:
        """Return the end of this process's lease on a workspace, None when it has none, or has to renew it."""
        held = self._ends.get(workspace)
        return held[0] if held is not None and self._clock.monotonic_s() - held[1] <= _RENEW_S else None

    async def end_us(self, workspace: str, *, renew: bool = False) -> str:
        """Return the end of this process's lease on a workspace, by Redis's clock. Take a lease when it has none."""
        if renew or self.known_end_us(workspace) is None:
            await self._renew([workspace], "ended")
        return self._ends[workspace][0]

    async def renew(self, workspaces: Iterable[str]) -> list[Lease]:
        """Renew the leases on ``workspaces``, and return the leases of dead processes. Raises ``OSError`` too."""
        living, self._dead = self._process.find_alive(), self._process.find_dead()
        self.has_dead_peer = self.has_dead_peer or bool(self._dead) or not living >= self._peers
        self._peers = living
        found = await self._renew(workspaces, "all" if self.has_dead_peer else "ended")
        began_s = self._clock.monotonic_s() - LEASE_S
        self._ends = {name: end for name, end in self._ends.items() if end[1] > began_s}
        return [lease for lease in found if self._is_dead(lease)]

    def mark_reaped(self) -> None:
        """Record that all holds of the processes that ``renew`` found dead are settled. Raises OSError."""
        self.has_dead_peer = False
        if self._dead:
            self._process.forget_dead(self._dead)

    def invalidate(self) -> None:
        """Take new leases from now on, because Redis may have lost the old ones."""
        self._ends.clear()

    async def forget(self, lease: Lease) -> None:
        """Remove a lease whose holds are all settled."""
        await self._client.run(FORGET_LEASE, [LEASES], f"{lease.owner} {lease.workspace}", lease.end_us)

    async def _renew(self, workspaces: Iterable[str], which: str) -> list[Lease]:
        names, began_s = list(workspaces), self._clock.monotonic_s()
        end_us, *found = await self._client.run(
            RENEW_LEASES, [LEASES], self.owner, LEASE_S * 1_000_000, which, *names
        )
        self._ends.update((name, (end_us, began_s)) for name in names)
        if self._last_answer_s is not None and began_s - self._last_answer_s > _RENEW_S:
            # Redis was unreachable, so no process could renew its lease. Give all of them time to do so.
            self._judge_others_from_s = began_s + LEASE_S
        self._last_answer_s = began_s
        self._now_us = int(end_us) - LEASE_S * 1_000_000
        leases = zip(found[::2], found[1::2], strict=True)
        return [Lease(*_names(member), ended) for member, ended in leases]

    def _is_dead(self, lease: Lease) -> bool:
        if lease.owner == self.owner:
            return False
        machine, _, owner_id = lease.owner.partition("/")
        if machine == self._process.machine_id:
            return not self._process.is_alive(owner_id)
        return self._clock.monotonic_s() >= self._judge_others_from_s and float(lease.end_us) <= self._now_us


def _names(member: str) -> tuple[str, str]:
    owner, _, workspace = member.partition(" ")
    return owner, workspace
