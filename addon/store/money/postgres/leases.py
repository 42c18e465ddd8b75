"""The leases of processes, by the clock of PostgreSQL: a process that does not renew its lease in a minute is dead.

Each look also tells whether the server is the one of the last look, and whether it still has what this process wrote.
"""

from collections.abc import Sequence
from typing import Final

from addon.runtime.clock import Clock
from addon.store.money.engine import Statement
from addon.store.money.postgres.transactions import Transactions
from addon.store.protocol import LEASE_S

RENEW_S: Final = 10.0
"""The time between two renewals."""


class Leases:
    """The lease of the process ``owner``, and those of dead processes. Its methods raise ``StoreUnavailable``."""

    def __init__(self, transactions: Transactions, owner: str, clock: Clock) -> None:
        self._transactions = transactions
        self._owner = owner
        self._clock = clock
        self._server: tuple[str, str] | None = None
        self._renewals = 0
        self._renewed_s = float("-inf")
        self._judges_from_s = float("inf")
        self.quiet_s: float = LEASE_S
        """How long this process judges nobody after its start and each outage: others may not have renewed yet."""

    async def write(self) -> None:
        """Write the lease: the cheapest write that proves that the server takes any."""
        [[renewals], [server]] = await self._transactions.read(
            Statement(_RENEW, (self._owner, self._renewals + 1)), Statement(_SERVER)
        )
        self._note(renewals[0], (str(server[0]), str(server[1])))

    async def renew(self) -> bool:
        """Renew the lease when it is time. Return whether the server has lost something since the last time."""
        now_s = self._clock.monotonic_s()
        [[server], known] = await self._transactions.read(
            Statement(_SERVER), Statement(_KNOWN, (self._owner,))
        )
        before, renewals = self._server, self._renewals
        was_lost = before is not None and (
            before != (str(server[0]), str(server[1])) or not known or known[0][0] < renewals
        )
        if was_lost or now_s - self._renewed_s >= RENEW_S:
            if was_lost or now_s - self._renewed_s > LEASE_S / 2:
                # Others could not renew theirs either.
                self._judges_from_s = now_s + self.quiet_s
            await self.write()
        return was_lost

    async def find_dead(self) -> Sequence[str]:
        """Return the owners of holds whose lease has ended."""
        if self._clock.monotonic_s() < self._judges_from_s:
            return ()
        [rows] = await self._transactions.read(Statement(_DEAD, (LEASE_S, self._owner)))
        return [row[0] for row in rows]

    async def end(self) -> None:
        """End the lease. Another process ends what this one still holds."""
        await self._transactions.read(Statement(_END, (self._owner,)))

    def _note(self, renewals: int, server: tuple[str, str]) -> None:
        if self._server is None:
            self._judges_from_s = self._clock.monotonic_s() + self.quiet_s
        self._renewals, self._server = renewals, server
        self._renewed_s = self._clock.monotonic_s()


_RENEW: Final = """
    INSERT INTO leases (owner, renewed_at, renewals) VALUES (?, clock_timestamp(), ?)
    ON CONFLICT (owner) DO UPDATE SET renewed_at = excluded.renewed_at,
        renewals = greatest(leases.renewals + 1, excluded.renewals)
    RETURNING renewals
"""
_KNOWN: Final = "SELECT renewals FROM leases WHERE owner = ?"
# The name of a file of the write-ahead log begins with its timeline.
_SERVER: Final = """
    SELECT system_identifier::text, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) FROM pg_control_system()
"""
_DEAD: Final = """
    SELECT DISTINCT owner FROM holds LEFT JOIN leases USING (owner)
    WHERE coalesce(renewed_at < clock_timestamp() - ? * interval '1 second', true) AND owner <> ?
"""
_END: Final = "DELETE FROM leases WHERE owner = ?"
