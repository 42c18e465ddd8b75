"""``PostgresMoney``: money in PostgreSQL, shared by gateways on any number of machines. No machine is special.

A transaction that was acknowledged may still be lost: a server may fail over to one that was behind. So each process
keeps what it settled, and writes it again when the server is another one. Source: docs/limits.md.
"""

import asyncio
import logging
import re
import secrets
from collections.abc import Hashable, Sequence
from datetime import date
from functools import partial
from itertools import batched
from typing import Final

import psycopg
from pydantic import SecretStr

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.store.money import holds, settlements
from addon.store.money.engine import Last, Make, Statement, Step
from addon.store.money.money import Money
from addon.store.money.pending_writes import log_lost_row
from addon.store.money.postgres import safety
from addon.store.money.postgres.engine import POSTGRES
from addon.store.money.postgres.failures import NEVER_WRITABLE
from addon.store.money.postgres.leases import Leases
from addon.store.money.postgres.merging import Merger
from addon.store.money.postgres.recent import RecentCalls
from addon.store.money.postgres.schema import partition
from addon.store.money.postgres.tables import prepare
from addon.store.money.postgres.transactions import Transactions
from addon.store.money.rows import WAS_INTERRUPTED
from addon.store.protocol import TIMEOUT_S, HoldRequest, IllegalRowError, Settlement, StoreUnavailable
from policies.limits import Counter
from policies.spend import Denial, Hold

log = logging.getLogger("tollgate.store")

_CLOSE_TIMEOUT_S: Final = 2.0
_LOOK_S: Final = 60.0
_AT_ONCE: Final = 500
"""How many calls are written again, or ended, at a time."""


class _BehindError(StoreUnavailable):
    """The server lacks what this process wrote."""


class PostgresMoney(Money):
    """``Money`` in the PostgreSQL at ``url``. ``check`` connects first, and creates the tables."""

    uncertain = (*Money.uncertain, StoreUnavailable)

    def __init__(self, url: SecretStr, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(POSTGRES, secrets.token_hex(12), NEVER_WRITABLE, clock)
        self._recent = RecentCalls(clock)
        self._transactions = Transactions(url, clock, lambda connection: self._leases.greet(connection))
        self._merger = Merger(url, clock)
        self._leases = Leases(self._transactions, self._owner, clock, self._recent.last)
        self._healing: asyncio.Task[None] | None = None
        self._looked_s = float("-inf")
        self._strangers: frozenset[str] = frozenset()
        self._ledger_id, self._prepared_on = "", date.min
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
        do = partial(self._transactions.do, make, thing, key, workspace=workspace, timeout_s=timeout_s)
        try:
            return await do()
        except _BehindError:
            await asyncio.wait({self._heal()}, timeout=timeout_s)
        except psycopg.errors.CheckViolation as error:
            month = _month_without_partition(thing, error)
            if month is None:
                raise
            await self._transactions.read(Statement(partition(month)))
        return await do()

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.hold``."""
        return self._keep(request, await super().hold(request))

    async def move_hold(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.move_hold``."""
        return self._keep(request, await super().move_hold(request))

    def _keep(self, request: HoldRequest, decided: Hold | Denial) -> Hold | Denial:
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

    @property
    def live_processes(self) -> int:
        """See ``Money.live_processes``."""
        return self._leases.live

    async def read_counters(self, workspace: str, counters: Sequence[Counter]) -> list[tuple[int, int]]:  # noqa: ARG002
        """See ``Store.read_counters``. A scope names its workspace."""
        asked = [Statement(_COUNTER, (one.scope, one.period)) for one in counters]
        found = await self._transactions.read(*asked) if asked else ()
        return [(rows[0][0], rows[0][1]) if rows else (0, 0) for rows in found]

    async def maintain(self) -> None:
        """See ``Store.maintain``."""
        await self._prepare()
        await self._write_pending()
        is_renewed = await self._leases.renew()
        if self._leases.is_behind:
            await asyncio.shield(self._heal())
        dead = list(await self._leases.find_dead())
        await self._look_for_warnings()
        if is_renewed:
            await self._release_strangers()
            dead += await self._leases.find_unleased()
        if dead:
            ended = await self._do(self._make_interrupted, dead, "interrupted calls")
            if ended:
                log.warning("%d calls of a gateway that ended were interrupted", ended)
        await self._write_refusals()
        await self._merger.step()

    async def _look_for_warnings(self) -> None:
        """Look, once a minute, whether what PostgreSQL acknowledges is safe."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s >= _LOOK_S:
            [[settings]] = await self._transactions.read(Statement(safety.SETTINGS))
            self.warnings = [one.text for one in safety.find_unsafe(settings)]
            self._looked_s = now_s

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
        if self._healing:
            await asyncio.wait({self._healing})
        await self._merger.close()
        await self._transactions.close()

    async def _prepare(self) -> None:
        """Create what is missing, and each day the partitions of the next months."""
        today = self._clock.now().date()
        if today != self._prepared_on:
            self._ledger_id = await prepare(self._transactions, today)
            self._prepared_on = today

    def _require_all(self) -> None:
        """Let no call through, when the server was behind, until it has what this process wrote."""
        if self._leases.is_behind:
            raise _BehindError("PostgreSQL: it was behind, and calls are written again first")

    def _heal(self) -> asyncio.Task[None]:
        """Write again what a server that was behind may lack. There is one such task at a time."""
        if self._healing is None:
            self._healing = asyncio.create_task(self._write_again())
            self._healing.add_done_callback(self._end_healing)
        return self._healing

    def _end_healing(self, task: asyncio.Task[None]) -> None:
        self._healing = None
        if not task.cancelled() and (error := task.exception()):
            reason = error if isinstance(error, StoreUnavailable) else type(error).__name__
            log.warning("calls that PostgreSQL may have lost are not all written yet: %s", reason)

    async def _write_again(self) -> None:
        log.warning("PostgreSQL is another server, or was behind: calls of the last minutes are compared")
        held = self._recent.holds()
        for batch in batched(held, _AT_ONCE):
            await asyncio.gather(*[self._do(self._make_held, one, one[0].id) for one in batch])
        count = 0
        for settled in batched(self._recent.settlements(), _AT_ONCE):
            missing = await self._find_missing(settled)
            await asyncio.gather(*[self._settle_again(one) for one in missing])
            count += len(missing)
        self._leases.is_behind = False
        log.warning("%d calls were written again, and %d in flight are held again", count, len(held))

    async def _settle_again(self, settlement: Settlement) -> None:
        try:
            await self._settle(settlement)
        except IllegalRowError as error:  # It keeps no call from being held.
            log_lost_row(settlement, str(error))

    async def _find_missing(self, settled: Sequence[Settlement]) -> list[Settlement]:
        """Return those of these calls that have no row, or only that of an interrupted call."""
        keys = [(str(one.row["id"]), str(one.row["created_at"])) for one in settled]
        ids, times = zip(*keys, strict=True)
        [rows] = await self._transactions.read(Statement(_FIND_ROWS, (list(ids), list(times))))
        there = {row[0] for row in rows}
        return [one for one, (call_id, _) in zip(settled, keys, strict=True) if call_id not in there]

    async def _release_strangers(self) -> None:
        """Release holds of this process that it does not know: it was not told that they were placed.

        One that was placed just now is not known yet, so it must be found twice.
        """
        [rows] = await self._transactions.read(Statement(_FIND_HELD, (self._owner,)))
        strangers = frozenset(row[0] for row in rows if not self._recent.knows(row[0]))
        for call_id in strangers & self._strangers:
            await self._void(call_id)
        self._strangers = strangers

    def _make_holds(self, requests: Sequence[HoldRequest]) -> Step[Sequence[Hold | Denial]]:
        self._require_all()
        return super()._make_holds(requests)

    def _make_moves(self, requests: Sequence[HoldRequest]) -> Step[Sequence[Hold | Denial | None]]:
        self._require_all()
        return super()._make_moves(requests)

    def _make_held(self, held: Sequence[tuple[HoldRequest, Hold]]) -> Step[Sequence[None]]:
        keys = [(request.id, str(request.interrupted_row["created_at"])) for request, _ in held]
        ids, times = zip(*keys, strict=True)
        # A call that was settled in the last transaction may not know it yet.
        [rows] = yield [Statement(_FIND_ANY_ROWS, (list(ids), list(times)))]
        recorded = {row[0] for row in rows}
        in_flight = [one for one in held if self._recent.knows(one[0].id) and one[0].id not in recorded]
        if in_flight:
            yield from holds.restore(in_flight, self._owner, self._clock.now(), POSTGRES)
        return [None] * len(held)

    def _make_interrupted(self, owners: Sequence[Sequence[str]]) -> Step[Sequence[int]]:
        [dead] = owners
        [rows] = yield [Statement(_INTERRUPTED_ROWS, (list(dead),))]
        ended = yield from settlements.interrupt(rows, POSTGRES)
        yield Last([Statement(_FORGET_LEASES, (list(dead),))])
        return [ended]

    def _describe(self, error: Exception) -> str:
        """Return what is wrong with a row, without its values."""
        found = error.diag if isinstance(error, psycopg.Error) else None
        where = found and (found.column_name or found.constraint_name)
        return f"{type(error).__name__}{f' of {where}' if where else ''}"


def _month_without_partition(thing: object, error: psycopg.errors.CheckViolation) -> str | None:
    """Return the month of a settlement whose row has no partition yet. None: the error has another reason."""
    if not isinstance(thing, Settlement) or error.diag.table_name != "usage" or error.diag.constraint_name:
        return None
    found = re.match(r"\d{4}-(0[1-9]|1[0-2])-", str(thing.row["created_at"]), re.ASCII)
    return found and found[0][:-1]


_COUNTER: Final = "SELECT spent_nanousd, requests FROM spend WHERE scope = ? AND period = ?"
_FIND_ANY_ROWS: Final = """
    SELECT id FROM unnest(?::text[], ?::text[]) AS given (id, created_at) JOIN usage USING (id, created_at)
"""
_FIND_ROWS: Final = f"""
    {_FIND_ANY_ROWS} WHERE NOT ({WAS_INTERRUPTED.replace(" IS ", " IS NOT DISTINCT FROM ")})
"""
_FIND_HELD: Final = "SELECT id FROM holds WHERE owner = ?"
_INTERRUPTED_ROWS: Final = (
    f"SELECT interrupted_row, budgets FROM holds WHERE owner = ANY(?) ORDER BY id LIMIT {_AT_ONCE}"  # noqa: S608
)
_FORGET_LEASES: Final = """
    DELETE FROM leases WHERE owner = ANY(?) AND NOT EXISTS (SELECT FROM holds WHERE holds.owner = leases.owner)
"""
