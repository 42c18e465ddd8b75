"""``SqliteStore``: the ledger in one SQLite file. A row whose ``settle`` returned survives the process's death.

It works in the thread of the event loop: a prepared INSERT costs less than a change of threads, and the rows of some
milliseconds share one commit, which costs more than all of them. A row that can't be written now is kept in memory and
written with a later settle, check or close. Source: docs/ledger.md.
"""

import asyncio
import logging
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from addon.folder_lock import locked
from addon.store import IllegalRowError, StoreUnavailable
from addon.store.migrations import LARGEST, migrate

log = logging.getLogger("tollgate.store")

KEPT_ROWS = 10_000
"""How many rows are kept in memory while the database can't be written, some 20 MB of them."""

GROUP_COMMIT_S = 0.01
"""How long the first row of a group waits for others to share its commit."""

_BATCH_ROWS = 500  # Kept rows a transaction, some 10 ms: the event loop must not stand still for all of them.
_PATIENT_MS = 2000  # While opening and closing, when no call waits.
# While serving: long enough for another process to commit, and every call in flight waits with it.
_BRIEF_MS = 20
_NO_WAIT_MS = 0  # While rows are kept: the first of them has waited in vain already.

_REPLACED = "the file was removed or replaced; restart to book into the new one"
_NEVER_WRITABLE = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.DataError)

type Row = Mapping[str, Any]


class SqliteStore:
    """A ``Store`` in the file ``path``, which is made with its folder where it is missing.

    Raises ``StoreUnavailable`` where it can't be opened, or is the database of a newer version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[str, Row] = {}
        self._group: list[tuple[Row, asyncio.Future[None]]] = []
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite does not wait for its lock when several processes turn one new file to WAL at once: it fails.
            with locked(path.parent):
                _create(path)
                self._connection = _open(path)
            self._file = _file_identity(path)
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(f"{path}: can't be opened: {_why(error)}") from error
        self._insert = _insert_statement(self._connection)
        self._wait(_BRIEF_MS)

    async def settle(self, row: Row) -> None:
        """Book ``row`` with the next group; see ``Store.settle``."""
        loop = asyncio.get_running_loop()
        written = loop.create_future()
        self._group.append((row, written))
        if len(self._group) == 1:
            loop.call_later(GROUP_COMMIT_S, self._commit_group)
        await written

    async def check(self) -> None:
        """Write what was kept, then prove that the database takes more; see ``Store.check``."""
        try:
            if not self._is_in_place():
                raise StoreUnavailable(f"{self._path}: {_REPLACED}")
            while self._kept:
                self._write_kept()
                await asyncio.sleep(0)
            # The cheapest real write: a lock alone would not notice a read-only file or a full disk.
            self._connection.execute("PRAGMA user_version = 0")
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(f"{self._path}: {_why(error)}") from error

    def close(self) -> None:
        """Write what waits or was kept, and close; see ``Store.close``."""
        with closing(self._connection):
            self._commit_group()
            try:
                if self._kept:
                    self._wait(_PATIENT_MS)
                if self._kept and not self._is_in_place():
                    raise sqlite3.OperationalError(_REPLACED)
                while self._kept:
                    self._write_kept()
            except sqlite3.Error as error:
                for row in self._kept.values():
                    _log_lost(row, _why(error))
                self._kept.clear()

    def _is_in_place(self) -> bool:
        """Whether the file is still the one that was opened: rows written into a deleted one are nowhere."""
        try:
            return _file_identity(self._path) == self._file
        except OSError:
            return False

    def _commit_group(self) -> None:
        """Write the group in one transaction, and tell each row's ``settle`` what became of it."""
        group, self._group = self._group, []
        if not group:
            return
        illegal: dict[str, Exception] = {}
        try:
            if not self._is_in_place():
                raise sqlite3.OperationalError(_REPLACED)
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                for row, _ in group:
                    try:
                        self._book(row)
                    except _NEVER_WRITABLE as error:
                        illegal[row["id"]] = IllegalRowError(f"usage row {row['id']}: {error}")
        except sqlite3.Error as error:
            for row, written in group:
                self._keep(row, error)
                _fail(written, StoreUnavailable(f"{self._path}: {_why(error)}"))
            return
        for row, written in group:
            if fault := illegal.get(row["id"]):
                _fail(written, fault)
            elif not written.done():
                written.set_result(None)
        if self._kept:
            self._write_some_kept()

    def _book(self, row: Row) -> None:
        try:
            self._connection.execute(self._insert, row)
        except (sqlite3.IntegrityError, OverflowError, UnicodeEncodeError):
            # Checked only here, because nearly every row is good: a client's text and a provider's counts have no
            # say in whether a call is booked.
            self._connection.execute(self._insert, storable(row))

    def _keep(self, row: Row, error: Exception) -> None:
        if row["id"] in self._kept:
            return
        if len(self._kept) >= KEPT_ROWS:
            _log_lost(row, f"{KEPT_ROWS} rows are kept already")
            return
        if not self._kept:
            self._wait(_NO_WAIT_MS)
            reason = _why(error)
            log.error(
                "the ledger can't be written, rows are kept in memory: %s",
                reason,
                extra={"event": "ledger unavailable", "reason": reason},
            )
        self._kept[row["id"]] = dict(row)

    def _write_some_kept(self) -> None:
        """Write kept rows after one that went through; what fails again stays kept."""
        try:
            self._write_kept()
        except sqlite3.Error as error:
            log.warning("rows are still kept in memory: %s", _why(error), extra={"event": "ledger behind"})

    def _write_kept(self) -> None:
        """Write a batch of kept rows in one transaction. Raises ``sqlite3.Error``, and then nothing is forgotten."""
        batch = list(islice(self._kept.items(), _BATCH_ROWS))
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            for _, row in batch:
                try:
                    self._book(row)
                except _NEVER_WRITABLE as error:
                    _log_lost(row, str(error))
        for row_id, _ in batch:
            del self._kept[row_id]
        if not self._kept:
            self._wait(_BRIEF_MS)
            log.info("no row is kept in memory any more", extra={"event": "ledger recovered"})

    def _wait(self, duration_ms: int) -> None:
        """Set how long a statement waits for another process's lock."""
        self._connection.execute(f"PRAGMA busy_timeout = {duration_ms}")


def _fail(written: asyncio.Future[None], error: Exception) -> None:
    if not written.done():
        written.set_exception(error)


def storable(row: Row) -> dict[str, Any]:
    """Return ``row`` with counts cut to ``LARGEST`` and what is no Unicode text (lone surrogates) replaced."""
    return {name: _storable_value(value) for name, value in row.items()}


def _storable_value(value: Any) -> Any:
    if isinstance(value, int):
        return min(value, LARGEST)
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _create(path: Path) -> None:
    """Make the file for its owner only: a ledger says who asked what of whom. One that stands keeps its mode.

    The files that SQLite puts beside it (-wal, -shm) get the same mode from it.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENT_MS / 1000, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _insert_statement(connection: sqlite3.Connection) -> str:
    """The columns are those that the table has, so that only the migrations list them."""
    columns = [column[1] for column in connection.execute("PRAGMA table_info(usage)")]
    values = ", ".join(f":{column}" for column in columns)
    return f"INSERT INTO usage ({', '.join(columns)}) VALUES ({values}) ON CONFLICT (id) DO NOTHING"  # noqa: S608


def _file_identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _why(error: Exception) -> str:
    return (error.strerror or "").lower() if isinstance(error, OSError) else str(error)


def _log_lost(row: Row, reason: str) -> None:
    """Leave enough in the log to book the call by hand."""
    named = ("id", "created_at", "workspace", "key_id", "model_slug", "mode", "status")
    counted = ("prompt_tokens", "completion_tokens", "wholesale_nanousd", "retail_nanousd")
    booking = {name: row.get(name) for name in named + counted}
    log.error(
        "a ledger row is lost: %s: %s", reason, booking, extra={"event": "ledger row lost"} | {"row": booking}
    )
