"""The real SQLite store on a simulated loop: its decisions follow the clock that it was opened with."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from rig.simulation import World, simulate

from addon.store.money.sqlite.store import SqliteStore
from addon.store.rates.circuits import FRESH_S
from policies.circuit_breaker import FAILURES

type Main[Result] = Callable[[World, SqliteStore], Awaitable[Result]]


@pytest.fixture
def run(ledger_path: Path) -> Callable[..., object]:
    """Run a coroutine with a store on the loop's clock, at seed 1."""

    def in_simulation(main: Main[object]) -> object:
        async def opened(world: World) -> object:
            store = SqliteStore(ledger_path, world.clock)
            try:
                return await main(world, store)
            finally:
                await store.close()

        ran = simulate(1, opened)
        assert (ran.errors, ran.left) == ([], [])
        return ran.result

    return in_simulation


def test_a_token_is_back_a_minute_after_it_was_taken(run: Callable[[Main[object]], object]):
    async def main(world: World, store: SqliteStore) -> list[int]:
        waits = [
            await store.take_token("acme", 2),
            await store.take_token("acme", 2),
            await store.take_token("acme", 2),
        ]
        await asyncio.sleep(59)
        waits.append(await store.take_token("acme", 2))
        await asyncio.sleep(1)
        return [*waits, await store.take_token("acme", 2)]

    assert run(main) == [0, 0, 60_000_000, 1_000_000, 0]


def test_an_open_circuit_is_ignored_when_it_was_not_read_for_long(
    run: Callable[[Main[object]], object],
):
    async def main(world: World, store: SqliteStore) -> list[bool]:
        await store.maintain()
        for _ in range(FAILURES):
            await store.record_attempt("TESTER/payg/acme", failed=True)
        was_open = [store.is_circuit_open("TESTER/payg/acme")]
        await asyncio.sleep(FRESH_S - 0.1)
        was_open.append(store.is_circuit_open("TESTER/payg/acme"))
        await asyncio.sleep(0.2)
        return [*was_open, store.is_circuit_open("TESTER/payg/acme")]

    assert run(main) == [True, True, False]
