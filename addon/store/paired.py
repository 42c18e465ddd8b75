"""``PairedStore``: rates in one engine and money in another, such as Redis and PostgreSQL. Each step uses one of them.

A rate may be forgotten, money may not. So where both are in one SQLite file, a call takes its token and places its
hold in one step; here it takes the token first, then its tokens a minute, and gives these back if it gets no hold.
"""

import asyncio
from collections.abc import Coroutine
from operator import attrgetter
from typing import Any

from addon.store.protocol import HoldRequest, Money, NoToken, SeparateRates, Settlement, StoreAway
from policies.spend import Denial, Hold
from policies.token_limits import TokenDenial, TokenRequest, TokensTaken, count_used_tokens


class PairedStore:
    """A ``Store`` of ``rates`` and ``money``."""

    def __init__(self, rates: SeparateRates, money: Money) -> None:
        self.rates, self.money = rates, money
        self.empty_buckets = rates.empty_buckets
        self.record_attempt = rates.record_attempt
        self.is_circuit_open = rates.is_circuit_open
        self.circuit_allows = rates.circuit_allows
        self.end_probe = rates.end_probe
        self.open_circuits = rates.open_circuits
        self.move_hold = money.move_hold
        self.credit = money.credit
        self.read_counters = money.read_counters
        self.count_refusal = money.count_refusal
        self._is_known = False
        """Whether the tables were made and the rates are those of this ledger."""
        self._taken: dict[str, tuple[str, TokensTaken]] = {}
        """The workspace of each call in flight that took tokens a minute, and what it took."""

    known_circuits = property(attrgetter("rates.known_circuits"))
    probes = property(attrgetter("rates.probes"))
    live_processes = property(attrgetter("money.live_processes"))
    unrecorded = property(attrgetter("money.unrecorded"))
    warnings = property(attrgetter("money.warnings"))

    async def take_token(self, workspace: str, limit_rpm: int) -> int:
        """See ``Rates.take_token``."""
        self._require_known()
        return await self.rates.take_token(workspace, limit_rpm)

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        """See ``Money.hold``."""
        self._require_known()
        return await self.money.hold(request)

    def _require_known(self) -> None:
        """Let no call through before both engines were checked: at the start a server may have been away."""
        if not self._is_known:
            raise StoreAway("it was not reached since the start")

    async def take_and_hold(
        self, request: HoldRequest, limit_rpm: int
    ) -> Hold | Denial | NoToken | TokenDenial:
        """See ``Store.take_and_hold``. These are steps of their own: the token is gone where there is no hold."""
        self._require_known()
        workspace = request.workspace
        if limit_rpm and (wait_us := await self.rates.take_token(workspace, limit_rpm)):
            return NoToken(wait_us)
        if request.tokens is None:
            return await self.money.hold(request)
        return await self._take_tokens_and_hold(request, request.tokens)

    async def _take_tokens_and_hold(
        self, request: HoldRequest, asked: TokenRequest
    ) -> Hold | Denial | TokenDenial:
        taken = await self.rates.take_tokens(asked, request.workspace)
        if isinstance(taken, TokenDenial):
            return taken
        decided = None
        try:
            decided = await self.money.hold(request)
        finally:
            if not isinstance(decided, Hold):
                await self.rates.settle_tokens(taken, None, request.workspace)
        if isinstance(decided, Hold):
            self._taken[request.id] = request.workspace, taken
        return decided

    def settle(self, settlement: Settlement) -> Coroutine[Any, Any, None]:
        """See ``Money.settle``. The tokens a minute are settled at the same time."""
        settling = self.money.settle(settlement)
        if not self._taken or (taken := self._taken.pop(settlement.row["id"], None)) is None:
            return settling
        return self._with_tokens(settling, *taken, count_used_tokens(settlement.row))

    def void(self, call_id: str) -> Coroutine[Any, Any, None]:
        """See ``Money.void``. The tokens a minute are given back at the same time."""
        voiding = self.money.void(call_id)
        if not self._taken or (taken := self._taken.pop(call_id, None)) is None:
            return voiding
        return self._with_tokens(voiding, *taken, None)

    async def _with_tokens(
        self, ending: Coroutine[Any, Any, None], workspace: str, taken: TokensTaken, used_tokens: int | None
    ) -> None:
        await asyncio.gather(ending, self.rates.settle_tokens(taken, used_tokens, workspace))

    async def maintain(self) -> None:
        """See ``Store.maintain``. What fails in one does not keep the other from its work."""
        try:
            await self.money.maintain()
        finally:
            await self.rates.maintain()

    async def check(self) -> None:
        await self.money.check()
        await self.rates.check()
        self._is_known = True

    async def close(self) -> None:
        try:
            await self.money.close()
        finally:
            await self.rates.close()
