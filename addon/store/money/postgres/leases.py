"""The leases of processes, by the clock of PostgreSQL: a process that does not renew its lease in a minute is dead.

Each look also tells whether the server is the one of the last look, and whether it still has what this process wrote.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from addon.runtime.clock import Clock
from addon.store.money.engine import Rows, Statement
from addon.store.money.postgres.connection import Connection
from addon.store.money.postgres.transactions import Transactions
from addon.store.protocol import LEASE_S

RENEW_S: Final = 10.0
"""The time between two renewals."""


class Leases:
    """The lease of the process ``owner``, and those of dead processes. Its methods raise ``StoreUnavailable``.

    ``last_call`` returns id and time of the last call that this process has settled, if it still knows it.
    """

    def __init__(
        self,
        transactions: Transactions,
        owner: str,
        clock: Clock,
        last_call: Callable[[], tuple[str, str] | None],
    ) -> None:
        self._transactions = transactions
        self._owner = owner
        self._clock = clock
        self._last_call = last_call
        self._server: Sequence[Any] | None = None
        self._renewals = 0
        self._renewed_s = float("-inf")
        self._judges_from_s = float("inf")
        self.live = 0
        """How many processes had a lease when this one last renewed its own."""
        self.is_behind = False
        """Whether the server may lack what this process wrote. Who writes it again takes this back."""
        self.quiet_s: float = LEASE_S
        """How long this process judges nobody after its start and each outage: others may not have renewed yet."""

    async def write(self) -> None:
        """Write the lease: the cheapest write that proves that the server takes any."""
        renew = Statement(_RENEW, (self._owner, self._renewals + 1))
        [[renewals], [server], [live]] = await self._transactions.read(
            renew, Statement(_SERVER), Statement(COUNT_LIVE, (LEASE_S,))
        )
        if self._server is None:
            self._judge_later()
        self._renewals, self._server, self.live = renewals[0], server, live[0]
        self._renewed_s = self._clock.monotonic_s()

    async def renew(self) -> bool:
        """Look whether the server has lost something, and renew the lease when it is time. Return whether it was."""
        self._compare(*await self._transactions.read(*self._look()))
        late_s = self._clock.monotonic_s() - self._renewed_s
        if late_s < RENEW_S and not self.is_behind:
            return False
        if late_s > LEASE_S / 2:
            self._judge_later()  # Others could not renew theirs either.
        await self.write()
        return True

    async def greet(self, connection: Connection) -> None:
        """Look whether a new connection leads to a server that has lost something. Raises ``psycopg.Error``."""
        if self._server is not None:
            self._compare(*await connection.run(self._look()))

    async def find_dead(self) -> Sequence[str]:
        """Return the owners whose lease has ended."""
        if self._clock.monotonic_s() < self._judges_from_s:
            return ()
        [rows] = await self._transactions.read(Statement(_DEAD, (LEASE_S, self._owner)))
        return [row[0] for row in rows]

    async def find_unleased(self) -> Sequence[str]:
        """Return the owners of holds that have no lease. This reads all holds."""
        if self._clock.monotonic_s() < self._judges_from_s:
            return ()
        [rows] = await self._transactions.read(Statement(_UNLEASED))
        return [row[0] for row in rows if row[0] != self._owner]

    async def end(self) -> None:
        """End the lease. Another process ends what this one still holds."""
        await self._transactions.read(Statement(_END, (self._owner,)))

    def _look(self) -> list[Statement]:
        looks = [Statement(_SERVER), Statement(_RENEWALS, (self._owner,))]
        last = self._last_call()
        return [*looks, Statement(_IS_THERE, last)] if last else looks

    def _compare(self, server: Rows, renewals: Rows, last: Rows = ((),)) -> None:
        """Compare what the server has with what this process knows."""
        if self._server is None:
            return
        is_other = server[0] != self._server
        if is_other or not renewals or renewals[0][0] < self._renewals or not last:
            self._server = server[0]
            self.is_behind = True
            self._judge_later()

    def _judge_later(self) -> None:
        self._judges_from_s = self._clock.monotonic_s() + self.quiet_s


_RENEW: Final = """
    INSERT INTO leases (owner, renewed_at, renewals) VALUES (?, clock_timestamp(), ?)
    ON CONFLICT (owner) DO UPDATE SET renewed_at = excluded.renewed_at,
        renewals = greatest(leases.renewals + 1, excluded.renewals)
    RETURNING renewals
"""
# The name of a file of the write-ahead log begins with its timeline.
_SERVER: Final = """
    SELECT system_identifier::text, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) FROM pg_control_system()
"""
_RENEWALS: Final = "SELECT renewals FROM leases WHERE owner = ?"
_IS_THERE: Final = "SELECT id FROM usage WHERE id = ? AND created_at = ?"
_DEAD: Final = """
    SELECT owner FROM leases WHERE renewed_at < clock_timestamp() - ? * interval '1 second' AND owner <> ?
"""
COUNT_LIVE: Final = (
    "SELECT count(*) FROM leases WHERE renewed_at > clock_timestamp() - ? * interval '1 second'"
)
_UNLEASED: Final = "SELECT DISTINCT owner FROM holds LEFT JOIN leases USING (owner) WHERE renewed_at IS NULL"
_END: Final = "UPDATE leases SET renewed_at = '-infinity' WHERE owner = ?"
