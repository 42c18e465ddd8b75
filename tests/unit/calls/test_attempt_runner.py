"""The run of one attempt, in simulated time: what ends it, and what is known of the attempt then.

Client, provider and network are simulated. The wire, the pool, the store and the runner are the gateway's own.
"""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from rig.attempt_runs import (
    FIRST_BYTE_TIMEOUT_S,
    IDLE_TIMEOUT_S,
    KEY,
    PROVIDER_PORT,
    STREAMED,
    WHOLE,
    WHOLE_TIMEOUT_S,
    CallMaker,
    MakeCalls,
    write_settings,
)
from rig.call_stages import call_at, make_dependencies
from rig.ledger import read_rows
from rig.simulation import Faults, World, simulate
from rig.simulation.clients import ClientBehaviour
from rig.simulation.provider import LATE_END_S, Provider

from addon.calls.attempt_runner import AttemptRunner
from addon.calls.dependencies import Dependencies
from addon.settings.settings import Settings
from addon.text.errors import NO_CONNECTION_FREE
from addon.upstream.origin import Origin
from addon.upstream.pool import PoolLimits
from addon.wire.stream import Stream
from policies.call_stages import Stage

PLACES_USED_S = 30.0
FAILURES = {
    ("401", WHOLE): (401, "invalid_api_key", "refused with 401"),
    ("429", WHOLE): (429, "rate_limit_exceeded", "refused with 429"),
    ("500", STREAMED): (500, "upstream_error", "refused with 500"),
    ("reset before the head", WHOLE): (502, "upstream_error", "could not be reached"),
    ("reset in the body", WHOLE): (502, "upstream_error", "it broke off"),
    ("closes in the body", WHOLE): (502, "upstream_error", "it broke off"),
    ("closes in the body", STREAMED): (502, "upstream_error", "stream ended before the answer was complete"),
    ("garbage", STREAMED): (502, "upstream_error", "not well-formed HTTP"),
    ("silent", WHOLE): (504, "upstream_error", "did not answer in time"),
    ("silent", STREAMED): (504, "upstream_error", "did not answer in time"),
    ("silent in the body", WHOLE): (504, "upstream_error", "did not answer in time"),
    ("silent in the body", STREAMED): (504, "upstream_error", "did not answer in time"),
}
"""How an attempt fails, by what the provider does and how the client calls."""


@pytest.mark.parametrize(
    ("fate", "behaviour", "error"),
    [(*case, error) for case, error in FAILURES.items()],
    ids=[f"{fate}, {'streamed' if behaviour.stream else 'whole'}" for fate, behaviour in FAILURES],
)
def test_an_attempt_fails_as_its_provider_does_and_leaves_the_call_open(
    make: MakeCalls, fate: str, behaviour: ClientBehaviour, error: tuple[int, str, str]
) -> None:
    outcome = make(fate, behaviour)
    [run] = outcome.result.runs
    status, code, words = error
    assert run.failure
    assert (run.failure.status, run.failure.code) == (status, code)
    assert words in run.failure.message
    assert (run.stage, run.attempt.lagged, run.attempt.is_sent) == (Stage.DISPATCHED, False, True)
    assert run.attempt.status == (int(fate) if fate.isdigit() else 200 if "body" in fate else None)
    assert run.call.is_head_sent == (behaviour.stream and "in the body" in fate)
    assert [answer.error_code for answer in outcome.result.answers] == [code]
    # The connection is kept only where the message of the error had ended.
    assert outcome.result.pool.idle == outcome.result.pool.open == fate.isdigit()
    assert (outcome.errors, outcome.left) == ([], [])


@pytest.mark.parametrize(
    ("fate", "behaviour", "bound_s"),
    [
        ("silent", STREAMED, FIRST_BYTE_TIMEOUT_S),
        ("silent", WHOLE, WHOLE_TIMEOUT_S),
        ("silent in the body", WHOLE, WHOLE_TIMEOUT_S),
    ],
    ids=["streamed", "whole", "whole, in the body"],
)
def test_a_silent_provider_has_its_time_and_no_more(
    make: MakeCalls, fate: str, behaviour: ClientBehaviour, bound_s: float
) -> None:
    [run] = make(fate, behaviour).result.runs
    assert run.took_s == pytest.approx(bound_s, abs=0.01)


def test_the_first_of_two_attempts_at_a_whole_answer_has_half_of_the_time(tmp_path: Path) -> None:
    settings = write_settings(tmp_path / "two", fallback_model="other")
    [run] = CallMaker(settings, tmp_path / "tollgate.db").make("silent", WHOLE).result.runs
    assert run.took_s == pytest.approx(WHOLE_TIMEOUT_S / 2, abs=0.01)


async def stop_again_and_again(world: World, _: Dependencies) -> None:
    """Stop this process at any time from now on, each time for longer than the provider has."""

    def stop() -> None:
        world.loop.advance(2.0 * FIRST_BYTE_TIMEOUT_S)
        world.loop.call_later(0.2, stop)

    world.loop.call_later(0.2, stop)


def test_a_silence_that_a_stopped_process_may_have_missed_is_not_the_providers(make: MakeCalls) -> None:
    [run] = make("silent", STREAMED, prepare=stop_again_and_again).result.runs
    assert run.failure
    assert (run.failure.status, run.attempt.lagged) == (504, True)


def test_a_stream_that_falls_silent_has_the_time_for_one_piece(make: MakeCalls) -> None:
    [run] = make("silent in the body", STREAMED).result.runs
    assert IDLE_TIMEOUT_S < run.took_s < FIRST_BYTE_TIMEOUT_S


def test_a_provider_that_accepts_no_connection_is_sent_nothing(make: MakeCalls) -> None:
    [run] = make("good", WHOLE, link=Faults(refused=1.0)).result.runs
    assert run.failure
    assert (run.failure.status, run.attempt.is_sent, run.attempt.status) == (502, False, None)


async def close_the_pool(_: World, deps: Dependencies) -> None:
    await deps.pool.close()


def test_a_process_that_connects_no_more_is_not_the_providers_failure(make: MakeCalls) -> None:
    [run] = make("good", WHOLE, prepare=close_the_pool).result.runs
    assert run.failure
    assert (run.failure.status, run.attempt.is_sent, run.attempt.lagged) == (502, False, True)


async def use_all_places(world: World, deps: Dependencies) -> None:
    """Let the customer's calls use all connections that they may, for a while."""
    origin = Origin("http", "127.0.0.1", PROVIDER_PORT)
    held = [await deps.pool.acquire(origin, "acme", 1) for _ in range(PoolLimits().open_per_workspace)]

    def give_back() -> None:
        for connection in held:
            connection.close()

    world.loop.call_later(PLACES_USED_S, give_back)


def test_a_call_for_which_no_connection_is_free_is_not_the_providers_failure(make: MakeCalls) -> None:
    [run] = make("good", WHOLE, prepare=use_all_places, pause_s=PLACES_USED_S).result.runs
    assert run.failure is NO_CONNECTION_FREE
    assert (run.attempt.is_sent, run.attempt.lagged) == (False, True)


@pytest.mark.parametrize("behaviour", [WHOLE, STREAMED], ids=["whole", "streamed"])
@pytest.mark.parametrize("fate", ["good", "slow", "closes after", "no usage", "breaks off when finished"])
def test_an_attempt_that_answers_also_settles_its_call(
    make: MakeCalls, tmp_path: Path, fate: str, behaviour: ClientBehaviour
) -> None:
    outcome = make(fate, behaviour)
    [run], [answer] = outcome.result.runs, outcome.result.answers
    assert (run.failure, run.attempt.failure, run.attempt.status) == (None, None, 200)
    assert (run.stage, run.call.first_failure) == (Stage.SETTLED, None)
    assert (answer.ending, answer.status, answer.error_code) == ("whole", 200, None)
    [row] = read_rows(tmp_path / "tollgate.db")
    assert (row["id"], row["status"], row["attempts"]) == (answer.request_id, 200, 1)
    assert (outcome.errors, outcome.left) == ([], [])


def test_the_body_of_a_request_is_forgotten_once_its_answer_begins(make: MakeCalls) -> None:
    [run] = make("good", WHOLE).result.runs
    assert run.attempt.request.content == b""


def test_calls_after_one_another_share_a_connection(make: MakeCalls) -> None:
    ran = make("good", WHOLE, STREAMED, WHOLE).result
    assert [run.failure for run in ran.runs] == [None, None, None]
    assert (ran.connections, ran.pool.reused) == (1, 2)


def test_a_message_that_ends_after_its_stream_delays_nobody_and_keeps_its_connection(make: MakeCalls) -> None:
    ran = make("ends late", STREAMED, STREAMED, pause_s=2 * LATE_END_S).result
    assert [run.failure for run in ran.runs] == [None, None]
    assert (ran.connections, ran.pool.reused) == (1, 1)


def test_a_reused_connection_that_the_provider_has_closed_is_replaced_within_the_attempt(
    make: MakeCalls, tmp_path: Path
) -> None:
    # The provider closes after each answer. With this latency, the next request is on its way by then.
    outcome = make("closes after", WHOLE, WHOLE, WHOLE, link=Faults(latency_s=(0.2, 0.2)))
    ran = outcome.result
    assert [run.failure for run in ran.runs] == [None, None, None]
    assert (ran.connections, ran.pool.reused) == (3, 1)
    assert [row["attempts"] for row in read_rows(tmp_path / "tollgate.db")] == [1, 1, 1]
    assert (outcome.errors, outcome.left) == ([], [])


# A client that leaves.


def leaving(behaviour: ClientBehaviour, leaves_by: str) -> ClientBehaviour:
    """Return ``behaviour`` of a client that leaves before the provider's head comes."""
    return replace(behaviour, leaves_after_s=0.3, leaves_by=leaves_by)


@pytest.mark.parametrize("behaviour", [WHOLE, STREAMED], ids=["whole", "streamed"])
def test_nothing_is_sent_for_a_client_that_has_left(make: MakeCalls, behaviour: ClientBehaviour) -> None:
    """Also where an idle connection is ready for it."""
    ran = make("good", behaviour, leaving(behaviour, "abort"), waits_s=1.0, pause_s=2.0).result
    assert [one.call for one in ran.asked] == ["call-0"]
    assert [run.has_left for run in ran.runs] == [False, True]


@pytest.mark.parametrize("leaves_by", ["abort", "close"])
def test_a_whole_answer_is_read_for_its_usage_after_its_client_left(
    make: MakeCalls, tmp_path: Path, leaves_by: str
) -> None:
    [run] = make("good", leaving(WHOLE, leaves_by)).result.runs
    assert (run.has_left, run.stage, run.attempt.status) == (True, Stage.DISPATCHED, 200)
    assert run.attempt.reader
    assert run.attempt.reader.usage
    [row] = read_rows(tmp_path / "tollgate.db")
    assert (row["status"], row["usage_source"]) == (499, "provider")
    assert row["completion_tokens"] == run.attempt.reader.usage.completion_tokens


@pytest.mark.parametrize("leaves_by", ["abort", "close"])
def test_a_stream_that_has_not_finished_is_not_read_without_its_client(
    make: MakeCalls, tmp_path: Path, leaves_by: str
) -> None:
    outcome = make("good", leaving(STREAMED, leaves_by))
    [run] = outcome.result.runs
    assert (run.has_left, run.attempt.status) == (True, None)
    assert run.took_s < 0.5
    assert [row["usage_source"] for row in read_rows(tmp_path / "tollgate.db")] == ["estimated"]
    assert outcome.left == []


# An attempt that may not run.


def test_an_attempt_that_was_not_dispatched_opens_no_connection(
    attempt_settings: Settings, tmp_path: Path
) -> None:
    async def main(world: World) -> tuple[int, int]:
        tester = Provider(world)
        await tester.start()
        deps = make_dependencies(attempt_settings, tmp_path / "tollgate.db", world.clock)
        unused = cast(Stream, None)
        ended, other = [await call_at(Stage.DISPATCHED, deps, KEY) for _ in range(2)]
        attempt = ended.attempt
        with pytest.raises(RuntimeError, match="not approved"):
            await AttemptRunner(other, attempt, unused, deps).run()
        for call in (ended, other):
            await deps.in_flight.settle(call, 500, "internal_error")
        with pytest.raises(RuntimeError, match="not approved"):
            await AttemptRunner(ended, attempt, unused, deps).run()
        await deps.in_flight.close()
        await deps.pool.close()
        await deps.store.close()
        await tester.stop()
        return tester.connections, deps.pool.stats().opened

    assert simulate(1, main).result == (0, 0)
