"""The archiving of whole months, in steps after each of which the process may die.

| step | the ledger afterwards | the next run |
|---|---|---|
| the month is opened | notes calls that come into the month from now on as late | goes on |
| the file is written, checked and synced, under another name | as before | writes it again |
| the digest of that file is noted | as before | writes it again |
| the file gets its name | as before | knows the file by the digest |
| the file is recorded | counts the month from the record, though the calls are still here | removes them |
| the calls are removed, some at a time | as before | removes the others |

A file that is completed with late calls goes the same way. It is never changed in its place: a new one replaces it.
Source: docs/decisions/archived-sums-stay-verifiable.md.
"""

import json
import os
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from addon.edits.recording import ChangeRecord, Record
from addon.runtime.atomic_files import sync_path
from addon.store.money.archives.archive_file import build_file, hash_file, open_archive
from addon.store.money.archives.archived_ledger import ArchivedLedger, ArchiveRefused, Step
from addon.store.money.archives.archives import Archive, Content, find_archive, read_content
from addon.store.money.ledger import Ledger
from addon.store.money.sqlite.copies import open_read_only, partial_name, private_file
from addon.store.money.sums.rollup_schema import AFTER_ALL
from policies.money import format_nanousd
from policies.retention import add_months, archive_name, month_of
from policies.utc_time import format_utc

_HELD: Final = "SELECT 1 FROM holds WHERE created_at >= ? AND created_at < ?"
_LATE: Final = """
    SELECT 1 FROM usage WHERE created_at >= ? AND created_at < ? AND id IN (SELECT id FROM late_calls)
"""


class MonthArchiver:
    """The archiver of one ledger into a folder. ``record`` writes the lines of the audit log.

    Raises ``ArchiveRefused``, ``StoreUnavailable``, OSError and ``sqlite3.Error``.
    """

    def __init__(self, ledger: ArchivedLedger, folder: Path, record: Record, now: datetime) -> None:
        self._ledger = ledger
        self._place = ledger.place
        self._folder = folder
        self._record = record
        self._now = now

    def run(self, before: str) -> Iterator[Step]:
        """Archive each month before ``before`` that has calls here, the earliest first."""
        with self._place.read() as ledger:
            months = find_months(ledger, before)
        for month in months:
            yield from self.archive(month)

    def archive(self, month: str) -> Iterator[Step]:
        """Archive one month: make its file, or complete the one that is there, and remove the calls here."""
        archive = self._open_month(month)
        yield Step()
        file = self._find_file(archive)
        _remove_second_name(file)
        if file.exists():
            yield from self._adopt(archive, file)
            archive = self._read(month)
        elif archive.file_sha256 is not None:
            raise ArchiveRefused(
                f"{file} is not there, but calls of {month} are still here: bring the file back, or name its folder"
            )
        if archive.file_sha256 is None or self._has_late_calls(month):
            yield from self._write_file(archive, file)
        yield from self._ledger.remove_calls(file, month)
        archive = self._read(month)
        yield Step(
            f"{month}: {archive.calls} calls, {format_nanousd(archive.retail_nanousd or 0)} USD, in {file}"
        )

    def _open_month(self, month: str) -> Archive:
        """Note that calls of the month are late from now on. Its sums must be built, and no call in flight."""
        with self._place.write() as ledger:
            self._ledger.wait_for_writers(ledger, month)
            if ledger.execute(_HELD, (month, month + AFTER_ALL)).fetchone():
                raise ArchiveRefused(
                    f"a call of {month} has not ended; a gateway that serves on this ledger ends those of dead ones"
                )
            # No call of the month is later, so the sums cover all of it.
            ledger.execute(
                "UPDATE rollup_progress SET days_until = ? WHERE days_until < ?", (month + AFTER_ALL,) * 2
            )
            file = str(self._name_file(month).absolute())
            ledger.execute(
                "INSERT INTO archives (month, file) VALUES (?, ?) ON CONFLICT DO NOTHING", (month, file)
            )
        return self._read(month)

    def _name_file(self, month: str) -> Path:
        return self._folder / archive_name(self._ledger.file_name, month)

    def _find_file(self, archive: Archive) -> Path:
        """Return the file of a month in the folder. One that is elsewhere is completed where it is."""
        file = self._name_file(archive.month)
        if archive.file_sha256 is not None and not file.exists() and Path(archive.file).exists():
            return Path(archive.file)
        return file

    def _adopt(self, archive: Archive, file: Path) -> Iterator[Step]:
        """Record a file that this ledger has made. Refuse any other."""
        digest = hash_file(file)
        if digest == archive.file_sha256:
            return
        with self._place.read() as ledger:
            (ledger_id,) = ledger.execute("SELECT id FROM ledger").fetchone()
            with open_archive(file, ledger_id, archive.month) as opened:
                content = read_content(opened, archive.month)
            is_same = archive.file_sha256 is None and content == read_content(ledger, archive.month)
        if digest != archive.next_sha256:
            if not is_same:
                raise ArchiveRefused(
                    f"{file} exists, and has not the calls of {archive.month} that are here; move it away"
                )
            self._note_digest(archive, digest)
            yield Step()
        with self._record(_describe(archive.month, file, content, digest)):
            self._record_file(archive.month, file, content, digest)
        yield Step()

    def _write_file(self, archive: Archive, file: Path) -> Iterator[Step]:
        """Write the file anew, with all calls that are here, and record it."""
        base = file if archive.file_sha256 is not None else None
        with private_file(file) as partial:
            with self._place.read() as ledger:
                content = build_file(ledger, base, partial, archive.month)
            digest = hash_file(partial)
            yield Step()
            self._note_digest(archive, digest)
            yield Step()
            with self._record(_describe(archive.month, file, content, digest)):
                _put(partial, file, replaces=base is not None)
                yield Step()
                self._record_file(archive.month, file, content, digest)
        yield Step()

    def _note_digest(self, archive: Archive, digest: str) -> None:
        """Note the digest of the file that comes next, unless another process has recorded one meanwhile."""
        sql = "UPDATE archives SET next_sha256 = ? WHERE month = ? AND file_sha256 IS NOT DISTINCT FROM ?"
        with self._place.write() as ledger:
            _change_one(ledger, sql, (digest, archive.month, archive.file_sha256))

    def _record_file(self, month: str, file: Path, content: Content, digest: str) -> None:
        """Count the month from its file from now on, in one transaction."""
        values = (str(file.absolute()), digest, format_utc(self._now), *content[:6], json.dumps(content.sums))
        with self._place.write() as ledger:
            _change_one(ledger, _RECORD, (*values, month, digest))
            ledger.execute("DELETE FROM archived_workspaces WHERE month = ?", (month,))
            for workspace, *totals in content.workspaces:
                sql = "INSERT INTO archived_workspaces VALUES (?, ?, ?, ?, ?)"
                ledger.execute(sql, (workspace, month, *totals))
            late = [call_id for (call_id,) in ledger.execute("SELECT id FROM late_calls")]
            filed = json.dumps(_find_filed(file, late))
            ledger.execute("DELETE FROM late_calls WHERE id IN (SELECT value FROM json_each(?))", (filed,))

    def _has_late_calls(self, month: str) -> bool:
        with self._place.read() as ledger:
            return ledger.execute(_LATE, (month, month + AFTER_ALL)).fetchone() is not None

    def _read(self, month: str) -> Archive:
        with self._place.read() as ledger:
            found = find_archive(ledger, month)
        assert found  # noqa: S101  (a record is never removed)
        return found


def _change_one(ledger: Ledger, sql: str, values: tuple[object, ...]) -> None:
    """Change the record of a month. Refuse where it is not as this process has left it."""
    if ledger.execute(sql, values).rowcount != 1:
        raise ArchiveRefused("another process has archived this month meanwhile: run it again")


def _find_filed(file: Path, ids: list[str]) -> list[str]:
    """Return those of these calls that a file has."""
    sql = "SELECT id FROM usage WHERE id IN (SELECT value FROM json_each(?))"
    with closing(open_read_only(file)) as filed:
        return [call_id for (call_id,) in filed.execute(sql, (json.dumps(ids),))]


_RECORD: Final = """
    UPDATE archives SET next_sha256 = NULL, file = ?, file_sha256 = ?, archived_at = ?, calls = ?,
        wholesale_nanousd = ?, retail_nanousd = ?, reported_nanousd = ?, charges = ?, charged_nanousd = ?,
        sums_sha256 = ?
    WHERE month = ? AND next_sha256 = ?
"""


def find_months(ledger: Ledger, before: str) -> list[str]:
    """Return the months before ``before`` that have calls here, the earliest first. Each is one step in an index."""
    months, since = list[str](), ""
    while True:
        (moment,) = ledger.execute(
            "SELECT min(created_at) FROM usage WHERE created_at >= ? AND created_at < ?", (since, before)
        ).fetchone()
        if moment is None:
            return months
        months.append(month_of(moment))
        since = add_months(months[-1], 1)


def _put(partial: Path, file: Path, *, replaces: bool) -> None:
    """Give the new file its name, on the disk."""
    if replaces:
        partial.replace(file)
    else:
        try:
            os.link(partial, file)
        except FileExistsError:
            raise ArchiveRefused(f"{file} exists; move it away") from None
    sync_path(file.parent)


def _remove_second_name(file: Path) -> None:
    """Remove the name under which a file was written by a process that died right after it gave the file its own."""
    with suppress(FileNotFoundError):
        if (partial := partial_name(file)).samefile(file):
            partial.unlink()


def _describe(month: str, file: Path, content: Content, digest: str) -> ChangeRecord:
    """Return the record of a file. Its evidence is the digest that the ledger then has."""
    return ChangeRecord(
        f"Archive {month} in {file.absolute()}: {content.calls} calls, {format_nanousd(content.retail_nanousd)} USD"
        f" retail, {format_nanousd(content.wholesale_nanousd)} USD wholesale, SHA-256 {digest}",
        {"archived": month, "sha256": digest},
    )
