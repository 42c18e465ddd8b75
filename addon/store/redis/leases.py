"""Whose calls are in flight in Redis, and whether they still live: on this machine by locks, elsewhere by leases.

A hold is placed only while its owner's lease on the workspace lasts, by Redis's clock. So who looks for leases that
ended finds every hold that a dead process left, and reads nothing of the others.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from addon.runtime.clock import Clock
from addon.store.process_lock import ProcessLock
from addon.store.protocol import LEASE_S
from addon.store.redis.client import RedisClient
from addon.store.redis.keys import LEASES
from addon.store.redis.scripts import FORGET_LEASE, RENEW_LEASES

_RENEW_S = LEASE_S / 2


@dataclass(frozen=True, slots=True)
class Lease:
    """An owner's calls in one workspace, and the end of the lease as Redis has it, in µs."""

    owner: str
    workspace: str
    end_us: str


class Leases:
    """The leases of this process, and the look-out for those of dead ones. Raises ``StoreUnavailable``."""

    def __init__(self, client: RedisClient, process: ProcessLock, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._process = process
        self.owner = f"{process.machine_id}/{process.id}"
        self._ends: dict[str, tuple[str, float]] = {}
        self._peers: frozenset[str] = frozenset()
        self._dead: frozenset[str] = frozenset()
        self.has_dead_peer = True
        """Whether a process of this machine may have left calls behind: until ``mark_reaped``."""
        self._last_answer_s: float | None = None
        self._judge_others_from_s = 0.0

    async def end_us(self, workspace: str, *, renew: bool = False) -> str:
        """Return the end of this process's lease on a workspace, by Redis's clock; take one where there is none."""
        held = self._ends.get(workspace)
        if renew or held is None or self._clock.monotonic_s() - held[1] > _RENEW_S:
            await self._renew([workspace], "ended")
        return self._ends[workspace][0]

    async def renew(self, workspaces: Iterable[str]) -> list[Lease]:
        """Renew the leases on ``workspaces``; return those of others that are dead. Raises also ``OSError``."""
        living, self._dead = self._process.find_alive(), self._process.find_dead()
        self.has_dead_peer = self.has_dead_peer or bool(self._dead) or not living >= self._peers
        self._peers = living
        found = await self._renew(workspaces, "all" if self.has_dead_peer else "ended")
        began_s = self._clock.monotonic_s() - LEASE_S
        self._ends = {name: end for name, end in self._ends.items() if end[1] > began_s}
        return [lease for lease in found if self._is_dead(lease)]

    def mark_reaped(self) -> None:
        """All that dead processes had left, when ``keep`` was asked, is in order. Raises OSError."""
        self.has_dead_peer = False
        if self._dead:
            self._process.forget_dead(self._dead)

    def invalidate(self) -> None:
        """Take new leases from now on: Redis may have lost those that there were."""
        self._ends.clear()

    async def forget(self, lease: Lease) -> None:
        """Forget a lease whose holds have all been ended."""
        await self._client.run(FORGET_LEASE, [LEASES], f"{lease.owner} {lease.workspace}", lease.end_us)

    async def _renew(self, workspaces: Iterable[str], asked: str) -> list[Lease]:
        names, began_s = list(workspaces), self._clock.monotonic_s()
        end_us, *found = await self._client.run(
            RENEW_LEASES, [LEASES], self.owner, LEASE_S * 1_000_000, asked, *names
        )
        self._ends.update((name, (end_us, began_s)) for name in names)
        if self._last_answer_s is not None and began_s - self._last_answer_s > _RENEW_S:
            # While nobody reached Redis nobody could renew: all others get the time to.
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
