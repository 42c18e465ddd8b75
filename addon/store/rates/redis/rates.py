"""The rates of a fleet in Redis: tokens of requests, buckets a minute, and circuits. All of it may be lost.

If Redis forgets everything, each workspace has one more minute's RPM and TPM, circuits are closed, and the next check
names the ledger and the fleet again. Every key expires by itself.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from pydantic import SecretStr

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.store.protocol import StoreUnavailable
from addon.store.rates.circuits import Circuits, SharedCircuitsMixin
from addon.store.rates.redis.circuits import RedisCircuits
from addon.store.rates.redis.client import ScriptClient
from addon.store.rates.redis.keys import IDENTITY, takes_of
from addon.store.rates.redis.scripts import (
    CLAIM,
    SETTLE_TOKENS,
    TAKE_TOKEN,
    TAKE_TOKENS,
    bucket_arguments,
    bucket_keys,
    read_taken,
    settling_arguments,
    taking_arguments,
)
from policies.token_limits import TokenDenial, TokenRequest, TokensTaken, find_excess, share_limit

IDENTITY_S = 120
"""How long the identity is kept after the last check of any gateway. Rates that are older limit nothing any more."""


class OtherLedger(StoreUnavailable):
    """These are the rates of another ledger or fleet. A gateway does not start with them."""


class RedisRates(SharedCircuitsMixin):
    """The ``Rates`` at ``url``, of the ledger whose id ``find_ledger_id`` returns, and of ``fleet``.

    Raise ``StoreUnavailable`` for a wrong URL. The first call connects to Redis.
    """

    def __init__(
        self, url: SecretStr, find_ledger_id: Callable[[], str], fleet: str, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._client = ScriptClient(url)
        self._find_ledger_id = find_ledger_id
        self._fleet = fleet
        self.empty_buckets: set[str] = set()
        self._circuits = Circuits(RedisCircuits(self._client), clock)

    async def maintain(self) -> None:
        """See ``Rates.maintain``. It also keeps what names these rates, and finds a primary that was replaced."""
        await self.check()
        await self._circuits.refresh()

    async def check(self) -> None:
        """See ``Rates.check``. Raise ``OtherLedger`` for the rates of another ledger or fleet."""
        self._client.look_around()
        ledger_id = self._find_ledger_id()
        found = await self._client.run(CLAIM, [IDENTITY], ledger_id, self._fleet, IDENTITY_S)
        if found != "ours":
            raise OtherLedger(f"{self._client.place} has the rates of {self._describe(found, ledger_id)}")

    def _describe(self, found: Sequence[str], ledger_id: str) -> str:
        other_ledger, other_fleet = found
        if other_ledger == ledger_id:
            return f'the fleet "{other_fleet}", and [state] fleet is "{self._fleet}" here'
        return (
            f'another ledger, of the fleet "{other_fleet}"; gateways on several machines need one ledger: give each the'
            f" same [ledger] url. These rates end {IDENTITY_S // 60} minutes after the last of its gateways"
        )

    async def take_token(self, workspace: str, limit_rpm: int) -> int:
        """See ``Rates.take_token``. A token may be lost when Redis does not answer."""
        outcome, *wait_us = await self._client.run(
            TAKE_TOKEN, (takes_of(workspace),), *bucket_arguments(limit_rpm)
        )
        if outcome == "taken":
            self.empty_buckets.discard(workspace)
            return 0
        self.empty_buckets.add(workspace)
        return int(*wait_us)

    async def take_tokens(self, asked: TokenRequest, workspace: str) -> TokensTaken | TokenDenial:
        """See ``SeparateRates.take_tokens``. Tokens may be lost when Redis does not answer."""
        if denied := find_excess(asked):
            return denied
        keys = bucket_keys(workspace, asked.limits)
        outcome, *numbers = await self._client.run(TAKE_TOKENS, keys, *taking_arguments(asked))
        if outcome == "none":
            place, is_shared, wait_ms = numbers
            limit = asked.limits[place - 1]
            return TokenDenial(share_limit(limit) if is_shared else limit, asked.tokens, wait_ms)
        return read_taken(asked, numbers)

    async def settle_tokens(self, taken: TokensTaken, used_tokens: int | None, workspace: str) -> None:
        """See ``SeparateRates.settle_tokens``."""
        keys = bucket_keys(workspace, taken.limits)
        with suppress(StoreUnavailable):
            await self._client.run(SETTLE_TOKENS, keys, *settling_arguments(taken, used_tokens))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()
