"""The records of archived months: which calls a file has, and the sums that stay here without them.

Source: docs/ledger.md, docs/decisions/archived-sums-stay-verifiable.md.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from addon.store.money.ledger import Ledger
from addon.store.money.sums.rollup_groups import LATE, Groups, read_groups, subtract, sum_groups
from addon.store.money.sums.rollup_schema import AFTER_ALL, TABLES, RollupTable

type Workspaces = Sequence[tuple[str, int, int, int]]
"""Of each workspace its calls, and the number and the sum of the costs that its wallet paid."""


class Content(NamedTuple):
    """What a file of a month has. ``sums`` are the digests of the sums in each of its ``TABLES``."""

    calls: int
    wholesale_nanousd: int
    retail_nanousd: int
    reported_nanousd: int
    charges: int
    charged_nanousd: int
    sums: Mapping[str, str]
    workspaces: Workspaces


class Archive(NamedTuple):
    """The record of a month. All from ``file_sha256`` on is None, and ``sums`` is empty, until the file is there."""

    month: str
    file: str
    next_sha256: str | None
    file_sha256: str | None
    calls: int | None
    wholesale_nanousd: int | None
    retail_nanousd: int | None
    reported_nanousd: int | None
    charges: int | None
    charged_nanousd: int | None
    sums: Mapping[str, str]

    @property
    def totals(self) -> tuple[int | None, ...]:
        """The fields that a ``Content`` begins with."""
        return self[4:10]


_COLUMNS: Final = ", ".join((*Archive._fields[:-1], "sums_sha256"))


def has_archives(ledger: Ledger) -> bool:
    """Return False for a ledger that an earlier version has used last, before a gateway has opened it."""
    found = ledger.execute("SELECT 1 FROM sqlite_schema WHERE name = 'archives'").fetchone()
    return found is not None


def find_archives(ledger: Ledger) -> list[Archive]:
    """Return the records of all months, the earliest first."""
    if not has_archives(ledger):
        return []
    rows = ledger.execute(f"SELECT {_COLUMNS} FROM archives ORDER BY month")  # noqa: S608
    return [Archive._make((*row[:-1], json.loads(row[-1] or "{}"))) for row in rows]


def find_archive(ledger: Ledger, month: str) -> Archive | None:
    """Return the record of a month."""
    return next((one for one in find_archives(ledger) if one.month == month), None)


def find_recorded_months(connection: Ledger) -> list[str]:
    """Return the months whose calls are in files, the earliest first. Some of them may still be here, too."""
    return [one.month for one in find_archives(connection) if one.file_sha256 is not None]


def find_month_of_file(connection: sqlite3.Connection) -> str | None:
    """Return the month of a file that is an archive, None for a ledger. Raises ``sqlite3.Error``."""
    sql = "SELECT 1 FROM pragma_table_info('ledger') WHERE name = 'archived_month'"
    if connection.execute(sql).fetchone() is None:
        return None
    found: tuple[str | None] = connection.execute("SELECT archived_month FROM ledger").fetchone()
    return found[0]


def read_content(connection: Ledger, month: str) -> Content:
    """Return what a file of a month has, or what the calls of a month here would have in one."""
    within = (month, month + AFTER_ALL)
    sql = """
        SELECT count(*), coalesce(sum(wholesale_nanousd), 0), coalesce(sum(retail_nanousd), 0),
               coalesce(sum(reported_nanousd), 0)
        FROM usage WHERE created_at >= ? AND created_at < ?
    """
    totals = connection.execute(sql, within).fetchone()
    workspaces = list(map(tuple, connection.execute(_WORKSPACES, within)))
    charges, charged_nanousd = sum(row[2] for row in workspaces), sum(row[3] for row in workspaces)
    return Content._make((*totals, charges, charged_nanousd, digest_sums(connection, month), workspaces))


_WORKSPACES: Final = """
    SELECT call.workspace, count(*), count(paid.id), coalesce(sum(paid.amount_nanousd), 0)
    FROM usage AS call LEFT JOIN wallet_entries AS paid ON paid.id = call.id AND paid.reference = 'call'
    WHERE call.created_at >= ? AND call.created_at < ? GROUP BY 1 ORDER BY 1
"""


def digest_sums(connection: Ledger, month: str, *, without_late: bool = False) -> dict[str, str]:
    """Return the digest of a month's sums in each table, ``without_late`` without the calls that came later.

    The digest is the SHA-256 of a JSON array for each hour or day in order: the groups in order, each with its names,
    its sums and its buckets.
    """
    return {table.name: _digest(connection, table, month, without_late) for table in TABLES}


def _digest(connection: Ledger, table: RollupTable, month: str, without_late: bool) -> str:
    late = sum_groups(connection, table, month, month + AFTER_ALL, LATE) if without_late else {}
    place = list(table.groups).index(table.period)
    kept = connection.execute(
        f"SELECT DISTINCT {table.period} FROM {table.name}"  # noqa: S608
        f" WHERE {table.period} >= ? AND {table.period} < ?",
        (month, month + AFTER_ALL),
    )
    found = sha256()
    for period in sorted({*(period for (period,) in kept), *(key[place] for key in late)}):
        removed = {key: group for key, group in late.items() if key[place] == period}
        groups = read_groups(connection, table, period)
        found.update(_encode(subtract(groups, removed) if removed else groups))
    return found.hexdigest()


def _encode(groups: Groups) -> bytes:
    """Return the groups of a period as JSON, empty for none."""
    listed = [[key, *groups[key]] for key in sorted(groups)]
    return json.dumps(listed, sort_keys=True, separators=(",", ":")).encode() if listed else b""
