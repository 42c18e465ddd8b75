"""A ledger in SQLite whose months are archived."""

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from addon.runtime.folder_lock import hold_lock
from addon.store.money.archives.archive_removal import remove_calls
from addon.store.money.archives.archived_ledger import ArchiveBusy, ArchiveRefused, NamedCall, Step
from addon.store.money.archives.forgotten_budgets import SPEND, forget_budgets, forget_counters
from addon.store.money.archives.forgotten_rows import EMPTY_CALLS
from addon.store.money.ledger import Ledger
from addon.store.money.sqlite.file import LedgerFile
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.money.sums.rollups import build_step, is_behind, read_progress
from addon.store.money.sums.step_pace import StepPace

_TIMEOUT_S: Final = 2.0
_LATER: Final = "SELECT 1 FROM usage WHERE created_at >= max(?, ?) AND created_at < ? || '~'"


class SqliteArchivedLedger:
    """The ``ArchivedLedger`` in the file ``path``. Its methods raise ``sqlite3.Error``, too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.place = SqlitePlace(path)
        self.file_name = path.name

    @contextmanager
    def alone(self) -> Iterator[None]:
        """See ``ArchivedLedger.alone``."""
        if not self._path.exists():
            raise ArchiveRefused(f"there is no ledger yet in {self._path}")
        with closing(LedgerFile(self._path)):
            pass  # It has brought the tables up to date.
        owners = self._path.with_name(f"{self._path.name}-owners")
        owners.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as held:
            try:
                held.enter_context(hold_lock(owners / ".archive"))
            except BlockingIOError:
                raise ArchiveBusy(f"another process archives {self._path} right now") from None
            yield

    def build_sums(self, now: datetime) -> Iterator[Step]:
        """See ``ArchivedLedger.build_sums``."""
        pace = StepPace()
        with self._connect() as connection:
            while is_behind(connection, now):
                with pace.step(connection):
                    build_step(connection, now, pace.rows)
                yield Step()
                time.sleep(pace.rest_s)

    def wait_for_writers(self, ledger: Ledger, month: str) -> None:
        """See ``ArchivedLedger.wait_for_writers``. A transaction is the only one that writes."""
        progress = read_progress(ledger)
        is_later = ledger.execute(_LATER, (progress.days_until, month, month)).fetchone()
        if progress.built_from or is_later:
            raise ArchiveRefused(f"the sums of {month} are not built yet; try again in a while")

    def remove_calls(self, file: Path, month: str) -> Iterator[Step]:
        """See ``ArchivedLedger.remove_calls``."""
        with self._connect() as connection:
            yield from remove_calls(connection, file, month)

    def empty_calls(self, calls: Sequence[NamedCall], workspace: str, user: str) -> None:
        """See ``ArchivedLedger.empty_calls``."""
        with self._connect() as connection:
            # What was deleted must not stay in the free room of the file.
            connection.execute("PRAGMA secure_delete = ON")
            pace, place = StepPace(), 0
            while ids := [one.id for one in calls[place : place + pace.rows]]:
                place += len(ids)
                with pace.step(connection), connection:
                    connection.execute("BEGIN IMMEDIATE")
                    forget_budgets(connection, SPEND, ids, user)
                    connection.execute(EMPTY_CALLS, (json.dumps(ids),))
                time.sleep(pace.rest_s)
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                forget_counters(connection, SPEND, workspace, user)
            # The write-ahead log has the rows of before until it is written into the file, and begun again.
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def find_copies(self) -> Sequence[Path]:
        """See ``ArchivedLedger.find_copies``."""
        prefixes = (f"{self._path.name}.before-", f"{self._path.name}.replaced-")
        return [one for one in self._path.parent.iterdir() if one.name.startswith(prefixes)]

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        uri = self._path.absolute().as_uri()
        with closing(sqlite3.connect(uri, timeout=_TIMEOUT_S, isolation_level=None, uri=True)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
