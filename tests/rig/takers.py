"""Several gateways that take tokens all the time, while a test breaks and mends the Redis behind them."""

import asyncio
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle

from pydantic import SecretStr

from addon.store.protocol import StoreUnavailable
from addon.store.rates.redis.rates import RedisRates
from rig.bounds import BOUND_S

LEDGER, FLEET = "ledger-of-the-test", "fleet-of-the-test"
GATEWAYS, AT_ONCE = 3, 8


@dataclass(slots=True)
class Takers:
    """What happened to all takes: when each token was taken, by workspace, and when each error came."""

    limit_rpm: int
    taken: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    answers: int = 0
    errors: list[tuple[float, str]] = field(default_factory=list)
    longest_s: float = 0.0
    _until: int = 0
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, rates: RedisRates, workspace: str) -> None:
        began_s = time.monotonic()
        try:
            if not await rates.take_token(workspace, self.limit_rpm):
                self.taken[workspace].append(time.monotonic())
            self.answers += 1
            if self.answers == self._until:
                self._came.set()
        except StoreUnavailable as error:
            self.errors.append((time.monotonic(), str(error)))
        self.longest_s = max(self.longest_s, time.monotonic() - began_s)

    def most_in_a_minute(self) -> int:
        """Return the most tokens that one workspace got in any minute."""
        return max(
            bisect_left(moments, began_s + 60) - at
            for moments in map(sorted, self.taken.values())
            for at, began_s in enumerate(moments)
        )

    def errors_after(self, moment_s: float) -> list[str]:
        return [text for at, text in self.errors if at > moment_s]

    async def more_answers(self, number: int = 200) -> None:
        """Wait for that many answers from now on."""
        self._until, self._came = self.answers + number, asyncio.Event()
        async with asyncio.timeout(BOUND_S):
            await self._came.wait()


@asynccontextmanager
async def taking(url: str, workspaces: Sequence[str], limit_rpm: int) -> AsyncIterator[Takers]:
    """Take tokens of ``workspaces`` in turn, until the block ends."""
    takers = Takers(limit_rpm)
    gateways = [RedisRates(SecretStr(url), lambda: LEDGER, FLEET) for _ in range(GATEWAYS)]
    names = cycle(workspaces)

    async def take_on(rates: RedisRates) -> None:
        while True:
            await takers.take(rates, next(names))
            await asyncio.sleep(0.005)

    async def check_on(rates: RedisRates) -> None:
        while True:
            with suppress(StoreUnavailable):
                await rates.check()
            await asyncio.sleep(1)

    for rates in gateways:
        await rates.check()
    tasks = [asyncio.create_task(take_on(rates)) for rates in gateways for _ in range(AT_ONCE)]
    tasks += [asyncio.create_task(check_on(rates)) for rates in gateways]
    try:
        yield takers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for rates in gateways:
            await rates.close()
