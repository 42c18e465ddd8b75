"""The names of everything in Redis. What belongs to one workspace bears its hash tag, so one node of a cluster has it.

A counter is a hash with the fields ``spent``, ``requests``, ``held`` and ``in_flight``. Pure.
"""

from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from policies.limits import EVER, Counter, counters_of_day, wallet_counter

STATE = "{tollgate}:state"
"""Which state all of this belongs to. Each workspace has a mark of its own with the same value."""
PULSE = "{tollgate}:pulse"
"""How often all processes together have checked, "beat", since the last rebuild, "epoch": it never goes back."""
LEDGER = "{tollgate}:ledger"
"""The id of the ledger that calls are booked in."""
WORKSPACES = "{tollgate}:workspaces"
"""A hash: "new" while a workspace is being made, then "ready"."""
LEASES = "{tollgate}:leases"
"""Who has calls in flight, and until when that is believed: "owner workspace" by µs."""
OUTBOXES = "{tollgate}:outboxes"
"""Workspaces whose outbox may have something for a ledger on another machine."""
CIRCUITS = "{tollgate}:circuits"
"""A hash: the providers that failed lately, each with its circuit."""

ENDED_S = 3600
"""How long the id of a call that ended is remembered. What was lost on its way may come as much later."""
INTERRUPTED_S = 7 * 86_400
"""The same for a call that was taken for dead: its process may come back."""

_DAY_S = 86_400
_LIVES_S = {len("2026-11-21"): 3 * _DAY_S, len("2026-W47"): 10 * _DAY_S, len("2026-11"): 40 * _DAY_S}
_SPEND = ":spend:"


def lives_s(period: str) -> int:
    """Return how long a counter lives after its last change: longer than its period lasts. 0: for ever."""
    return 0 if period == EVER else _LIVES_S[len(period)]


@dataclass(frozen=True, slots=True)
class WorkspaceKeys:
    """The names of one workspace."""

    state: str
    takes: str
    holds: str
    outbox: str
    credits: str
    ended: str
    spend: str

    def ended_call(self, call_id: str) -> str:
        """How a call ended: "settled", "interrupted" or "voided"."""
        return f"{self.ended}{call_id}"

    def counter(self, counter: Counter) -> str:
        return f"{self.spend}{counter.scope}:{counter.period}"


@lru_cache(maxsize=4096)
def keys_of(workspace: str) -> WorkspaceKeys:
    """Return the names of a workspace."""
    tag = f"tollgate:{{{workspace}}}"
    return WorkspaceKeys(
        state=f"{tag}:state",
        takes=f"{tag}:takes",
        holds=f"{tag}:holds",
        outbox=f"{tag}:outbox",
        credits=f"{tag}:credits",
        ended=f"{tag}:ended:",
        spend=f"{tag}{_SPEND}",
    )


def counter_of(key: str) -> Counter:
    """Return the counter that a name stands for."""
    scope, _, period = key.partition(_SPEND)[2].rpartition(":")
    return Counter(scope, period)


@dataclass(frozen=True, slots=True)
class CallCounters:
    """The counters that one call adds to, the wallet's last: their names, and how long each lives, in seconds."""

    keys: tuple[str, ...]
    lives_s: tuple[int, ...]


@lru_cache(maxsize=4096)
def call_counters(workspace: str, key_id: str, day: date) -> CallCounters:
    """Return the counters of a call of ``day`` (UTC)."""
    counters = (*counters_of_day(workspace, key_id, day), wallet_counter(workspace))
    keys = keys_of(workspace)
    return CallCounters(tuple(map(keys.counter, counters)), tuple(lives_s(c.period) for c in counters))
