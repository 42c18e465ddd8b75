"""The keys in Redis. All keys of a workspace have the same hash tag, so one node of a cluster has them all.

A counter is a hash with the fields ``spent``, ``requests``, ``held`` and ``in_flight``. Pure.
"""

from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from addon.store.rates.redis.keys import takes_of
from policies.limits import EVER, Counter, counters_of, wallet_counter

STATE = "{tollgate}:state"
"""The id of the state. Each workspace has a key of its own with the same value."""
PULSE = "{tollgate}:pulse"
"""A hash: "beat" counts the checks of all processes since the last rebuild, "epoch". The pair only grows."""
LEDGER = "{tollgate}:ledger"
"""The id of the ledger that calls are recorded in."""
WORKSPACES = "{tollgate}:workspaces"
"""A hash: "new" while the keys of a workspace are created, then "ready"."""
LEASES = "{tollgate}:leases"
"""A sorted set: "owner workspace" for each process with calls in flight, by the end of its lease in µs."""
OUTBOXES = "{tollgate}:outboxes"
"""A set of the workspaces whose outbox may have entries for a ledger on another machine."""

REFUSALS = "{tollgate}:refusals"
"""A hash of the counts of refused calls that wait for the ledger, by group as JSON."""
REFUSALS_TAKEN = "{tollgate}:refusals:taken"
"""The part of them that is being written to the ledger, with its "id"."""

ENDED_S = 3600
"""How long the id of an ended call is remembered. A command that was delayed may arrive as late as this."""
INTERRUPTED_S = 7 * 86_400
"""The same for a call that counted as interrupted: its process may come back."""

_DAY_S = 86_400
_TTL_S = {len("2026-11-21"): 3 * _DAY_S, len("2026-W47"): 10 * _DAY_S, len("2026-11"): 40 * _DAY_S}
_SPEND = ":spend:"


def ttl_s(period: str) -> int:
    """Return how many seconds a counter is kept after its last change: longer than its period. 0: forever."""
    return 0 if period == EVER else _TTL_S[len(period)]


@dataclass(frozen=True, slots=True)
class WorkspaceKeys:
    """The keys of one workspace."""

    state: str
    takes: str
    holds: str
    outbox: str
    credits: str
    ended: str
    spend: str

    def ended_call(self, call_id: str) -> str:
        """Return the key of how a call ended: "settled", "interrupted" or "voided"."""
        return f"{self.ended}{call_id}"

    def counter(self, counter: Counter) -> str:
        return f"{self.spend}{counter.scope}:{counter.period}"


@lru_cache(maxsize=4096)
def keys_of(workspace: str) -> WorkspaceKeys:
    """Return the keys of a workspace."""
    tag = f"tollgate:{{{workspace}}}"
    return WorkspaceKeys(
        state=f"{tag}:state",
        takes=takes_of(workspace),
        holds=f"{tag}:holds",
        outbox=f"{tag}:outbox",
        credits=f"{tag}:credits",
        ended=f"{tag}:ended:",
        spend=f"{tag}{_SPEND}",
    )


def refusal_batch(batch_id: str) -> str:
    """Return the key that marks a batch of refusals as added."""
    return f"{REFUSALS}:added:{batch_id}"


def counter_of(key: str) -> Counter:
    """Return the counter that a key belongs to."""
    scope, _, period = key.partition(_SPEND)[2].rpartition(":")
    return Counter(scope, period)


@dataclass(frozen=True, slots=True)
class CallCounters:
    """The counters that one call adds to, the wallet's last: their keys, and how many seconds each is kept."""

    keys: tuple[str, ...]
    ttl_s: tuple[int, ...]


@lru_cache(maxsize=4096)
def call_counters(workspace: str, key_id: str, day: date) -> CallCounters:
    """Return the counters of a call of ``day`` (UTC)."""
    counters = (*counters_of(workspace, key_id, day), wallet_counter(workspace))
    keys = keys_of(workspace)
    return CallCounters(tuple(map(keys.counter, counters)), tuple(ttl_s(c.period) for c in counters))
