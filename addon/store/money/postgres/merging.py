"""The merging of what each writer has counted into one row for each group and each counter. Source: ``sum_schema``.

It may run at any moment, in any process, and end after any step. It never waits for a row that a call writes, and a
call waits for one step at most.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg
from pydantic import SecretStr

from addon.runtime.clock import Clock
from addon.store.money.engine import Last, Rows, Statement, Step
from addon.store.money.postgres.failures import describe
from addon.store.money.postgres.sum_schema import (
    COUNTER_PARTS,
    MERGING_LOCK,
    PARTS,
    add_groups,
    derive,
    merged,
)
from addon.store.money.postgres.transactions import Transactions
from addon.store.money.sums.rollup_schema import HOURS, TABLES, RollupTable
from addon.store.money.sums.rollups import HOUR_DIGITS
from addon.store.protocol import StoreUnavailable

log = logging.getLogger("tollgate.store")

_AFTER: Final = timedelta(minutes=5)
"""How long an hour has ended before it is merged. Most of its calls have ended then, too."""
ROWS: Final = 1000
"""How many rows of each kind a step merges at most."""

_TIMEOUT_S: Final = 10.0


def ended_hour(now: datetime) -> str:
    """Return the hour ("2026-11-21T09") before which hours are merged."""
    return (now.astimezone(UTC) - _AFTER).isoformat()[:HOUR_DIGITS]


class Merger:
    """The merging of one process, over a connection of its own: calls must not wait for a step."""

    def __init__(self, url: SecretStr, clock: Clock) -> None:
        self._transactions = Transactions(url, clock)
        self._clock = clock
        self._merged_until = ""
        self._has_failed = False

    async def step(self) -> None:
        """Make a step, if an hour has ended that is not merged. One that fails is made again by the next call."""
        until = ended_hour(self._clock.now())
        if until == self._merged_until:
            return
        try:
            is_more = await merge(self._transactions, until)
        except (StoreUnavailable, psycopg.Error) as error:
            if not self._has_failed:
                log.warning("sums of calls can't be merged, so reports take longer: %s", describe(error))
            self._has_failed = True
            return
        self._has_failed = False
        if not is_more:
            self._merged_until = until
            await self._transactions.close()

    async def close(self) -> None:
        """Disconnect."""
        await self._transactions.close()


async def merge(transactions: Transactions, until: str) -> bool:
    """Make one step: merge sums of the hours before ``until``, and counters. Return whether there may be more.

    Nothing is left to do where another process merges at this moment. Raises ``StoreUnavailable``.
    """
    asked = (*_PLAN, Statement(_PROGRESS, (until, until)), Statement(_HOURS, (until,)), Statement(_COUNTERS))
    *_, [[hours]], [[counters]] = await transactions.do(_merge, asked, "merging", timeout_s=_TIMEOUT_S)
    most: int = max(hours, counters)
    return most >= ROWS


def _merge(asked: Sequence[Sequence[Statement]]) -> Step[Sequence[Sequence[Rows]]]:
    [statements] = asked
    return [(yield Last(statements))]


def _taken(table: str, where: str) -> str:
    """Return the SQL that takes rows which no one writes now, as ``taken``. One process at a time finds any."""
    return f"""
        taken AS MATERIALIZED (
            DELETE FROM {table} WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM {table} WHERE {_IS_ALONE} AND {where} LIMIT {ROWS} FOR UPDATE SKIP LOCKED
            )) RETURNING *
        )
    """  # noqa: S608


def _added(table: RollupTable) -> str:
    """Return the SQL that adds the rows that were taken to the merged sums of a table."""
    name, columns = merged(table), (*table.sums, *table.buckets)
    source = "taken" if table is HOURS else f"({derive(table, 'taken')}) AS made"
    changed = ", ".join(f"{one} = {name}.{one} + excluded.{one}" for one in columns)
    return (
        f"in_{table.name} AS (INSERT INTO {name} ({', '.join(table.columns)}) {add_groups(table, source)}"
        f" ON CONFLICT ({', '.join(table.groups)}) DO UPDATE SET {changed})"
    )


# Transactions of calls avoid a plain scan of a table, whatever it costs. To compile what seems so costly takes seconds.
_PLAN: Final = (Statement("SET LOCAL enable_seqscan = on"), Statement("SET LOCAL jit = off"))
_IS_ALONE: Final = f"(SELECT pg_try_advisory_xact_lock({MERGING_LOCK}))"
_PROGRESS: Final = f"UPDATE rollup_progress SET days_until = ? WHERE {_IS_ALONE} AND days_until < ?"  # noqa: S608
_HOURS: Final = f"""
    WITH {_taken(PARTS, "hour < ?")}, {", ".join(map(_added, TABLES))} SELECT count(*) FROM taken
"""  # noqa: S608
_COUNTERS: Final = f"""
    WITH {_taken(COUNTER_PARTS, "writer <> 0")}, added AS (
        INSERT INTO {COUNTER_PARTS} (scope, period, spent_nanousd, requests, writer)
        SELECT scope, period, sum(spent_nanousd)::bigint, sum(requests)::bigint, 0 FROM taken GROUP BY scope, period
        ON CONFLICT (scope, period, writer) DO UPDATE
        SET spent_nanousd = {COUNTER_PARTS}.spent_nanousd + excluded.spent_nanousd,
            requests = {COUNTER_PARTS}.requests + excluded.requests
    ) SELECT count(*) FROM taken
"""  # noqa: S608
