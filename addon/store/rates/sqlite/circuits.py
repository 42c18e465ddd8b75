"""The circuits in the ledger's SQLite file, shared by all gateways of this machine."""

import sqlite3

from addon.runtime.clock import Clock, monotonic_us
from addon.store.money.sqlite.file import LedgerFile
from addon.store.rates.circuits import CircuitSnapshot
from policies.circuit_breaker import CLOSED, Change, Circuit


class SqliteCircuits:
    """A ``CircuitTable`` in ``file``. ``clock`` is the machine's."""

    def __init__(self, file: LedgerFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    async def read(self) -> CircuitSnapshot:
        """See ``CircuitTable.read``. This needs no lock."""
        rows = await self._file.read(lambda: self._file.connection.execute(SELECT_CIRCUITS).fetchall())
        return CircuitSnapshot({name: Circuit(*values) for name, *values in rows}, monotonic_us(self._clock))

    async def change(self, name: str, change: Change) -> tuple[Circuit, Circuit]:
        return await self._file.write(lambda connection: self._change(connection, name, change))

    def _change(self, connection: sqlite3.Connection, name: str, change: Change) -> tuple[Circuit, Circuit]:
        row = connection.execute(f"{SELECT_CIRCUITS} WHERE name = ?", (name,)).fetchone()
        before = Circuit(*row[1:]) if row else CLOSED
        after = change(before, monotonic_us(self._clock))
        if after == CLOSED:
            connection.execute("DELETE FROM circuits WHERE name = ?", (name,))
        elif after != before:
            values = (name, after.failures, after.began_us, after.retry_us)
            connection.execute("INSERT OR REPLACE INTO circuits VALUES (?, ?, ?, ?)", values)
        return before, after


SELECT_CIRCUITS = "SELECT name, failures, began_at_us, retry_at_us FROM circuits"
