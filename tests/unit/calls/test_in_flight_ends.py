"""The calls in flight: how each ends, exactly once, with its row, its hold and its provider's state."""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.call_stages import ANSWER, USAGE, call_at, give_answer
from rig.in_flight_calls import (  # noqa: F401  (fixtures)
    COST_NANOUSD,
    KEY,
    ledger_file,
    load_acme_and_other,
    process_of_test,
    running_process,
    two_workspaces,
)
from rig.ledger import read_rows, second_connection
from rig.metrics import read

from addon.calls.call_state import NO_CHAT, Call
from addon.calls.dependencies import Dependencies
from addon.text.errors import INTERNAL_ERROR, ErrorAnswer, provider_unreachable
from policies.call_stages import Stage
from policies.circuit_breaker import FAILURES, circuit_of


def holds(database: Path) -> list[str]:
    """Return the ids of the calls that hold money."""
    with closing(sqlite3.connect(database)) as connection:
        return [call_id for (call_id,) in connection.execute("SELECT id FROM holds")]


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the events of the lines that calls have logged."""
    return [record.message for record in caplog.records if record.name == "tollgate.call"]


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Keep others from writing to ``database`` in the block."""
    connection = sqlite3.connect(database, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        connection.close()


@pytest.fixture(autouse=True)
def _log_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tollgate")


# How each ends.


async def test_a_settled_call_has_its_cost_in_one_row_and_no_hold(
    deps: Dependencies, database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    call = await call_at(Stage.DISPATCHED, deps, KEY)
    assert holds(database) == [call.exchange.id]
    give_answer(call, deps)
    await deps.in_flight.settle(call, 200)
    [row] = read_rows(database)
    assert (row["id"], row["status"], row["error_code"]) == (call.exchange.id, 200, None)
    assert (row["wholesale_nanousd"], row["usage_source"]) == (COST_NANOUSD, "provider")
    assert holds(database) == []
    assert call.exchange.stage is Stage.SETTLED
    await asyncio.wait_for(deps.in_flight.idle.wait(), BOUND_S)
    assert events(caplog) == ["call"]


type End = Callable[[Dependencies, Call], Awaitable[None]]


async def settle(deps: Dependencies, call: Call) -> None:
    await deps.in_flight.settle(call, 502, "upstream_error")


async def settle_in_background(deps: Dependencies, call: Call) -> None:
    deps.in_flight.settle_in_background(call, 502, "upstream_error")


async def refuse(deps: Dependencies, call: Call) -> None:
    deps.in_flight.refuse(call, 500, "internal_error")


async def abandon(deps: Dependencies, call: Call) -> None:
    await deps.in_flight.abandon(call)


@pytest.mark.parametrize("again", [settle, settle_in_background, refuse, abandon])
async def test_a_settled_call_can_not_end_again(
    deps: Dependencies, database: Path, caplog: pytest.LogCaptureFixture, again: End
) -> None:
    call = await call_at(Stage.DISPATCHED, deps, KEY)
    give_answer(call, deps)
    await deps.in_flight.settle(call, 200)
    settled, rows = call.exchange, read_rows(database)
    await again(deps, call)
    await asyncio.wait_for(deps.in_flight.close(), BOUND_S)
    assert call.exchange is settled
    assert read_rows(database) == rows
    assert events(caplog) == ["call"]


async def test_two_settlements_at_once_write_one_row(deps: Dependencies, database: Path) -> None:
    call = await call_at(Stage.DISPATCHED, deps, KEY)
    give_answer(call, deps)
    await asyncio.gather(settle(deps, call), deps.in_flight.settle(call, 200), abandon(deps, call))
    [row] = read_rows(database)
    assert row["status"] == 502


UNSENT = [Stage.RECEIVED, Stage.ADMITTED, Stage.ROUTED, Stage.HELD]


@pytest.mark.parametrize("stage", UNSENT)
@pytest.mark.parametrize(("end", "ended"), [(refuse, Stage.REFUSED), (abandon, Stage.ABANDONED)])
async def test_a_call_that_was_not_sent_ends_without_a_row_or_a_hold(
    deps: Dependencies,
    database: Path,
    caplog: pytest.LogCaptureFixture,
    stage: Stage,
    end: End,
    ended: Stage,
) -> None:
    call = await call_at(stage, deps, KEY)
    assert len(holds(database)) == (stage is Stage.HELD)
    for _ in range(2):
        await end(deps, call)
        assert call.exchange.stage is ended
    await settle(deps, call)
    await asyncio.wait_for(deps.in_flight.close(), BOUND_S)
    assert call.exchange.stage is ended
    assert (read_rows(database), holds(database)) == ([], [])
    assert events(caplog) == ["refusal"]


async def test_a_refused_call_is_counted_once_by_code_and_api(deps: Dependencies, database: Path) -> None:
    call = await call_at(Stage.ROUTED, deps, KEY)
    call.exchange = call.exchange.with_api("messages")
    for _ in range(2):
        await refuse(deps, call)
    await asyncio.wait_for(deps.in_flight.close(), BOUND_S)
    samples = read(deps.in_flight.metrics.render())["tollgate_refusals_total"]
    assert [(dict(labels)["code"], count) for labels, count in samples.items() if count] == [
        ("internal_error", 1)
    ]
    await deps.store.maintain()
    with second_connection(database) as ledger:
        counted = ledger.execute("SELECT workspace, code, count, messages FROM refusals").fetchall()
    assert [tuple(one) for one in counted] == [("acme", "internal_error", 1, 1)]


async def test_a_refusal_does_not_end_a_call_that_was_sent(deps: Dependencies, database: Path) -> None:
    call = await call_at(Stage.DISPATCHED, deps, KEY)
    await refuse(deps, call)
    assert call.exchange.stage is Stage.DISPATCHED
    assert holds(database) == [call.exchange.id]
    await settle(deps, call)


@pytest.mark.parametrize(
    ("is_drain_over", "code"), [(False, "client_disconnected"), (True, "interrupted")], ids=["left", "cut"]
)
@pytest.mark.parametrize("stage", [Stage.HELD, Stage.DISPATCHED])
async def test_an_abandoned_call_says_whether_its_client_left_or_was_cut_off(
    deps: Dependencies, database: Path, is_drain_over: bool, code: str, stage: Stage
) -> None:
    call = await call_at(stage, deps, KEY)
    deps.in_flight.is_drain_over = is_drain_over
    await deps.in_flight.abandon(call)
    assert (call.exchange.status, call.exchange.error_code) == (499, code)
    assert [row["error_code"] for row in read_rows(database)] == ([code] if stage is Stage.DISPATCHED else [])


async def test_a_settlement_in_the_background_is_complete_when_all_are_closed(
    deps: Dependencies, database: Path
) -> None:
    call = await call_at(Stage.DISPATCHED, deps, KEY)
    deps.in_flight.settle_in_background(call, 500, "internal_error")
    await asyncio.wait_for(deps.in_flight.close(), BOUND_S)
    assert [row["status"] for row in read_rows(database)] == [500]


async def test_work_that_has_ended_is_not_counted_before_the_loop_forgets_it(deps: Dependencies) -> None:
    gate = asyncio.Event()
    task = deps.in_flight.spawn(gate.wait())
    gate.set()
    await asyncio.sleep(0)  # The task ends in this turn of the loop. Its callback comes in the next one.
    assert task.done()
    await deps.in_flight.close()
    assert deps.in_flight.tasks == 0


# Faults in a settlement.


async def test_a_call_whose_cost_can_not_be_found_out_costs_nothing_and_has_its_row(
    deps: Dependencies, database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    call = await call_at(Stage.DISPATCHED, deps, KEY)
    give_answer(call, deps, ANSWER | {"usage": USAGE | {"completion_tokens": 10**9}})
    call.chat = NO_CHAT  # Without the request, its bound for so large a count can't be computed.
    await deps.in_flight.settle(call, 200)
    [row] = read_rows(database)
    assert (row["status"], row["wholesale_nanousd"], row["usage_source"]) == (200, 0, "none")
    assert [record.levelname for record in caplog.records if record.name == "tollgate.in_flight"] == ["ERROR"]


async def test_last_bytes_do_not_wait_longer_for_a_row_that_can_not_be_written_now(
    deps: Dependencies, database: Path
) -> None:
    call = await call_at(Stage.DISPATCHED, deps, KEY)
    give_answer(call, deps)
    with locked(database):
        await asyncio.wait_for(deps.in_flight.settle(call, 200), BOUND_S)
        assert read_rows(database) == []
        await asyncio.wait_for(deps.in_flight.idle.wait(), BOUND_S)
    await deps.in_flight.close()
    await deps.store.check()
    assert [row["wholesale_nanousd"] for row in read_rows(database)] == [COST_NANOUSD]


async def test_a_row_that_breaks_a_rule_of_the_ledger_is_logged_and_its_hold_released(
    deps: Dependencies, database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    call = await call_at(Stage.DISPATCHED, deps, KEY)
    give_answer(call, deps)
    await deps.in_flight.settle(call, status=2**63)
    assert "a ledger row is invalid" in caplog.messages
    assert (read_rows(database), holds(database)) == ([], [])


# The end of an attempt.


def fail(deps: Dependencies, call: Call, failure: ErrorAnswer | None, *, lagged: bool = False) -> None:
    call.attempt.lagged = lagged
    deps.in_flight.note_attempt_end(call, call.attempt, failure)


@pytest.mark.parametrize(
    ("failure", "lagged", "is_open"),
    [
        (provider_unreachable(), False, True),
        (provider_unreachable(), True, False),
        (INTERNAL_ERROR, False, False),
        (None, False, False),
    ],
    ids=["the provider's", "of a late process", "of the gateway", "none"],
)
async def test_only_failures_of_the_provider_open_its_circuit(
    deps: Dependencies, failure: ErrorAnswer | None, lagged: bool, is_open: bool
) -> None:
    await deps.store.maintain()
    for _ in range(FAILURES):
        call = await call_at(Stage.DISPATCHED, deps, KEY)
        fail(deps, call, failure, lagged=lagged)
        await settle(deps, call)
        await asyncio.wait_for(deps.in_flight.close(), BOUND_S)
    workspace = call.exchange.workspace
    assert deps.store.is_circuit_open(circuit_of(call.exchange.target, workspace)) is is_open


async def test_a_rejected_platform_key_rests_and_the_failure_is_counted(deps: Dependencies) -> None:
    call = await call_at(Stage.DISPATCHED, deps, KEY)
    attempt = give_answer(call, deps, {"error": {"message": "no"}}, status=401)
    assert attempt.reader
    assert attempt.reader.failure
    fail(deps, call, attempt.reader.failure)
    assert attempt.failure is attempt.reader.failure
    assert deps.platform_keys.check() == "TESTER: key 1 of 1 rests 60 s after 401"
    samples = read(deps.in_flight.metrics.render())["tollgate_upstream_errors_total"]
    assert [dict(labels)["provider"] for labels, count in samples.items() if count] == ["TESTER"]
    await settle(deps, call)
