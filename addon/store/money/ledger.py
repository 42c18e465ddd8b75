"""What reports, checks and commands need of a ledger, whichever engine keeps it: statements that both engines take.

The SQL is in the part of the language that SQLite and PostgreSQL share. Where PostgreSQL lacks a function of SQLite,
its schema has one of the same name (``addon.store.money.postgres.compat``).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from threading import Event
from typing import Any, Final, Protocol

type Values = Sequence[Any] | Mapping[str, Any]
"""The values of a statement: for each ``?`` in turn, or for each ``:name``."""


class Cursor(Protocol):
    """What a statement found. A row is a tuple of text, whole numbers and None."""

    @property
    def description(self) -> Any:
        """The columns: a sequence whose items begin with the name."""

    @property
    def rowcount(self) -> int:
        """How many rows a statement has changed."""

    def fetchone(self) -> Any:
        """Return the next row, None after the last."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left."""


class Ledger(Protocol):
    """A ledger at one moment, or in one transaction. ``sqlite3.Connection`` is one, ``PostgresLedger`` the other."""

    def execute(self, sql: str, values: Any = (), /) -> Cursor:
        """Run one statement. ``values`` are ``Values``."""


class SlowError(Exception):
    """What was read took too long, or nobody waits for it any more."""


class Lead(Protocol):
    """A process that would do a work which one process of all with a ledger does. Raises ``StoreUnavailable``."""

    def take(self) -> bool:
        """Take the work if no process has it, or keep it. Return whether this process has it, now and for a while."""

    def is_held(self) -> bool:
        """Return whether this process still has it, without a look at the ledger."""

    def end(self) -> None:
        """Leave the work to another process."""


class LedgerPlace(Protocol):
    """Where a ledger is. Its methods raise ``StoreUnavailable``, whose text has no credential."""

    @property
    def name(self) -> str:
        """The file, or the server and its database, for people."""

    @property
    def never_writable(self) -> tuple[type[Exception], ...]:
        """The errors for a row that can never be written, which ``write`` passes on from a ``SAVEPOINT``."""

    @property
    def newest_row(self) -> str:
        """A query for a number: from no call of it or below can a row still appear, and later ones have higher ones.

        It is that of ``usage.rowid``. Numbers begin again in a ledger that was restored.
        """

    def lead(self, work: str) -> "Lead":
        """Return this process as one that would do ``work``, which only one process does."""

    def kept_open(self) -> "LedgerPlace":
        """Return the same place for one thread that uses it again and again. It may keep a connection.

        ``close`` ends that.
        """

    def bounded(self, total_s: float) -> "LedgerPlace":
        """Return the same place, whose views and transactions fail after ``total_s``, however silent its server is."""

    def close(self) -> None:
        """End what ``kept_open`` keeps, also for a thread that waits for an answer: its work fails then."""

    def exists(self) -> bool:
        """Return whether a gateway has made the ledger. Raises ``StoreUnavailable``."""

    def count_processes(self) -> int:
        """Return how many processes of gateways use the ledger."""

    def read(self) -> AbstractContextManager[Ledger]:
        """Give a view of the ledger at one moment, which can't write. A file that is missing counts as empty."""

    def read_in_time(self, timeout_s: float, is_left: Event) -> AbstractContextManager[Ledger]:
        """Give such a view. Its statements raise ``SlowError`` after ``timeout_s``, and when ``is_left`` is set."""

    def write(self, timeout_s: float = ...) -> AbstractContextManager[Ledger]:
        """Give one transaction. It is durable when the block has ended, and undone when the block raises.

        No other such transaction of any process runs at the same time. Wait for it at most ``timeout_s``.
        """


CHANGE_S: Final = 5.0
"""How long a ledger may take for a change, or for what its form shows, once it is connected. Then it is away."""
NO_LIMIT: Final = 2**63 - 1
"""The value of ``LIMIT ?`` for all rows."""


def find_columns(ledger: Ledger, table: str) -> list[str]:
    """Return the columns of a table, in order. A ledger of an earlier version has fewer of them.

    ``rowid``, which counts the calls as they are written, is none of them, although PostgreSQL has to keep it as one.
    """
    found = ledger.execute(f"SELECT * FROM {table} LIMIT 0").description  # noqa: S608
    return [column[0] for column in found if column[0] != "rowid"]
