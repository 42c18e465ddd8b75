"""Calls by their id, or by the id that their client gave them, in any ledger within milliseconds."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from addon.store.money.attempt_schema import ATTEMPTS
from addon.store.money.ledger import Ledger, find_columns
from addon.store.money.reports.call_pages import CallPage, CallPosition, fill_page, position_of
from addon.store.money.reports.report import has_table
from addon.store.money.sums.rollup_schema import AFTER_ALL
from addon.store.money.sums.rollups import find_newest_end, read_progress
from addon.text.table import Table


def find_call(ledger: Ledger, call_id: str) -> tuple[Table, CallPosition] | None:
    """Return the row of a call with every column of the ledger, and its position. None when there is no such call."""
    columns = find_columns(ledger, "usage")
    sql = f"SELECT {', '.join(columns)}, created_at, id FROM usage WHERE id = ?"  # noqa: S608
    row = ledger.execute(sql, (call_id,)).fetchone()
    return row and (Table(columns, [row[:-2]]), position_of(row))


def find_attempts(ledger: Ledger, call_id: str) -> Table:
    """Return the attempts of a call in their order, none for a call with one attempt or of an earlier version."""
    columns = ATTEMPTS.columns[2:]
    if not has_table(ledger, ATTEMPTS.name):
        return Table(columns, [])
    sql = f"SELECT {', '.join(columns)} FROM attempts WHERE call_id = ? ORDER BY number"  # noqa: S608
    return Table(columns, ledger.execute(sql, (call_id,)).fetchall())


def find_client_calls(
    ledger: Ledger,
    client_request_id: str,
    limit: int,
    *,
    before: CallPosition | None = None,
    after: CallPosition | None = None,
) -> CallPage:
    """Return a page of the calls that have this id of their client, as ``find_page`` does.

    It ``is_whole`` unless calls from before ``find_unlisted_end`` may be missing.
    """
    return fill_page(_ClientCalls(ledger, client_request_id, before, after), limit, before, after)


def find_unlisted_end(ledger: Ledger) -> str | None:
    """Return the moment before which calls can't be found by the id of their client yet. None when all can be."""
    return read_progress(ledger).client_ids_from or None


class _ClientCalls:
    """The calls with one id of a client, from a position on, in one direction."""

    def __init__(
        self,
        ledger: Ledger,
        client_request_id: str,
        before: CallPosition | None,
        after: CallPosition | None,
    ) -> None:
        self._ledger = ledger
        self._client_request_id = client_request_id
        self._start = before or after or CallPosition(AFTER_ALL, "")
        self._sign, self._order = (">", "ASC") if after else ("<", "DESC")
        self.columns: Sequence[str] = find_columns(ledger, "usage")
        self.stopped_at: CallPosition | None = None
        self.is_whole = find_unlisted_end(ledger) is None

    def find(self, limit: int) -> list[Any]:
        """Return at most ``limit`` rows, each with its position as its last two values."""
        # The order of the tables is fixed: the one of clients' ids comes first, in the order of time.
        sql = f"""
            SELECT {", ".join(f"usage.{name}" for name in self.columns)}, usage.created_at, usage.id
            FROM client_requests AS named CROSS JOIN usage
            WHERE usage.id = named.id AND usage.created_at = named.created_at
                AND named.client_request_id = ? AND named.created_at {self._sign}= ?
                AND (named.created_at <> ? OR usage.id {self._sign} ?)
            ORDER BY named.created_at {self._order}, usage.id {self._order} LIMIT ?
        """  # noqa: S608
        moment = self._start.created_at
        values = (self._client_request_id, moment, moment, self._start.id, limit)
        return self._ledger.execute(sql, values).fetchall()


_DIFFERENT = """
    SELECT client_request_id, created_at, id FROM usage
    WHERE client_request_id IS NOT NULL AND created_at >= (SELECT client_ids_from FROM rollup_progress)
        AND NOT EXISTS (
            SELECT 1 FROM client_requests AS named
            WHERE (named.client_request_id, named.created_at, named.id)
                = (usage.client_request_id, usage.created_at, usage.id)
        )
    UNION ALL
    SELECT client_request_id, created_at, id FROM client_requests AS named
    WHERE NOT EXISTS (
        SELECT 1 FROM usage WHERE usage.id = named.id
            AND (usage.client_request_id, usage.created_at) = (named.client_request_id, named.created_at)
    )
"""


def count_wrong_ids(ledger: Ledger) -> int:
    """Return how many calls are missing in the table of clients' ids, or are wrong there."""
    if not has_table(ledger, "client_requests"):
        return 0
    found: tuple[int] = ledger.execute(f"SELECT count(*) FROM ({_DIFFERENT}) AS different").fetchone()  # noqa: S608
    return found[0]


def forget_client_ids(connection: sqlite3.Connection) -> None:
    """Empty the table of clients' ids, in one transaction. A gateway then fills it in short steps."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM client_requests")
        connection.execute("UPDATE rollup_progress SET client_ids_from = ?", (find_newest_end(connection),))
