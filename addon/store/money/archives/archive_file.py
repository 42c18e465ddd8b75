"""The file of a month: a ledger of its own, made beside the others and checked before it gets its name.

Source: docs/ledger.md, "Archives".
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import Final

from addon.runtime.atomic_files import sync_path
from addon.store.money.archives.archive_rows import (
    count_differing,
    read_attempts,
    read_calls,
    read_entries,
)
from addon.store.money.archives.archived_ledger import ArchiveRefused
from addon.store.money.archives.archives import Content, digest_sums, find_month_of_file, read_content
from addon.store.money.attempt_schema import ATTEMPTS
from addon.store.money.engine import ENTRIES, PRICES, REFUSALS
from addon.store.money.ledger import Ledger
from addon.store.money.rows import USAGE
from addon.store.money.sqlite.copies import copy_database, open_read_only
from addon.store.money.sqlite.migrations import migrate
from addon.store.money.sqlite.recount import write_counters
from addon.store.money.sums.rollup_schema import AFTER_ALL
from addon.store.money.verify.verify import verify


def build_file(source: Ledger, base: Path | None, partial: Path, month: str) -> Content:
    """Write a month into the empty file ``partial``: what ``base`` has of it, and what the ledger has besides.

    ``source`` is the ledger at one moment. Check the file, and sync it. Raises ``ArchiveRefused``, OSError,
    ``sqlite3.Error`` and what the ledger raises.
    """
    if base is not None:
        copy_database(base, partial)
    with closing(sqlite3.connect(partial, isolation_level=None)) as file:
        # A file that is not whole is made again from its beginning.
        file.execute("PRAGMA journal_mode = MEMORY")
        file.execute("PRAGMA synchronous = OFF")
        migrate(file)
        file.execute("BEGIN")
        _name(file, source, month)
        _copy_rows(file, source, month)
        _check_sums(file, source, month)
        file.execute("COMMIT")
        file.execute("DELETE FROM spend")
        write_counters(file)
        if found := verify(file):
            more = f", and {len(found) - 1} more" if len(found) > 1 else ""
            raise ArchiveRefused(
                f"the calls of {month} do not agree: {found[0]}{more}; see tollgate ledger verify"
            )
        content = read_content(file, month)
        file.execute("PRAGMA journal_mode = DELETE")
    sync_path(partial)
    return content


def _name(file: sqlite3.Connection, source: Ledger, month: str) -> None:
    """Make the new file the archive of a month of the ledger. Its sums cover all its rows."""
    (ledger_id,) = source.execute("SELECT id FROM ledger").fetchone()
    file.execute("UPDATE ledger SET id = ?, redis_state = NULL, archived_month = ?", (ledger_id, month))
    file.execute(
        "UPDATE rollup_progress SET hours_from = '', days_from = '', client_ids_from = '', days_until = ?",
        (month + AFTER_ALL,),
    )


def _copy_rows(file: sqlite3.Connection, source: Ledger, month: str) -> None:
    """Copy what the file does not have yet. It then has each row word for word."""
    for table, batches in (
        (USAGE, read_calls(source, month)),
        (ENTRIES, read_entries(source, month)),
        (ATTEMPTS, read_attempts(source, month)),
    ):
        for rows in batches:
            file.executemany(_insertion(table.name, table.columns), rows)
            if count_differing(file, table, rows):
                raise ArchiveRefused(
                    f"the copy of {table.name} of {month} differs from the ledger; nothing was removed"
                )
    sets = [
        name for (name,) in file.execute("SELECT DISTINCT price_set FROM usage WHERE price_set IS NOT NULL")
    ]
    found = source.execute(_PRICES, (json.dumps(sets),))
    file.executemany(_insertion("prices", PRICES.columns), found)
    file.execute("DELETE FROM refusals")
    found = source.execute(_REFUSALS, (month, month + AFTER_ALL))
    file.executemany(_insertion("refusals", REFUSALS.columns), found)


def _insertion(table: str, columns: Sequence[str]) -> str:
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608


_PRICES: Final = f"""
    SELECT {", ".join(PRICES.columns)} FROM prices WHERE hash IN (SELECT value FROM json_each(?)) ORDER BY hash
"""  # noqa: S608
_REFUSALS: Final = f"""
    SELECT {", ".join(REFUSALS.columns)} FROM refusals WHERE hour >= ? AND hour < ? ORDER BY 1, 2, 3, 4
"""  # noqa: S608


def _check_sums(file: sqlite3.Connection, source: Ledger, month: str) -> None:
    """Refuse a month whose sums in the ledger are not those of its calls: they would stay as they are."""
    kept = digest_sums(source, month)
    for table, digest in digest_sums(file, month).items():
        if kept[table] != digest:
            raise ArchiveRefused(
                f"{table}: the sums of {month} differ from the calls; see tollgate ledger verify and recount"
            )


def hash_file(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal. Raises OSError."""
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


@contextmanager
def open_archive(file: Path, ledger_id: str, month: str) -> Iterator[sqlite3.Connection]:
    """Open the file of a month. Raises ``ArchiveRefused`` for any other file."""
    with closing(open_read_only(file)) as connection:
        try:
            is_it = find_month_of_file(connection) == month
            is_it = is_it and connection.execute("SELECT id FROM ledger").fetchone() == (ledger_id,)
        except sqlite3.DatabaseError:
            is_it = False
        if not is_it:
            raise ArchiveRefused(f"{file} exists, and is not {month} of this ledger; move it away")
        yield connection
