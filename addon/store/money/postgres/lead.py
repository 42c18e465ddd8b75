"""A work that one process of all with a PostgreSQL does: it has a lease, by the clock of PostgreSQL.

No session has a state, so a pgbouncer may stand between. A process that dies leaves the work after ``LEASE_S``.
"""

import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from addon.store.money.ledger import Ledger
from addon.store.protocol import StoreUnavailable

LEASE_S: Final = 15.0
_TIMEOUT_S: Final = 1.0


class LeaseLead:
    """The ``Lead`` by a row of the table ``leaders``. ``change`` gives a transaction of so many seconds at most."""

    def __init__(self, change: Callable[[float], AbstractContextManager[Ledger]], work: str) -> None:
        self._change = change
        self._work = work
        self._owner = secrets.token_hex(12)
        self._until_s = float("-inf")

    def take(self) -> bool:
        """See ``Lead.take``."""
        # The lease begins after this moment, so here it ends before another process may take the work.
        asked_s = time.monotonic()
        with self._change(_TIMEOUT_S) as ledger:
            is_taken = ledger.execute(_TAKE, (self._work, self._owner, LEASE_S)).fetchone() is not None
        self._until_s = asked_s + LEASE_S if is_taken else float("-inf")
        return is_taken

    def is_held(self) -> bool:
        """See ``Lead.is_held``."""
        return time.monotonic() < self._until_s

    def end(self) -> None:
        """See ``Lead.end``. Where PostgreSQL is away, the lease ends by itself."""
        self._until_s = float("-inf")
        try:
            with self._change(_TIMEOUT_S) as ledger:
                ledger.execute("DELETE FROM leaders WHERE work = ? AND owner = ?", (self._work, self._owner))
        except StoreUnavailable:
            return


_TAKE: Final = """
    INSERT INTO leaders (work, owner, ends_at) VALUES (?, ?, clock_timestamp() + ? * interval '1 second')
    ON CONFLICT (work) DO UPDATE SET owner = excluded.owner, ends_at = excluded.ends_at
        WHERE leaders.owner = excluded.owner OR leaders.ends_at < clock_timestamp()
    RETURNING owner
"""
