"""The calls in flight: how many there are, and how they end with their process."""

import asyncio
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.call_stages import ANSWER, call_at, make_dependencies
from rig.in_flight_calls import (  # noqa: F401  (fixtures)
    COST_NANOUSD,
    KEY,
    MAX_IN_FLIGHT,
    OTHER_KEY,
    ledger_file,
    load_acme_and_other,
    process_of_test,
    running_process,
    two_workspaces,
)
from rig.simulation import World, simulate

from addon.calls.call_state import NO_CHAT
from addon.calls.dependencies import Dependencies
from addon.calls.in_flight import CLOSING_TIMEOUT_S
from addon.settings.settings import Settings
from policies.call_stages import Stage
from policies.refusal import Refusal

# How many there are.


async def test_a_workspace_has_a_bound_of_its_own(deps: Dependencies) -> None:
    calls = [await call_at(Stage.ADMITTED, deps, KEY) for _ in range(MAX_IN_FLIGHT)]
    with pytest.raises(Refusal, match="3 calls in flight") as refused:
        await call_at(Stage.ADMITTED, deps, KEY)
    assert (refused.value.code, refused.value.retry_after_s) == ("rate_limit_exceeded", 1)
    other = await call_at(Stage.ADMITTED, deps, OTHER_KEY)
    deps.in_flight.refuse(calls[0], 400, "bad_request")
    calls[0] = await call_at(Stage.ADMITTED, deps, KEY)
    for call in (*calls, other):
        assert not deps.in_flight.idle.is_set()
        deps.in_flight.refuse(call, 400, "bad_request")
    assert deps.in_flight.idle.is_set()


async def test_a_call_that_ends_gives_its_body_back(deps: Dependencies) -> None:
    call = await call_at(Stage.ROUTED, deps, KEY)
    assert deps.bodies.bytes == call.counted_bytes > 0
    deps.in_flight.refuse(call, 400, "bad_request")
    assert (deps.bodies.bytes, call.counted_bytes, call.chat) == (0, 0, NO_CHAT)


# The end of the process.


async def test_close_waits_for_spawned_work(deps: Dependencies) -> None:
    may_end, done = asyncio.Event(), []

    async def work() -> None:
        await may_end.wait()
        done.append("done")

    deps.in_flight.spawn(work())
    closing = asyncio.create_task(deps.in_flight.close())
    await asyncio.sleep(0)
    assert not closing.done()
    may_end.set()
    await asyncio.wait_for(closing, BOUND_S)
    assert done == ["done"]


async def test_spawned_work_outlives_the_task_that_began_it(deps: Dependencies) -> None:
    may_end, done = asyncio.Event(), []

    async def work() -> None:
        await may_end.wait()
        done.append("done")

    async def caller() -> None:
        await asyncio.wait({deps.in_flight.spawn(work())})

    calling = asyncio.create_task(caller())
    await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait({calling})
    may_end.set()
    await asyncio.wait_for(deps.in_flight.close(), BOUND_S)
    assert done == ["done"]


def test_close_waits_for_the_last_calls_within_a_bound(settings: Settings, tmp_path: Path) -> None:
    async def main(world: World) -> tuple[float, float, float]:
        deps = make_dependencies(settings, tmp_path / "tollgate.db", world.clock)
        began_s = world.loop.time()
        await deps.in_flight.close()
        idle_s = world.loop.time() - began_s
        ending = await call_at(Stage.ADMITTED, deps, KEY)
        world.loop.call_later(CLOSING_TIMEOUT_S / 2, deps.in_flight.refuse, ending, 400, "bad_request")
        began_s = world.loop.time()
        await deps.in_flight.close()
        waited_s = world.loop.time() - began_s
        await call_at(Stage.ADMITTED, deps, KEY)
        began_s = world.loop.time()
        await deps.in_flight.close()
        gave_up_s = world.loop.time() - began_s
        await deps.pool.close()
        await deps.store.close()
        return idle_s, waited_s, gave_up_s

    ran = simulate(1, main)
    assert ran.result == (0, pytest.approx(CLOSING_TIMEOUT_S / 2), pytest.approx(CLOSING_TIMEOUT_S))
    assert [error.splitlines()[0] for error in ran.errors] == [
        "tollgate.in_flight: 1 calls did not end; their holds end with this process"
    ]


def test_the_answer_of_these_tests_costs_what_they_say() -> None:
    usage = ANSWER["usage"]
    assert usage["prompt_tokens"] * 1_000 + usage["completion_tokens"] * 2_000 == COST_NANOUSD
