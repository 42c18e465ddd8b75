"""A ledger in a SQLite file, as commands, pages and background work use it."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Final

from addon.store.money.ledger import SlowError
from addon.store.money.reports.report import open_report
from addon.store.money.sqlite.connection import NEVER_WRITABLE, make_unavailable, raising_unavailable
from addon.store.money.sqlite.lead import FileLead
from addon.store.money.sqlite.process_lock import find_running

WRITE_TIMEOUT_S: Final = 5.0

_STEPS: Final = 10_000
"""How many steps SQLite takes between two looks at the time: about a millisecond."""


class SqlitePlace:
    """The ledger in the file ``path``: a ``LedgerPlace``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        self.never_writable = NEVER_WRITABLE
        self.newest_row = "SELECT coalesce(max(rowid), 0) FROM usage"

    def lead(self, work: str) -> FileLead:
        """See ``LedgerPlace.lead``. A gateway has made the folder of the locks."""
        return FileLead(self.path.with_name(f"{self.path.name}-owners") / f".{work}")

    def kept_open(self) -> "SqlitePlace":
        """See ``LedgerPlace.kept_open``. A file is opened quickly."""
        return self

    def bounded(self, total_s: float) -> "SqlitePlace":  # noqa: ARG002
        """See ``LedgerPlace.bounded``. A file is never silent, and the wait for its lock is bounded."""
        return self

    def close(self) -> None:
        """See ``LedgerPlace.close``."""

    def exists(self) -> bool:
        return self.path.exists()

    def count_processes(self) -> int:
        with raising_unavailable(self.path):
            return len(find_running(self.path.with_name(f"{self.path.name}-owners")))

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        try:
            with open_report(self.path) as connection:
                yield connection
        except (OSError, sqlite3.Error) as error:
            raise make_unavailable(self.path, error) from error

    @contextmanager
    def read_in_time(self, timeout_s: float, is_left: Event) -> Iterator[sqlite3.Connection]:
        end_s = monotonic() + timeout_s
        with self.read() as connection:
            connection.set_progress_handler(lambda: is_left.is_set() or monotonic() > end_s, _STEPS)
            try:
                yield connection
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                    raise SlowError from None
                raise

    @contextmanager
    def write(self, timeout_s: float | None = None) -> Iterator[sqlite3.Connection]:
        """See ``LedgerPlace.write``. The file is not made: a gateway does that."""
        with raising_unavailable(self.path):
            os.stat(self.path)
            connection = sqlite3.connect(
                self.path, timeout=WRITE_TIMEOUT_S if timeout_s is None else timeout_s, isolation_level=None
            )
            with closing(connection), connection:
                # What is written survives a loss of power.
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN IMMEDIATE")
                yield connection
