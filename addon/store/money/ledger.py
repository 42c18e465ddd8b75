"""What reports, checks and commands need of a ledger, whichever engine keeps it: statements that both engines take.

The SQL is in the part of the language that SQLite and PostgreSQL share. Where PostgreSQL lacks a function of SQLite,
its schema has one of the same name (``addon.store.money.postgres.compat``).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
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


class LedgerPlace(Protocol):
    """Where a ledger is. Its methods raise ``StoreUnavailable``, whose text has no credential."""

    @property
    def name(self) -> str:
        """The file, or the server and its database, for people."""

    @property
    def never_writable(self) -> tuple[type[Exception], ...]:
        """The errors for a row that can never be written, which ``write`` passes on from a ``SAVEPOINT``."""

    def exists(self) -> bool:
        """Return whether a gateway has made the ledger. Raises ``StoreUnavailable``."""

    def read(self) -> AbstractContextManager[Any]:
        """Give a view of the ledger at one moment, which can't write. A file that is missing counts as empty."""

    def write(self, timeout_s: float = ...) -> AbstractContextManager[Ledger]:
        """Give one transaction. It is durable when the block has ended, and undone when the block raises.

        No other such transaction of any process runs at the same time. Wait for it at most ``timeout_s``.
        """


NO_LIMIT: Final = 2**63 - 1
"""The value of ``LIMIT ?`` for all rows."""


def find_columns(ledger: Ledger, table: str) -> list[str]:
    """Return the columns of a table, in order. A ledger of an earlier version has fewer of them.

    ``rowid``, which counts the calls as they are written, is none of them, although PostgreSQL has to keep it as one.
    """
    found = ledger.execute(f"SELECT * FROM {table} LIMIT 0").description  # noqa: S608
    return [column[0] for column in found if column[0] != "rowid"]
