"""``SqliteStore``: everything in one SQLite file, for all gateways of this machine.

It works in the thread of the event loop: a transaction takes some tens of microseconds, less than a change of threads.
None is held over an await, and one that finds the database locked is tried again until ``BOUND_S`` is over, while other
calls go on. What was committed survives the process's death. Source: docs/limits.md, docs/ledger.md.
"""

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from addon.folder_lock import locked
from addon.store import BOUND_S, Booking, HoldRequest, IllegalRowError, StoreUnavailable, WalletEntry
from addon.store import sqlite_money as money
from addon.store.migrations import migrate
from addon.store.owner import Owner
from policies.spend import Denial, Hold

log = logging.getLogger("tollgate.store")

type Step[T] = Callable[[sqlite3.Connection], T]

_PATIENT_MS = 2000  # While opening, when no call waits.
_PATIENT_S = 2.0  # While closing.
_CHECKPOINT_PAGES = 4000  # 16 MB, the work of some three hundred calls.
# Another process's transaction takes less than a tenth of a millisecond, so its end is waited for in place. Only if the
# lock stays do other calls of this process go on meanwhile. With four busy processes on two cores that gave a fifth
# more calls, and a median of 0.3 ms instead of 4 ms, than turns of the event loop alone.
_TRIES_IN_PLACE = 8
_IN_PLACE_S = 0.0001
_RETRY_S = 0.0005

_REPLACED = "the file was removed or replaced; restart to book into the new one"
_NEVER_WRITABLE = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.DataError)


class SqliteStore:
    """A ``Store`` in the file ``path``, which is made with its folder where it is missing.

    Raises ``StoreUnavailable`` where it can't be opened, or is the database of a newer version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[str, Booking] = {}
        self._to_void: set[str] = set()
        self._full: set[str] = set()
        try:
            with ExitStack() as half_open:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                # SQLite does not wait for its lock when several processes turn one new file to WAL at once: it fails.
                with locked(path.parent):
                    _create(path)
                    self._connection = _open(path)
                half_open.callback(self._connection.close)
                self._file = _file_identity(path)
                self._owner = Owner(path.with_name(f"{path.name}-owners"))
                half_open.callback(self._owner.close)
                self._transact(self._interrupt_the_dead)
                half_open.pop_all()
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(f"{path}: can't be opened: {_why(error)}") from error
        self._connection.execute("PRAGMA busy_timeout = 0")

    async def take(self, workspace: str, limit_rpm: int) -> bool:
        """See ``Store.take``."""
        if workspace in self._full:
            # Reading needs no lock, so a flood of calls that are refused holds up nobody.
            out = await self._attempt(lambda: money.tokens_out(self._connection, workspace, _clock_us()))
            if out >= limit_rpm:
                return False
        taken = await self._write(lambda c: money.take(c, workspace, limit_rpm, _clock_us()))
        (self._full.discard if taken else self._full.add)(workspace)
        return taken

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.hold``."""
        return await self._write(lambda c: money.hold(c, request, self._owner.id, datetime.now(UTC)))

    async def settle(self, booking: Booking) -> None:
        """See ``Store.settle``."""
        call_id = booking.row["id"]
        try:
            await self._write(partial(money.settle, booking=booking))
        except _NEVER_WRITABLE as error:
            await self.void(call_id)
            raise IllegalRowError(f"usage row {call_id}: {error}") from error
        except StoreUnavailable as error:
            if not self._kept:
                log.error("the ledger can't be written, calls are kept in memory: %s", error)
            self._kept[call_id] = booking
            raise

    async def void(self, call_id: str) -> None:
        """See ``Store.void``."""
        try:
            await self._write(partial(money.void, call_id=call_id))
        except StoreUnavailable:
            self._to_void.add(call_id)
            raise

    async def credit(self, entry: WalletEntry) -> bool:
        """See ``Store.credit``."""
        return await self._write(partial(money.credit, entry=entry))

    async def upkeep(self) -> None:
        """See ``Store.upkeep``."""
        await self._catch_up(BOUND_S)
        await self._write(self._keep_holds)

    async def check(self) -> None:
        """See ``Store.check``."""
        await self._catch_up(BOUND_S)
        # The cheapest real write: a lock alone would not notice a read-only file or a full disk.
        await self._write(lambda c: c.execute("PRAGMA user_version = 0"))

    async def close(self) -> None:
        """See ``Store.close``."""
        if self._owner.is_open:
            try:
                await self._catch_up(_PATIENT_S)
            except StoreUnavailable as error:
                for booking in self._kept.values():
                    _log_lost(booking, str(error))
            self._owner.close()
            self._connection.close()

    async def _catch_up(self, bound_s: float) -> None:
        """Write what was kept. What fails stays kept."""
        while self._kept:
            call_id, booking = next(iter(self._kept.items()))
            try:
                await self._write(partial(money.settle, booking=booking), bound_s)
            except _NEVER_WRITABLE as error:
                _log_lost(booking, str(error))
            if self._kept.pop(call_id, None) and not self._kept:
                log.info("no call is kept in memory any more", extra={"event": "ledger recovered"})
        while self._to_void:
            call_id = next(iter(self._to_void))
            await self._write(partial(money.void, call_id=call_id), bound_s)
            self._to_void.discard(call_id)

    def _keep_holds(self, connection: sqlite3.Connection) -> None:
        money.renew(connection, self._owner.id, datetime.now(UTC))
        self._interrupt_the_dead(connection)

    def _interrupt_the_dead(self, connection: sqlite3.Connection) -> None:
        now = datetime.now(UTC)
        if ended := money.interrupt(connection, lambda owner: not self._owner.lives(owner), now):
            log.warning("%d calls of a gateway that ended were interrupted", ended)

    async def _write[T](self, step: Step[T], bound_s: float = BOUND_S) -> T:
        """Run ``step`` in one transaction."""
        return await self._attempt(lambda: self._transact(step), bound_s)

    async def _attempt[T](self, work: Callable[[], T], bound_s: float = BOUND_S) -> T:
        """Return what ``work`` returns, trying again while another process has the database locked."""
        give_up_s = time.monotonic() + bound_s
        for tries in count(1):
            try:
                return work()
            except _NEVER_WRITABLE:
                raise
            except (OSError, sqlite3.Error) as error:
                if not _is_locked(error) or time.monotonic() > give_up_s:
                    raise StoreUnavailable(f"{self._path}: {_why(error)}") from error
            if tries % _TRIES_IN_PLACE:
                time.sleep(_IN_PLACE_S)  # noqa: ASYNC251  (shorter than a turn of a busy loop)
            else:
                await asyncio.sleep(_RETRY_S)
        raise AssertionError("unreachable")

    def _transact[T](self, step: Step[T]) -> T:
        if _file_identity(self._path) != self._file:
            # What is written into a deleted file is nowhere.
            raise sqlite3.OperationalError(_REPLACED)
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            return step(connection)


def _clock_us() -> int:
    """The machine's monotonic clock, which all its processes share."""
    return time.monotonic_ns() // 1000


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
        # A checkpoint waits for the disk, and every call in flight with it: seldom, then.
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_locked(error: Exception) -> bool:
    # Extended codes bear the plain one in their last byte.
    return (
        isinstance(error, sqlite3.Error)
        and (getattr(error, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_BUSY
    )


def _file_identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _why(error: Exception) -> str:
    return (error.strerror or "").lower() if isinstance(error, OSError) else str(error)


def _log_lost(booking: Booking, reason: str) -> None:
    """Leave enough in the log to book the call by hand."""
    named = ("id", "created_at", "workspace", "key_id", "model_slug", "mode", "status")
    counted = ("prompt_tokens", "completion_tokens", "wholesale_nanousd", "retail_nanousd")
    shown: dict[str, Any] = {name: booking.row.get(name) for name in named + counted}
    log.error("a ledger row is lost: %s: %s", reason, shown, extra={"event": "ledger row lost", "row": shown})
