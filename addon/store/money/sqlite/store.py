"""``SqliteStore``: rates and money in one SQLite file.

A call takes its token and its tokens a minute and places its hold in one step. It settles both in one step, too.
"""

import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from addon.runtime.clock import SYSTEM_CLOCK, Clock, monotonic_us
from addon.store.money.engine import Step
from addon.store.money.sqlite.engine import run
from addon.store.money.sqlite.money import SqliteMoney
from addon.store.protocol import TIMEOUT_S, HoldRequest, NoToken, Settlement
from addon.store.rates.circuits import Circuits, SharedCircuitsMixin
from addon.store.rates.sqlite import takes
from addon.store.rates.sqlite.circuits import SqliteCircuits
from addon.store.rates.sqlite.token_buckets import TokenBuckets, write_buckets
from policies.spend import Denial, Hold
from policies.token_limits import TokenDenial, TokenRequest, TokensTaken, count_used_tokens

type Decision = Hold | Denial | NoToken | TokenDenial


class SqliteStore(SharedCircuitsMixin, SqliteMoney):
    """A ``Store`` in the file ``path``. See ``SqliteMoney``."""

    def __init__(self, path: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(path, clock)
        self.empty_buckets: set[str] = set()
        self._circuits = Circuits(SqliteCircuits(self._file, clock), clock)
        self._buckets = TokenBuckets()
        self._taken: dict[str, TokensTaken] = {}
        """What each call in flight, or each that waits to be recorded, took of limits of tokens a minute."""

    async def take_token(self, workspace: str, limit_rpm: int) -> int:
        if workspace in self.empty_buckets:
            # Reading needs no lock, so a flood of refused calls blocks no other call.
            wait_us = await self._file.read(
                lambda: takes.token_wait_us(
                    self._file.connection, workspace, limit_rpm, monotonic_us(self._clock)
                )
            )
            if wait_us:
                return wait_us
        wait_us = await self._file.write(
            lambda c: takes.take_token(c, workspace, limit_rpm, monotonic_us(self._clock))
        )
        (self.empty_buckets.add if wait_us else self.empty_buckets.discard)(workspace)
        return wait_us

    async def take_and_hold(self, request: HoldRequest, limit_rpm: int) -> Decision:
        def step(connection: sqlite3.Connection) -> tuple[Decision, TokensTaken | None]:
            if limit_rpm:
                now_us = monotonic_us(self._clock)
                if wait_us := takes.take_token(connection, request.workspace, limit_rpm, now_us):
                    return NoToken(wait_us), None
            if request.tokens is None:
                return run(connection, self._make_holds([request]))[0], None
            return self._take_tokens_and_hold(connection, request, request.tokens)

        decided, taken = await self._placing(request.id, lambda: self._file.write(step))
        if isinstance(decided, NoToken):
            self.empty_buckets.add(request.workspace)
        if taken is not None:
            self._taken[request.id] = taken
        return decided

    def _take_tokens_and_hold(
        self, connection: sqlite3.Connection, request: HoldRequest, asked: TokenRequest
    ) -> tuple[Decision, TokensTaken | None]:
        taking = self._buckets.find(connection, asked, self._now_ms)
        if isinstance(taking, TokenDenial):
            return taking, None
        decided = run(connection, self._make_holds([request]))[0]
        if isinstance(decided, Denial):
            return decided, None
        buckets, taken = taking
        write_buckets(connection, taken.limits, buckets)
        return decided, taken

    def _write(self, settlement: Settlement, timeout_s: float) -> Coroutine[Any, Any, None]:
        taken = self._taken.get(settlement.row["id"]) if self._taken else None
        if taken is None:
            return super()._write(settlement, timeout_s)
        used_tokens = count_used_tokens(settlement.row)
        make = partial(self._make_settlements, [settlement])
        return self._end(settlement.row["id"], make, taken, used_tokens, timeout_s)

    def _void(self, call_id: str, timeout_s: float = TIMEOUT_S) -> Coroutine[Any, Any, None]:
        taken = self._taken.get(call_id) if self._taken else None
        if taken is None:
            return super()._void(call_id, timeout_s)
        return self._end(call_id, partial(self._make_voids, [call_id]), taken, None, timeout_s)

    async def _end(
        self,
        call_id: str,
        make: Callable[[], Step[Sequence[None]]],
        taken: TokensTaken,
        used_tokens: int | None,
        timeout_s: float,
    ) -> None:
        """End a call by the step that ``make`` makes, and replace what it took by what it used, in one transaction."""

        def step(connection: sqlite3.Connection) -> None:
            run(connection, make())
            self._buckets.settle(connection, taken, used_tokens, self._now_ms)

        await self._file.write(step, timeout_s)
        self._taken.pop(call_id, None)

    @property
    def _now_ms(self) -> int:
        return monotonic_us(self._clock) // 1000

    async def maintain(self) -> None:
        await super().maintain()
        await self._circuits.refresh()
