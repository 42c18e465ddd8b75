"""The rebuild of the state in Redis from the ledger: ``tollgate state rebuild``.

The old state may be empty, half lost or complete. During the rebuild the id of the state is missing, so every script
refuses to work: calls are refused, and gateways keep their settlements. Both continue by themselves afterwards.
"""

import asyncio
import json
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import batched
from pathlib import Path

from pydantic import SecretStr

from addon.store.money.rows import CALL, WAS_INTERRUPTED
from addon.store.money.sqlite.recount import CounterTotals, recount
from addon.store.protocol import LEASE_S, MAINTENANCE_INTERVAL_S, TIMEOUT_S
from addon.store.rates.redis.circuits import parse_time_us
from addon.store.redis.keys import (
    ENDED_S,
    INTERRUPTED_S,
    LEASES,
    PULSE,
    STATE,
    WORKSPACES,
    call_counters,
    counter_of,
    keys_of,
    ttl_s,
)
from addon.store.redis.scripts import REFILL_BUCKET
from addon.store.redis.session import COMMAND_TIMEOUT_S, RedisSession, redis_session
from addon.store.redis.state import make_group, set_redis_state
from policies.limits import Counter, period_end
from policies.token_bucket import WINDOW_US
from policies.utc_time import format_utc

NEWEST_S = 300
"""Calls that ended at most so long before the last one are marked as ended: their gateways may settle them again.

Gateways keep the settlements of one minute. The rest is a margin for clocks that differ."""
_BATCH = 1_000

type Command = Sequence[str | int]


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The counts of a rebuild. ``recorded`` entries came from the outboxes; ``holds`` are of calls in flight."""

    workspaces: int
    counters: int
    holds: int
    recorded: int


async def rebuild_state(url: SecretStr, database: Path, *, take_over: bool = False) -> Rebuilt:
    """Create the state in Redis again from the ledger, and record calls in this ledger from then on.

    With ``take_over`` this ledger replaces another one. Raise ``StoreUnavailable`` on failure; then calls stay refused
    until a rebuild succeeds.
    """
    async with redis_session(url, database) as session:
        await session.claim_ledger(take_over=take_over)
        async with session.client.timeout(COMMAND_TIMEOUT_S):
            await session.client.command("DEL", STATE)
        # Wait until every gateway has noticed, and until a workspace that one is just creating is complete.
        await asyncio.sleep(MAINTENANCE_INTERVAL_S + TIMEOUT_S)
        names = await session.find_keys()
        await _block_workspaces(session, names)
        recorded = sum([await session.outbox.empty(workspace, stale_s=0) for workspace in names])
        return await _restore_all(session, names, recorded)


async def _block_workspaces(session: RedisSession, workspaces: Iterable[str]) -> None:
    for workspace in workspaces:
        async with session.client.timeout(COMMAND_TIMEOUT_S):
            await session.client.command("DEL", keys_of(workspace).state)
            await make_group(session.client, workspace)


async def _restore_all(session: RedisSession, names: Mapping[str, Sequence[str]], recorded: int) -> Rebuilt:
    connection = session.file.connection
    state = session.ledger().state or secrets.token_hex(8)
    by_workspace: defaultdict[str, dict[str, CounterTotals]] = defaultdict(dict)
    today = datetime.now(UTC).date()
    for counter, totals in recount(connection).items():
        workspace = _workspace_of(counter)
        counters = by_workspace[workspace]
        if period_end(counter.period) > (today - timedelta(seconds=ttl_s(counter.period))).isoformat():
            counters[keys_of(workspace).counter(counter)] = totals
    holds = 0
    for workspace in sorted({*names, *by_workspace}):
        old = [name for name in names.get(workspace, ()) if name.startswith(keys_of(workspace).spend)]
        holds += await _restore(session, workspace, state, by_workspace[workspace], old)
    await session.file.write(lambda file: set_redis_state(file, state))
    async with session.client.timeout(COMMAND_TIMEOUT_S):
        now_us = parse_time_us(await session.client.command("TIME"))
        await session.client.command("HSET", PULSE, "epoch", now_us, "beat", 0)
        await session.client.command("SET", STATE, state)
    return Rebuilt(len(by_workspace), sum(map(len, by_workspace.values())), holds, recorded)


async def _mark_ended(session: RedisSession, workspace: str) -> None:
    """Mark the newest calls as ended again, so that a call that is settled twice counts once."""
    keys = keys_of(workspace)
    marks = [
        ("SET", keys.ended_call(call_id), outcome, "NX", "EX", seconds)
        for call_id, outcome, seconds in _newest_ended(session, workspace)
    ]
    for batch in batched(marks, _BATCH):
        async with session.client.timeout(COMMAND_TIMEOUT_S):
            await session.client.transaction(batch)


def _newest_ended(session: RedisSession, workspace: str) -> list[tuple[str, str, int]]:
    rows = session.file.connection.execute(_NEWEST_ENDED, (workspace, NEWEST_S / 86_400))
    return [
        (call_id, "interrupted", INTERRUPTED_S) if interrupted else (call_id, "settled", ENDED_S)
        for call_id, interrupted in rows
    ]


_ENDED_AT = "julianday(created_at) + duration_ms / 86400000.0"
_NEWEST_ENDED = (
    f"SELECT id, {WAS_INTERRUPTED}"  # noqa: S608
    f" FROM usage WHERE workspace = ? AND {_ENDED_AT} >= (SELECT max({_ENDED_AT}) FROM usage) - ?"
)


def _workspace_of(counter: Counter) -> str:
    return counter.scope.partition(":")[2].partition("/")[0]


async def _restore(
    session: RedisSession,
    workspace: str,
    state: str,
    counters: Mapping[str, CounterTotals],
    old: Iterable[str],
) -> int:
    """Write the state of one workspace in one atomic step. Return how many holds it has."""
    keys = keys_of(workspace)
    await _mark_ended(session, workspace)
    async with session.client.timeout(COMMAND_TIMEOUT_S):
        records = await session.client.command("HVALS", keys.holds)
        await make_group(session.client, workspace)
        await session.client.run(REFILL_BUCKET, [keys.takes], _calls_of_window(session, workspace), WINDOW_US)
        for owner in {record.split(":", 3)[2] for record in records}:
            # Its process may live. If not, a gateway must find the lease when it ends.
            now_us = parse_time_us(await session.client.command("TIME"))
            await session.client.command(
                "ZADD", LEASES, "NX", now_us + LEASE_S * 1_000_000, f"{owner} {workspace}"
            )
        commands: list[Command] = [("DEL", name) for name in old]
        commands += _counter_commands(counters, sum_holds(records))
        commands.append(("DEL", keys.credits))
        commands += [("SADD", keys.credits, entry_id) for entry_id in _credits(session, workspace)]
        commands.append(("SET", keys.state, state))
        await session.client.transaction(commands)
        await session.client.command("HSET", WORKSPACES, workspace, "ready")
    return len(records)


def sum_holds(records: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the sums of the holds that Redis has, by counter: the amount that is held, and the number of calls."""
    sums: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for record in records:
        amount, _, _, packed = record.split(":", 3)
        row = json.loads(packed)
        day = datetime.fromisoformat(row["created_at"]).date()
        for name in call_counters(row["workspace"], row["key_id"], day).keys:
            held, calls = sums[name]
            sums[name] = (held + int(amount), calls + 1)
    return dict(sums)


def _counter_commands(
    counters: Mapping[str, CounterTotals], held: Mapping[str, tuple[int, int]]
) -> Iterable[Command]:
    for name in {*counters, *held}:
        totals = counters.get(name, CounterTotals())
        held_nanousd, calls = held.get(name, (0, 0))
        spent = ("spent", totals.spent_nanousd, "requests", totals.requests)
        yield ("HSET", name, *spent, "held", held_nanousd, "in_flight", calls)
        if seconds := ttl_s(counter_of(name).period):
            yield ("EXPIRE", name, seconds)


def _credits(session: RedisSession, workspace: str) -> list[str]:
    sql = "SELECT id FROM wallet_entries WHERE workspace = ? AND reference <> ?"
    return [entry_id for (entry_id,) in session.file.connection.execute(sql, (workspace, CALL))]


def _calls_of_window(session: RedisSession, workspace: str) -> int:
    since = format_utc(datetime.now(UTC) - timedelta(microseconds=WINDOW_US))
    sql = "SELECT count(*) FROM usage WHERE workspace = ? AND created_at >= ?"
    found: int = session.file.connection.execute(sql, (workspace, since)).fetchone()[0]
    return found
