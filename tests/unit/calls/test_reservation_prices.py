"""Prices that depend on the time: an attempt is held and charged at those of the moment in which it begins."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.call_stages import call_at, give_answer, make_dependencies
from rig.configuration import Configuration, model, provider, workspace
from rig.ledger import read_rows

from addon.calls.dependencies import Dependencies
from addon.runtime.clock import SYSTEM_CLOCK
from addon.settings.settings import load_settings
from policies.call_stages import Stage

KEY = f"tg_{'a':0<40}"
CHANGE = datetime(2027, 1, 1, tzinfo=UTC)
BEFORE, AFTER = CHANGE - timedelta(microseconds=1), CHANGE
MODEL = model(
    input_price_per_m="1",
    output_price_per_m="2",
    dated=[{"from_date": date(2027, 1, 1), "input_price_per_m": "3", "output_price_per_m": "6"}],
)
OLD_NANOUSD, NEW_NANOUSD = 10 * 1_000 + 5 * 2_000, 10 * 3_000 + 5 * 6_000


class SetClock:
    """A clock whose time of day is set."""

    monotonic_s = staticmethod(SYSTEM_CLOCK.monotonic_s)

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment


@pytest.fixture
def clock() -> SetClock:
    return SetClock(BEFORE)


@pytest.fixture
async def deps(tmp_path: Path, clock: SetClock) -> AsyncIterator[Dependencies]:
    """The services of a process whose clock can be set."""
    written = Configuration(
        providers={"TESTER": provider("http://127.0.0.1:20000/v1")},
        models={"m": MODEL},
        workspaces={"acme": workspace(("ci", KEY, True), monthly_spend_cap_usd="1")},
    ).write(tmp_path)
    settings = load_settings(written, {"TEST_PROVIDER_KEY": "fake"})
    running = make_dependencies(settings, tmp_path / "tollgate.db", clock)
    yield running
    await asyncio.wait_for(running.in_flight.close(), BOUND_S)
    await running.pool.close()
    await running.store.close()


async def test_a_call_is_held_and_charged_at_the_prices_of_its_beginning(
    deps: Dependencies, clock: SetClock, tmp_path: Path
) -> None:
    first = await call_at(Stage.DISPATCHED, deps, KEY, max_tokens=1000)
    clock.moment = AFTER
    second = await call_at(Stage.DISPATCHED, deps, KEY, max_tokens=1000)
    assert first.exchange.hold and second.exchange.hold
    assert second.exchange.hold.amount_nanousd == 3 * first.exchange.hold.amount_nanousd
    for call in (second, first):
        give_answer(call, deps)
        await deps.in_flight.settle(call, 200)
    costs = {row["id"]: row["wholesale_nanousd"] for row in read_rows(tmp_path / "tollgate.db")}
    assert costs == {first.exchange.id: OLD_NANOUSD, second.exchange.id: NEW_NANOUSD}


async def test_attempts_share_one_target_as_long_as_its_prices_hold(
    deps: Dependencies, clock: SetClock
) -> None:
    routed = await call_at(Stage.ROUTED, deps, KEY)
    target = routed.exchange.next_target
    assert target.at(BEFORE) is target.at(BEFORE - timedelta(days=1))
    assert target.at(AFTER) is target.at(AFTER + timedelta(days=1))
    assert target.at(AFTER) is not target.at(BEFORE)
    assert target.at(AFTER).model.wholesale.input_microusd_per_mtok == 3_000_000
    await deps.in_flight.abandon(routed)
