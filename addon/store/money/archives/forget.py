"""Users who are forgotten: what names them is emptied in their calls, here and in archives. All sums stay.

Source: docs/retention.md, docs/decisions/a-forgotten-user-is-named-nowhere.md.
"""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import batched
from pathlib import Path
from typing import Final

from addon.runtime.atomic_files import sync_path
from addon.store.money.archives.archive_check import is_archive_of
from addon.store.money.archives.archive_file import ArchiveRefused, hash_file
from addon.store.money.archives.archives import (
    Archive,
    find_archive,
    find_archives,
    find_month_of_file,
    read_content,
)
from addon.store.money.sqlite.copies import copy_database, open_read_only, partial_name, private_file
from addon.store.money.sqlite.migrations import migrate
from addon.store.money.sums.rollup_schema import AFTER_ALL
from addon.store.money.sums.step_pace import StepPace

EMPTIED: Final = ("end_user", "client_request_id", "tags")
"""The columns that may name a person. The table of clients' ids follows by its triggers."""

_FIND: Final = "SELECT id FROM usage WHERE workspace = ? AND end_user = ?"
_EMPTY: Final = (
    f"UPDATE usage SET {', '.join(f'{name} = NULL' for name in EMPTIED)}"  # noqa: S608
    " WHERE id IN (SELECT value FROM json_each(?))"
)


def find_calls(connection: sqlite3.Connection, workspace: str, user: str) -> list[str]:
    """Return the ids of the calls of a user. Raises ``sqlite3.Error``."""
    return [call_id for (call_id,) in connection.execute(_FIND, (workspace, user))]


def require_finished(connection: sqlite3.Connection) -> None:
    """Raise ``ArchiveRefused`` while calls are here and in a file: both would have to change at once."""
    for one in find_archives(connection):
        left = "SELECT 1 FROM usage WHERE created_at >= ? AND created_at < ? AND id NOT IN (SELECT id FROM late_calls)"
        within = (one.month, one.month + AFTER_ALL)
        is_left = one.file_sha256 is not None and connection.execute(left, within).fetchone()
        if is_left or (one.next_sha256 is not None and one.file_sha256 is None):
            raise ArchiveRefused(
                f"the archive of {one.month} is not finished: run tollgate ledger archive again first"
            )


def empty_calls(connection: sqlite3.Connection, workspace: str, user: str) -> None:
    """Empty what names a user in the calls of a ledger, in short steps beside calls. Raises ``sqlite3.Error``."""
    # What was deleted must not stay in the free room of the file.
    connection.execute("PRAGMA secure_delete = ON")
    pace = StepPace()
    for rows in _pages(find_calls(connection, workspace, user), pace):
        with pace.step(connection), connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_EMPTY, (json.dumps(rows),))
        time.sleep(pace.rest_s)
    # The write-ahead log has the rows of before until it is written into the file, and begun again.
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _pages(ids: list[str], pace: StepPace) -> Iterator[list[str]]:
    place = 0
    while place < len(ids):
        rows = ids[place : place + pace.rows]
        place += len(rows)
        yield rows


class ForgettingArchive:
    """An archive in which a user is forgotten. Raises ``ArchiveRefused``, OSError and ``sqlite3.Error``."""

    def __init__(self, ledger: sqlite3.Connection, file: Path) -> None:
        if not file.exists():
            raise ArchiveRefused(f"{file}: no such file")
        self._ledger = ledger
        self.file = file
        with closing(open_read_only(file)) as archive:
            if not is_archive_of(archive, ledger):
                raise ArchiveRefused(f"{file} is no archive of this ledger")
            self.month = find_month_of_file(archive) or ""
        self._require_recorded()

    def _require_recorded(self) -> None:
        """Refuse a file that is not the recorded one. End the change of a process that died after it."""
        record, digest = self._record(), hash_file(self.file)
        if record is not None and digest == record.next_sha256 and record.file_sha256 is not None:
            with closing(open_read_only(self.file)) as archive:
                if read_content(archive, self.month)[:6] == record.totals:
                    self._note(file_sha256=digest)
                    return
        if record is None or digest != record.file_sha256:
            raise ArchiveRefused(
                f"{self.file} is not as it was recorded: see tollgate ledger verify --ledger FILE"
            )

    def find_calls(self, workspace: str, user: str) -> list[str]:
        """Return the ids of the calls of a user."""
        with closing(open_read_only(self.file)) as archive:
            return find_calls(archive, workspace, user)

    def empty(self, workspace: str, user: str) -> None:
        """Put a file in its place that has the same calls and sums, without what names the user."""
        with private_file(self.file) as partial:
            copy_database(self.file, partial)
            with closing(sqlite3.connect(partial, isolation_level=None)) as copy:
                copy.execute("PRAGMA journal_mode = MEMORY")
                migrate(copy)
                before = read_content(copy, self.month)
                for ids in batched(find_calls(copy, workspace, user), 1000):
                    copy.execute(_EMPTY, (json.dumps(ids),))
                # Nothing of what was there stays in the free room of the file.
                copy.execute("VACUUM")
                if read_content(copy, self.month) != before:
                    raise ArchiveRefused(f"{self.file}: its sums would change; nothing was changed")
                copy.execute("PRAGMA journal_mode = DELETE")
            sync_path(partial)
            digest = hash_file(partial)
            self._note(next_sha256=digest)
            partial.replace(self.file)
            sync_path(self.file.parent)
        self._note(file_sha256=digest)

    def _note(self, *, next_sha256: str | None = None, file_sha256: str | None = None) -> None:
        """Note the digest of the file that comes next, or that is there now, on the disk."""
        self._ledger.execute("PRAGMA synchronous = FULL")
        sql = "UPDATE archives SET next_sha256 = ?, file_sha256 = coalesce(?, file_sha256) WHERE month = ?"
        self._ledger.execute(sql, (next_sha256, file_sha256, self.month))

    def _record(self) -> Archive | None:
        return find_archive(self._ledger, self.month)


def find_copies(connection: sqlite3.Connection, ledger: Path, files: list[Path]) -> list[str]:
    """Return the files that may still name a user: archives that are not among ``files``, and copies of the ledger."""
    given = {file.resolve() for file in files}
    archives = [Path(one.file) for one in find_archives(connection)]
    unread = [
        *(one for one in archives if one.resolve() not in given),
        *(name for one in archives if (name := partial_name(one)).exists()),
        *(
            one
            for one in ledger.parent.iterdir()
            if one.name.startswith((f"{ledger.name}.before-", f"{ledger.name}.replaced-"))
        ),
    ]
    return sorted(map(str, unread))
