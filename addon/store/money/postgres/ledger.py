"""A ledger in PostgreSQL, as commands, pages and background work use it: one connection for one piece of work.

Calls have a connection of their own, ``Transactions``. Nothing is prepared, and no session has a state.
"""

import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from threading import Event, Thread
from time import monotonic
from typing import Any, Final, Self

import psycopg
from psycopg.types.numeric import NumericLoader
from pydantic import SecretStr

from addon.settings.ledger_url import hide_credentials
from addon.settings.store_urls import LEDGER_SCHEMES
from addon.store.money.ledger import Cursor, Ledger, SlowError, Values
from addon.store.money.postgres.failures import NEVER_WRITABLE, describe
from addon.store.money.postgres.lead import LeaseLead
from addon.store.money.postgres.leases import COUNT_LIVE
from addon.store.money.postgres.schema import TABLES_LOCK
from addon.store.protocol import LEASE_S, StoreUnavailable

CONNECT_TIMEOUT_S: Final = 3
IDLE: Final = psycopg.pq.TransactionStatus.IDLE
WRITE_TIMEOUT_S: Final = 5.0
READ_TIMEOUT_S: Final = 3600.0
"""How long one statement of a report may take."""

_LOOK_S: Final = 0.1
"""How often a watch looks whether a page took too long, or its client has left."""
_CANCEL_S: Final = 1.0
"""How long a statement may take to end when it is cancelled. Then its connection is cut."""

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('tollgate:ledger', 0))"
_READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class _WholeNumbers(NumericLoader):
    """Loads whole ``numeric`` values as ``int``, as sums of ``bigint`` are, and others as ``float``, as SQLite does."""

    def load(self, data: Any) -> Any:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


class PostgresLedger:
    """A ``Ledger`` over an open connection, in the transaction that it is in."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        connection.adapters.register_loader("numeric", _WholeNumbers)

    def execute(self, sql: str, values: Values = (), /) -> Cursor:
        """See ``Ledger.execute``. Raises ``psycopg.Error``."""
        return self.connection.execute(translate(sql), values)


class PostgresPlace:
    """The ledger at ``url``: a ``LedgerPlace``."""

    def __init__(self, url: SecretStr, *, is_kept: bool = False, total_s: float | None = None) -> None:
        self._url = url
        self._is_kept = is_kept
        self._total_s = total_s
        self._connection: psycopg.Connection[Any] | None = None
        self._is_used = False
        self.name = hide_credentials(url.get_secret_value())
        self.never_writable = NEVER_WRITABLE
        # Transactions commit in another order than they begin. Below this number all have ended.
        self.newest_row = "SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20) - 1"

    def lead(self, work: str) -> LeaseLead:
        """See ``LedgerPlace.lead``."""
        return LeaseLead(self.change, work)

    def kept_open(self) -> "PostgresPlace":
        """See ``LedgerPlace.kept_open``."""
        return PostgresPlace(self._url, is_kept=True)

    def bounded(self, total_s: float) -> "PostgresPlace":
        """See ``LedgerPlace.bounded``. The time to connect has a bound of its own."""
        return PostgresPlace(self._url, total_s=total_s)

    def close(self) -> None:
        """See ``LedgerPlace.close``."""
        connection, self._connection = self._connection, None
        if connection is not None and not self._is_used:
            connection.close()
        elif connection is not None:
            _cut(connection)

    def exists(self) -> bool:
        """See ``LedgerPlace.exists``."""
        with self._connected() as connection:
            [[exists]] = connection.execute("SELECT to_regclass('ledger') IS NOT NULL").fetchall()
        return bool(exists)

    @classmethod
    def of_text(cls, url: str) -> Self:
        """Return the place of a URL that was typed. Raises ValueError, whose message shows no part of it."""
        if not url.startswith(LEDGER_SCHEMES):
            raise ValueError("must begin with postgresql://")
        return cls(SecretStr(url))

    def count_processes(self) -> int:
        """See ``LedgerPlace.count_processes``: those that have renewed their lease in the last minute."""
        with self.read() as ledger:
            found: tuple[int] = ledger.execute(COUNT_LIVE, (LEASE_S,)).fetchone()
        return found[0]

    @contextmanager
    def fill(self) -> Iterator[psycopg.Connection[Any]]:
        """Give a connection in a transaction without a bound of time, which only its user commits.

        Meanwhile no gateway makes tables here. Raises ``StoreUnavailable``.
        """
        with self._connected() as connection:
            connection.execute("BEGIN")
            connection.execute(f"SELECT pg_advisory_xact_lock({TABLES_LOCK})")
            yield connection

    @contextmanager
    def read(self, timeout_s: float = READ_TIMEOUT_S) -> Iterator[PostgresLedger]:
        """See ``LedgerPlace.read``. A statement takes at most ``timeout_s``."""
        with self._connected() as connection:
            connection.execute(_READ)
            _bound(connection, timeout_s)
            yield PostgresLedger(connection)
            connection.execute("COMMIT")

    @contextmanager
    def read_in_time(self, timeout_s: float, is_left: Event) -> Iterator[PostgresLedger]:
        """See ``LedgerPlace.read_in_time``. The server ends its statement, unless it can't be reached any more."""
        end_s = monotonic() + timeout_s

        def is_over() -> bool:
            return is_left.is_set() or monotonic() >= end_s

        with self._connected() as connection, _ended_when(is_over, connection):
            try:
                connection.execute(_READ)
                _bound(connection, timeout_s)
                yield PostgresLedger(connection)
            except psycopg.Error:
                if is_over():
                    raise SlowError from None
                raise

    @contextmanager
    def write(self, timeout_s: float = WRITE_TIMEOUT_S) -> Iterator[Ledger]:
        """See ``LedgerPlace.write``."""
        with self.change(timeout_s) as ledger:
            ledger.execute(_LOCK)
            yield ledger

    @contextmanager
    def change(self, timeout_s: float) -> Iterator[Ledger]:
        """Give a transaction as ``write`` does, beside which others run."""
        with self._connected() as connection:
            connection.execute("BEGIN")
            _bound(connection, timeout_s)
            yield PostgresLedger(connection)
            connection.execute("COMMIT")

    def vacuum(self, tables: Iterable[str]) -> None:
        """Free the room of rows that were changed or deleted, beside calls. Raises ``StoreUnavailable``."""
        with self._connected() as connection:
            PostgresLedger(connection).execute(f"VACUUM {', '.join(tables)}")

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        """Connect. A transaction that is still open at the end is undone."""
        try:
            connection = self._connection or self._connect()
        except psycopg.Error as error:
            raise self._unavailable(error) from None
        self._connection, self._is_used, is_kept = connection, True, False
        try:
            with self._bounded(connection):
                yield connection
            is_kept = self._is_kept and connection.info.transaction_status is IDLE
        except psycopg.Error as error:
            raise self._unavailable(error) from error
        finally:
            self._is_used = False
            if not is_kept or self._connection is None:
                self._connection = None
                connection.close()

    @contextmanager
    def _bounded(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        if self._total_s is None:
            yield
            return
        end_s = monotonic() + self._total_s

        def is_over() -> bool:
            return monotonic() >= end_s

        with _ended_when(is_over, connection):
            try:
                yield
            except psycopg.Error as error:
                if is_over():
                    raise StoreUnavailable(f"{self.name}: it does not answer in time") from error
                raise

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            self._url.get_secret_value(),
            autocommit=True,
            prepare_threshold=None,
            cursor_factory=psycopg.ClientCursor,
            application_name="tollgate",
            client_encoding="utf8",
            connect_timeout=CONNECT_TIMEOUT_S,
            # A server that is gone without a word is noticed.
            tcp_user_timeout=round(CONNECT_TIMEOUT_S * 1000),
        )

    def _unavailable(self, error: psycopg.Error) -> StoreUnavailable:
        if isinstance(error, psycopg.errors.UndefinedTable):
            return StoreUnavailable(f"{self.name}: there is no ledger yet, a gateway makes it when it starts")
        return StoreUnavailable(f"{self.name}: {describe(error)}")


@contextmanager
def _ended_when(is_over: Callable[[], bool], connection: psycopg.Connection[Any]) -> Iterator[None]:
    """End what runs over a connection in the block, when ``is_over``."""
    is_done = Event()

    def watch() -> None:
        while not is_over():
            if is_done.wait(_LOOK_S):
                return
        with suppress(psycopg.Error):
            connection.cancel_safe(timeout=_CANCEL_S)
        # Between two statements nothing is cancelled, and a server that is gone does not answer.
        if not is_done.wait(_CANCEL_S):
            _cut(connection)

    watching = Thread(target=watch, name="ledger", daemon=True)
    watching.start()
    try:
        yield
    finally:
        is_done.set()
        watching.join()


def _cut(connection: psycopg.Connection[Any]) -> None:
    """End a connection that another thread uses."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as used:
        used.shutdown(socket.SHUT_RDWR)


@lru_cache(maxsize=1024)
def translate(sql: str) -> str:
    """Return a statement with psycopg's marks for its values: ``?`` becomes ``%s``, and ``:name`` ``%(name)s``."""
    return _MARK.sub(_mark, sql)


_MARK: Final = re.compile(r"""'[^']*'|"[^"]*"|\?|(?<!:):([a-z_]+)|%""")


def _mark(found: re.Match[str]) -> str:
    text = found[0]
    if text == "?":
        return "%s"
    if found[1]:
        return f"%({found[1]})s"
    return text.replace("%", "%%")


def _bound(connection: psycopg.Connection[Any], timeout_s: float) -> None:
    """Bound each statement of the transaction, for a lock as well."""
    milliseconds = f"{round(timeout_s * 1000)}"
    connection.execute("SELECT set_config('statement_timeout', %s, true)", (milliseconds,))
