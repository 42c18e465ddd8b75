"""Users who are forgotten: what names them is emptied in their calls, here and in archives. All sums stay.

Source: docs/retention.md, docs/decisions/a-forgotten-user-is-named-nowhere.md.
"""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import batched
from pathlib import Path
from typing import Final

from addon.runtime.atomic_files import sync_path
from addon.store.money.archives.archive_check import is_archive_of
from addon.store.money.archives.archive_file import hash_file
from addon.store.money.archives.archived_ledger import ArchiveRefused, NamedCall
from addon.store.money.archives.archives import (
    Archive,
    find_archive,
    find_archives,
    find_month_of_file,
    read_content,
)
from addon.store.money.archives.forgotten_budgets import SPEND, forget_budgets, forget_counters
from addon.store.money.archives.forgotten_rows import EMPTY_CALLS
from addon.store.money.ledger import Ledger, LedgerPlace
from addon.store.money.sqlite.copies import copy_database, open_read_only, partial_name, private_file
from addon.store.money.sqlite.migrations import migrate
from addon.store.money.sums.rollup_schema import AFTER_ALL

_FIND: Final = "SELECT id, substr(created_at, 1, 7) FROM usage WHERE workspace = ? AND end_user = ?"


def find_calls(ledger: Ledger, workspace: str, user: str) -> list[NamedCall]:
    """Return the calls of a user."""
    return [NamedCall(*row) for row in ledger.execute(_FIND, (workspace, user))]


def require_finished(ledger: Ledger) -> None:
    """Raise ``ArchiveRefused`` while calls are here and in a file: both would have to change at once."""
    for one in find_archives(ledger):
        left = "SELECT 1 FROM usage WHERE created_at >= ? AND created_at < ? AND id NOT IN (SELECT id FROM late_calls)"
        within = (one.month, one.month + AFTER_ALL)
        is_left = one.file_sha256 is not None and ledger.execute(left, within).fetchone()
        if is_left or (one.next_sha256 is not None and one.file_sha256 is None):
            raise ArchiveRefused(
                f"the archive of {one.month} is not finished: run tollgate ledger archive again first"
            )


class ForgettingArchive:
    """An archive in which a user is forgotten, and its record in the ledger at ``place``.

    Raises ``ArchiveRefused``, ``StoreUnavailable``, OSError and ``sqlite3.Error``.
    """

    def __init__(self, place: LedgerPlace, file: Path) -> None:
        if not file.exists():
            raise ArchiveRefused(f"{file}: no such file")
        self._place = place
        self.file = file
        with closing(open_read_only(file)) as archive, place.read() as ledger:
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

    def find_calls(self, workspace: str, user: str) -> list[NamedCall]:
        """Return the calls of a user."""
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
                for calls in batched(find_calls(copy, workspace, user), 1000):
                    ids = [one.id for one in calls]
                    forget_budgets(copy, SPEND, ids, user)
                    copy.execute(EMPTY_CALLS, (json.dumps(ids),))
                forget_counters(copy, SPEND, workspace, user)
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
        sql = "UPDATE archives SET next_sha256 = ?, file_sha256 = coalesce(?, file_sha256) WHERE month = ?"
        with self._place.write() as ledger:
            ledger.execute(sql, (next_sha256, file_sha256, self.month))

    def _record(self) -> Archive | None:
        with self._place.read() as ledger:
            return find_archive(ledger, self.month)


def find_unread(ledger: Ledger, files: Sequence[Path], copies: Sequence[Path]) -> list[str]:
    """Return the files that may still name a user: archives that are not among ``files``, and copies of the ledger."""
    given = {file.resolve() for file in files}
    archives = [Path(one.file) for one in find_archives(ledger)]
    unread = [
        *(one for one in archives if one.resolve() not in given),
        *(name for one in archives if (name := partial_name(one)).exists()),
        *copies,
    ]
    return sorted(map(str, unread))
