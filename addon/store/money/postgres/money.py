"""``PostgresMoney``: money in PostgreSQL, shared by gateways on any number of machines. No machine is special.

A transaction that was acknowledged may still be lost: a server may fail over to one that was behind. So each process
keeps what it settled, and writes it again when the server is another one. Source: docs/limits.md.
"""

import logging
import re
import secrets
from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Final

import psycopg
from pydantic import SecretStr

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.store.money import holds, settlements
from addon.store.money.engine import Last, Make, Statement, Step
from addon.store.money.money import Money
from addon.store.money.postgres.engine import POSTGRES
from addon.store.money.postgres.leases import Leases
from addon.store.money.postgres.recent import RecentCalls
from addon.store.money.postgres.schema import partition
from addon.store.money.postgres.tables import prepare
from addon.store.money.postgres.transactions import NEVER_WRITABLE, Transactions
from addon.store.protocol import TIMEOUT_S, HoldRequest, Settlement, StoreUnavailable
from policies.limits import Counter
from policies.spend import Denial, Hold

log = logging.getLogger("tollgate.store")

_CLOSE_TIMEOUT_S: Final = 2.0


class PostgresMoney(Money):
    """``Money`` in the PostgreSQL at ``url``. ``check`` connects first, and creates the tables."""

    uncertain = (*Money.uncertain, StoreUnavailable)

    def __init__(self, url: SecretStr, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(POSTGRES, secrets.token_hex(12), NEVER_WRITABLE, clock)
        self._transactions = Transactions(url, clock)
        self._leases = Leases(self._transactions, self._owner, clock)
        self._recent = RecentCalls(clock)
        self._ledger_id = ""
        self._is_open = True

    async def _do[Thing, Answer](
        self,
        make: Make[Thing, Answer],
        thing: Thing,
        key: Hashable,
        *,
        workspace: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Answer:
        try:
            return await self._transactions.do(make, thing, key, workspace=workspace, timeout_s=timeout_s)
        except psycopg.errors.CheckViolation as error:
            month = _month_of(thing) if isinstance(thing, Settlement) and _has_no_partition(error) else None
            if month is None:
                raise
            await self._transactions.read(Statement(partition(month)))
            return await self._transactions.do(make, thing, key, workspace=workspace, timeout_s=timeout_s)

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.hold``."""
        decided = await super().hold(request)
        if isinstance(decided, Hold):
            self._recent.held(request, decided)
        return decided

    async def move_hold(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.move_hold``."""
        decided = await super().move_hold(request)
        if isinstance(decided, Hold):
            self._recent.held(request, decided)
        return decided

    async def _settle(self, settlement: Settlement, timeout_s: float = TIMEOUT_S) -> None:
        await super()._settle(settlement, timeout_s)
        self._recent.settled(settlement)

    async def _void(self, call_id: str, timeout_s: float = TIMEOUT_S) -> None:
        await super()._void(call_id, timeout_s)
        self._recent.voided(call_id)

    @property
    def ledger_id(self) -> str:
        """See ``Money.ledger_id``."""
        if not self._ledger_id:
            raise StoreUnavailable("PostgreSQL: it was not reached yet")
        return self._ledger_id

    async def read_counters(self, workspace: str, counters: Sequence[Counter]) -> list[tuple[int, int]]:  # noqa: ARG002
        """See ``Store.read_counters``. A scope names its workspace."""
        asked = [Statement(_COUNTER, (one.scope, one.period)) for one in counters]
        found = await self._transactions.read(*asked) if asked else ()
        return [(rows[0][0], rows[0][1]) if rows else (0, 0) for rows in found]

    async def maintain(self) -> None:
        """See ``Store.maintain``."""
        await self._prepare()
        await self._write_pending()
        if await self._leases.renew():
            await self._write_again()
        if dead := await self._leases.find_dead():
            ended = await self._do(self._make_interrupted, dead, "interrupted calls")
            if ended:
                log.warning("%d calls of a gateway that ended were interrupted", ended)
        await self._write_refusals()

    async def check(self) -> None:
        """See ``Store.check``."""
        await self._prepare()
        await self._write_pending()
        await self._leases.write()

    async def close(self) -> None:
        """See ``Store.close``."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            await self._write_pending(_CLOSE_TIMEOUT_S)
            await self._write_refusals(_CLOSE_TIMEOUT_S)
            await self._leases.end()
        except StoreUnavailable as error:
            self._log_lost(str(error))
        await self._transactions.close()

    async def _prepare(self) -> None:
        """Create what is missing, once."""
        if not self._ledger_id:
            self._ledger_id = await prepare(self._transactions, self._clock.now().date())

    async def _write_again(self) -> None:
        """Write what a server that was behind may have lost. What it has stays as it is."""
        log.warning(
            "PostgreSQL is another server, or was behind: calls of the last minutes are written again"
        )
        for request, placed in self._recent.holds():
            await self._do(self._make_held, (request, placed), request.id)
        for settlement in self._recent.settlements():
            await self._settle(settlement)

    def _make_held(self, held: Sequence[tuple[HoldRequest, Hold]]) -> Step[Sequence[None]]:
        return holds.restore(held, self._owner, self._clock.now(), POSTGRES)

    def _make_interrupted(self, owners: Sequence[Sequence[str]]) -> Step[Sequence[int]]:
        [dead] = owners
        [rows] = yield [Statement(_INTERRUPTED_ROWS, (list(dead),))]
        ended = yield from settlements.interrupt(chain(*rows), POSTGRES)
        yield Last([Statement(_FORGET_LEASES, (list(dead),))])
        return [ended]

    def _describe(self, error: Exception) -> str:
        """Return what is wrong with a row, without its values."""
        found = error.diag if isinstance(error, psycopg.Error) else None
        where = found and (found.column_name or found.constraint_name)
        return f"{type(error).__name__}{f' of {where}' if where else ''}"


def _month_of(settlement: Settlement) -> str | None:
    found = re.match(r"\d{4}-(0[1-9]|1[0-2])-", str(settlement.row["created_at"]), re.ASCII)
    return found and found[0][:-1]


def _has_no_partition(error: psycopg.errors.CheckViolation) -> bool:
    return error.diag.table_name == "usage" and not error.diag.constraint_name


_COUNTER: Final = "SELECT spent_nanousd, requests FROM spend WHERE scope = ? AND period = ?"
_INTERRUPTED_ROWS: Final = "SELECT interrupted_row FROM holds WHERE owner = ANY(?) ORDER BY id"
_FORGET_LEASES: Final = "DELETE FROM leases WHERE owner = ANY(?)"
