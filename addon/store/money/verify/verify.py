"""The checks of ``tollgate ledger verify``: rows, prices, counters, wallets and rollups agree to the nano-dollar.

The audit log has each of its lines.
"""

import asyncio
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from pydantic import SecretStr

from addon.store.money.audit.audit import find_audit_gaps
from addon.store.money.reports.calls_by_id import count_wrong_ids
from addon.store.money.rows import CALL
from addon.store.money.sqlite.recount import CounterTotals, recount
from addon.store.money.sums.rollup_check import find_wrong
from addon.store.money.verify.price_check import find_wrong_costs
from addon.store.redis.keys import counter_of, keys_of
from addon.store.redis.rebuild import sum_holds
from addon.store.redis.session import COMMAND_TIMEOUT_S, RedisSession, redis_session
from addon.store.redis.state import EMPTY
from policies.exchange import INTERRUPTED
from policies.limits import Counter, period_end

ROUNDS = 3
_PAUSE_S = 0.3


def verify(connection: sqlite3.Connection) -> list[str]:
    """Return every discrepancy in the ledger's file, one line each. Raises ``sqlite3.Error``.

    Nothing else is read from a damaged file. Counters are checked only when this file keeps them. In a transaction of
    ``connection``, everything is read at one moment.
    """
    if damages := [*_check_file(connection)]:
        return damages
    (redis_state,) = connection.execute("SELECT redis_state FROM ledger").fetchone()
    return [
        *(_check_counters(connection) if redis_state is None else ()),
        *find_wrong_costs(connection),
        *_check_charges(connection),
        *_check_holds(connection),
        *(
            f"{table.name} of {period}: the sums differ from the calls"
            for table, period in find_wrong(connection)
        ),
        *_check_client_ids(connection),
        *find_audit_gaps(connection),
    ]


def _check_file(connection: sqlite3.Connection) -> Iterable[str]:
    for (result,) in connection.execute("PRAGMA quick_check"):
        if result != "ok":
            yield f"the file is damaged: {result}"


def _check_counters(connection: sqlite3.Connection) -> Iterable[str]:
    stored = {
        Counter(scope, period): CounterTotals(spent_nanousd, requests)
        for scope, period, spent_nanousd, requests in connection.execute(
            "SELECT scope, period, spent_nanousd, requests FROM spend"
        )
    }
    recorded = recount(connection)
    for counter in sorted({*stored, *recorded}, key=lambda one: (one.scope, one.period)):
        yield from _compare(
            counter, stored.get(counter, CounterTotals()), recorded.get(counter, CounterTotals())
        )


def _compare(counter: Counter, stored: CounterTotals, recorded: CounterTotals) -> Iterable[str]:
    name = f"counter {counter.scope} of {counter.period}"
    if stored.spent_nanousd != recorded.spent_nanousd:
        yield f"{name}: {stored.spent_nanousd} nano-USD are counted, {recorded.spent_nanousd} are recorded"
    if stored.requests != recorded.requests:
        yield f"{name}: {stored.requests} calls are counted, {recorded.requests} are recorded"


def _check_charges(connection: sqlite3.Connection) -> Iterable[str]:
    wrong = connection.execute(
        """
        SELECT entry.id, entry.workspace, -entry.amount_nanousd, usage.workspace, usage.retail_nanousd
        FROM wallet_entries AS entry LEFT JOIN usage ON usage.id = entry.id
        WHERE entry.reference = ? AND (
            usage.id IS NULL OR usage.retail_nanousd <> -entry.amount_nanousd OR usage.workspace <> entry.workspace
        )
        """,
        (CALL,),
    )
    for call_id, workspace, paid_nanousd, of_workspace, cost_nanousd in wrong:
        recorded = "no such call is recorded" if cost_nanousd is None else f"{of_workspace}: {cost_nanousd}"
        yield f"charge {call_id}: the wallet of {workspace} paid {paid_nanousd} nano-USD, {recorded}"


def _check_holds(connection: sqlite3.Connection) -> Iterable[str]:
    sql = "SELECT id FROM holds JOIN usage USING (id) WHERE usage.error_code IS NOT ?"
    for (call_id,) in connection.execute(sql, (INTERRUPTED,)):
        yield f"hold {call_id}: the call is recorded, but money is still held for it"


def _check_client_ids(connection: sqlite3.Connection) -> Iterable[str]:
    if wrong := count_wrong_ids(connection):
        yield f"client_requests: {wrong} calls are missing or wrong"


async def verify_redis(url: SecretStr, database: Path) -> list[str]:
    """Return every discrepancy between Redis and the ledger, and in the ledger, one line each.

    Calls may end during the check. So only a difference that several rounds find unchanged counts. Raises
    ``StoreUnavailable`` and ``sqlite3.Error``.
    """
    async with redis_session(url, database) as session:
        await session.claim_ledger()
        async with session.client.timeout(COMMAND_TIMEOUT_S):
            await session.state.check()
        lasting = await _find_differences(session)
        for _ in range(ROUNDS - 1):
            if lasting:
                await asyncio.sleep(_PAUSE_S)
                found = set(await _find_differences(session))
                lasting = [line for line in lasting if line in found]
        return [*verify(session.file.connection), *lasting]


async def _find_differences(session: RedisSession) -> list[str]:
    await session.refusals.move(COMMAND_TIMEOUT_S)
    names = await session.find_keys()
    for workspace in names:
        await session.outbox.empty(workspace, stale_s=0)
    recorded = recount(session.file.connection)
    lines: list[str] = []
    for workspace in names:
        lines += await _compare_workspace(session, workspace, names[workspace], recorded)
    for counter, totals in recorded.items():
        if _is_current(counter):
            lines += _compare(counter, CounterTotals(), totals)
    return lines


def _is_current(counter: Counter) -> bool:
    """Return whether Redis must have this counter. It removes the counters of past periods after a while."""
    return period_end(counter.period) > datetime.now(UTC).date().isoformat()


async def _compare_workspace(
    session: RedisSession, workspace: str, names: Iterable[str], recorded: dict[Counter, CounterTotals]
) -> list[str]:
    """Compare one workspace, and remove its counters from ``recorded``."""
    keys = keys_of(workspace)
    counters = sorted(name for name in names if name.startswith(keys.spend))
    async with session.client.timeout(COMMAND_TIMEOUT_S):
        state, records, *found = await session.client.transaction(
            [("GET", keys.state), ("HVALS", keys.holds), *(("HGETALL", name) for name in counters)]
        )
    if state is None:
        return [f"workspace {workspace}: {EMPTY}"]
    held, lines = sum_holds(records), list[str]()
    for name, fields in zip(counters, found, strict=True):
        counter = counter_of(name)
        values = {field: int(value) for field, value in fields.items()}
        stored = CounterTotals(values.get("spent", 0), values.get("requests", 0))
        lines += _compare(counter, stored, recorded.pop(counter, CounterTotals()))
        counted = (values.get("held", 0), values.get("in_flight", 0))
        lines += _compare_holds(counter, counted, held.get(name, (0, 0)))
    return lines


def _compare_holds(counter: Counter, counted: tuple[int, int], held: tuple[int, int]) -> Iterable[str]:
    if counted != held:
        name = f"counter {counter.scope} of {counter.period}"
        yield f"{name}: {counted[0]} nano-USD of {counted[1]} calls are counted, {held[0]} of {held[1]} are held"
