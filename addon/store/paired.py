"""``PairedStore``: rates in one engine and money in another, such as Redis and PostgreSQL. Each step uses one of them.

A rate may be forgotten, money may not. So where both are in one SQLite file, a call takes its token and places its
hold in one step; here it takes the token first.
"""

from operator import attrgetter

from addon.store.protocol import HoldRequest, Money, NoToken, Rates, StoreAway
from policies.spend import Denial, Hold


class PairedStore:
    """A ``Store`` of ``rates`` and ``money``."""

    def __init__(self, rates: Rates, money: Money) -> None:
        self.rates, self.money = rates, money
        self.empty_buckets = rates.empty_buckets
        self.record_attempt = rates.record_attempt
        self.is_circuit_open = rates.is_circuit_open
        self.circuit_allows = rates.circuit_allows
        self.end_probe = rates.end_probe
        self.open_circuits = rates.open_circuits
        self.move_hold = money.move_hold
        self.settle = money.settle
        self.void = money.void
        self.credit = money.credit
        self.read_counters = money.read_counters
        self.count_refusal = money.count_refusal
        self._is_known = False
        """Whether the tables were made and the rates are those of this ledger."""

    known_circuits = property(attrgetter("rates.known_circuits"))
    probes = property(attrgetter("rates.probes"))
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

    async def take_and_hold(self, request: HoldRequest, limit_rpm: int) -> Hold | Denial | NoToken:
        """See ``Store.take_and_hold``. These are two steps: the token is gone where there is no hold."""
        self._require_known()
        wait_us = await self.rates.take_token(request.workspace, limit_rpm)
        return NoToken(wait_us) if wait_us else await self.money.hold(request)

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
