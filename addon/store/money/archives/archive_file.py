"""The file of a month: a ledger of its own, made beside the others and checked before it gets its name.

Source: docs/ledger.md, "Archives".
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final

from addon.runtime.atomic_files import sync_path
from addon.store.money.archives.archives import Content, digest_sums, find_month_of_file, read_content
from addon.store.money.engine import ENTRIES
from addon.store.money.rows import USAGE
from addon.store.money.sqlite.copies import copy_database, open_read_only
from addon.store.money.sqlite.migrations import migrate
from addon.store.money.sqlite.recount import write_counters
from addon.store.money.sums.rollup_schema import AFTER_ALL
from addon.store.money.verify.verify import verify


class ArchiveRefused(Exception):  # noqa: N818  (the state of a file, no fault of the program)
    """A month can't be archived now. The message is one line for operators."""


_MONEY: Final = ("wholesale_nanousd", "retail_nanousd", "reported_nanousd")
_TOTALS: Final = ", ".join(["count(*)", *(f"coalesce(sum({name}), 0)" for name in _MONEY)])
_WITHIN: Final = "created_at >= ? AND created_at < ?"


def build_file(ledger: Path, base: Path | None, partial: Path, month: str) -> Content:
    """Write a month into the empty file ``partial``: what ``base`` has of it, and what the ledger has besides.

    Check the file, and sync it. Raises ``ArchiveRefused``, OSError and ``sqlite3.Error``.
    """
    if base is not None:
        copy_database(base, partial)
    with closing(sqlite3.connect(partial, isolation_level=None, uri=True)) as file:
        # A file that is not whole is made again from its beginning.
        file.execute("PRAGMA journal_mode = MEMORY")
        file.execute("PRAGMA synchronous = OFF")
        migrate(file)
        file.execute("ATTACH ? AS source", (f"{ledger.absolute().as_uri()}?mode=ro",))
        file.execute("BEGIN")
        _name(file, month)
        _copy_rows(file, month)
        _check_sums(file, month)
        file.execute("COMMIT")
        file.execute("DETACH source")
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


def _name(file: sqlite3.Connection, month: str) -> None:
    """Make the new file the archive of a month of the ledger. Its sums cover all its rows."""
    (ledger_id,) = file.execute("SELECT id FROM source.ledger").fetchone()
    file.execute("UPDATE ledger SET id = ?, redis_state = NULL, archived_month = ?", (ledger_id, month))
    file.execute(
        "UPDATE rollup_progress SET hours_from = '', days_from = '', client_ids_from = '', days_until = ?",
        (month + AFTER_ALL,),
    )


def _copy_rows(file: sqlite3.Connection, month: str) -> None:
    """Copy what the file does not have yet, and check numbers and sums."""
    within = (month, month + AFTER_ALL)
    for table, columns, totals in (
        ("usage", USAGE.columns, _TOTALS),
        ("wallet_entries", ENTRIES.columns, "count(*), coalesce(sum(amount_nanousd), 0)"),
    ):
        missing = f"{_WITHIN} AND id NOT IN (SELECT id FROM main.{table})"  # noqa: S608
        before = _read(file, f"SELECT {totals} FROM main.{table}")  # noqa: S608
        added = _read(file, f"SELECT {totals} FROM source.{table} WHERE {missing}", within)  # noqa: S608
        names = ", ".join(columns)
        copied = f"SELECT {names} FROM source.{table} WHERE {missing} ORDER BY created_at"  # noqa: S608
        for day in _days(month):
            file.execute(f"INSERT INTO main.{table} ({names}) {copied}", day)
        after = _read(file, f"SELECT {totals} FROM main.{table}")  # noqa: S608
        if after != [one + other for one, other in zip(before, added, strict=True)]:
            raise ArchiveRefused(
                f"the copy of {table} of {month} differs from the ledger; nothing was removed"
            )
    file.execute(
        "INSERT OR IGNORE INTO main.prices SELECT * FROM source.prices WHERE hash IN (SELECT price_set FROM main.usage)"
    )
    file.execute("DELETE FROM main.refusals")
    file.execute(
        "INSERT INTO main.refusals SELECT * FROM source.refusals WHERE hour >= ? AND hour < ?", within
    )


def _check_sums(file: sqlite3.Connection, month: str) -> None:
    """Refuse a month whose sums in the ledger are not those of its calls: they would stay as they are."""
    kept = digest_sums(file, month, schema="source.")
    for table, digest in digest_sums(file, month).items():
        if kept[table] != digest:
            raise ArchiveRefused(
                f"{table}: the sums of {month} differ from the calls; see tollgate ledger verify and recount"
            )


def _days(month: str) -> Iterator[tuple[str, str]]:
    """Yield the bounds of each day, so that a signal takes effect between two of them."""
    for day in range(1, 32):
        yield f"{month}-{day:02d}", f"{month}-{day:02d}{AFTER_ALL}"


def _read(file: sqlite3.Connection, sql: str, values: Sequence[str] = ()) -> list[Any]:
    return list(file.execute(sql, values).fetchone())


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
