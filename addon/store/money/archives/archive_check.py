"""The comparison of an archive with the record that the ledger has of it."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from addon.store.money.archives.archive_file import hash_file
from addon.store.money.archives.archives import find_archive, find_month_of_file, read_content
from addon.store.money.ledger import Ledger


def is_archive_of(archive: sqlite3.Connection, ledger: Ledger) -> bool:
    """Return whether a file is an archive of the ledger. Raises ``sqlite3.Error``."""
    if find_month_of_file(archive) is None:
        return False
    ids = [one.execute("SELECT id FROM ledger").fetchone() for one in (archive, ledger)]
    return bool(ids[0] == ids[1])


def compare_with_record(archive: sqlite3.Connection, file: Path, ledger: Ledger) -> Iterator[str]:
    """Yield a line for each difference between an archive of the ledger and its record. Raises OSError too."""
    month = find_month_of_file(archive)
    assert month  # noqa: S101  (it is an archive)
    record = find_archive(ledger, month)
    if record is None or record.file_sha256 is None:
        yield f"archive of {month}: the ledger has no record of it"
        return
    digest = hash_file(file)
    if digest not in (record.file_sha256, record.next_sha256):
        yield f"archive of {month}: its SHA-256 is {digest}; {record.file_sha256} is recorded"
    content = read_content(archive, month)
    if content[:6] != record.totals:
        yield f"archive of {month}: it has other calls or costs than are recorded"
    for table, found in content.sums.items():
        if record.sums.get(table) != found:
            yield f"archive of {month}: {table}: the sums are others than those that are recorded"
    workspaces = (
        "SELECT workspace, calls, charges, amount_nanousd FROM archived_workspaces WHERE month = ? ORDER BY 1"
    )
    if ledger.execute(workspaces, (month,)).fetchall() != content.workspaces:
        yield f"archive of {month}: wallets of workspaces paid other costs than are recorded"
