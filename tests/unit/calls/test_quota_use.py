"""A place with a quota: it is passed over while it is full, and what its attempts take is given back on every path."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from rig.call_stages import call_at, give_answer, make_dependencies
from rig.configuration import Configuration, model, provider, workspace
from rig.conservation import assert_given_back

from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.reservation import reserve_first, reserve_next
from addon.calls.settlement import OK
from addon.settings.settings import load_settings
from addon.text.errors import INTERNAL_ERROR, provider_timed_out, provider_unreachable
from policies.call_stages import Stage
from policies.refusal import Refusal

KEY, POOR_KEY = f"tg_{'a':0<40}", f"tg_{'b':0<40}"

type MakeDeps = Callable[..., Dependencies]


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[MakeDeps]:
    """Makes the services of a process: the model "m" is at A with a quota, and at B."""
    every: list[Dependencies] = []

    def make(second: dict[str, Any] | None = None, **quota: int) -> Dependencies:
        at_b = {"provider": "B", "upstream_model_id": "b"} | (second or {})
        written = Configuration(
            providers={name: provider("http://127.0.0.1:20000/v1") for name in "AB"},
            models={
                "m": model(provider="A", upstream_model_id="a", order="first", deployments=[at_b], **quota),
                "plain": model(provider="B", upstream_model_id="plain"),
            },
            workspaces={
                "acme": workspace(("ci", KEY, True)),
                "poor": workspace(("ci", POOR_KEY, True), plan="standard"),
            },
        ).write(tmp_path)
        every.append(
            make_dependencies(load_settings(written, {"TEST_PROVIDER_KEY": "fake"}), tmp_path / "t.db")
        )
        return every[-1]

    yield make
    for deps in every:
        await deps.in_flight.close()
        assert_given_back(deps)
        await deps.pool.close()
        await deps.store.close()


async def dispatched(deps: Dependencies, **fields: Any) -> tuple[Call, str]:
    call = await call_at(Stage.DISPATCHED, deps, KEY, **fields)
    return call, call.attempt.target.model.provider.name


async def answered(deps: Dependencies, call: Call) -> None:
    attempt = give_answer(call, deps)
    deps.in_flight.note_attempt_end(call, attempt)
    await deps.in_flight.settle(call, OK)
    await deps.in_flight.idle.wait()


async def test_a_full_place_is_passed_over_until_an_attempt_ends(made: MakeDeps) -> None:
    deps = made(max_in_flight=1)
    first, place = await dispatched(deps)
    assert place == "A"
    second, place = await dispatched(deps)
    assert place == "B"
    await deps.in_flight.abandon(second)
    await answered(deps, first)
    third, place = await dispatched(deps)
    assert place == "A"
    await deps.in_flight.abandon(third)


async def test_where_all_are_full_the_first_serves(made: MakeDeps) -> None:
    deps = made({"max_in_flight": 1}, max_in_flight=1)
    calls = [await dispatched(deps) for _ in range(4)]
    assert [place for _, place in calls] == ["A", "B", "A", "A"]
    assert deps.platform_keys.quotas.in_flight == 4
    for call, _ in calls:
        await deps.in_flight.abandon(call)


async def test_only_what_was_sent_counts_as_a_request(made: MakeDeps) -> None:
    deps = made(rpm=1)
    unsent, _ = await dispatched(deps)
    await deps.in_flight.abandon(unsent)
    await deps.in_flight.idle.wait()
    sent, place = await dispatched(deps)
    assert place == "A"
    await answered(deps, sent)
    third, place = await dispatched(deps)
    assert place == "B"
    await deps.in_flight.abandon(third)


async def test_tokens_are_those_of_the_estimate_and_then_those_that_were_used(made: MakeDeps) -> None:
    deps = made(tpm=1_000)
    first, place = await dispatched(deps, max_tokens=3_000)
    assert place == "A"
    second, place = await dispatched(deps, max_tokens=3_000)
    assert place == "B"
    await deps.in_flight.abandon(second)
    await answered(deps, first)
    third, place = await dispatched(deps, max_tokens=3_000)
    assert (place, third.quota_tokens > 750) == ("A", True)
    await deps.in_flight.abandon(third)


@pytest.mark.parametrize(
    ("failure", "status", "leaves"),
    [(provider_timed_out(), None, "B"), (provider_unreachable(), 503, "A")],
    ids=["nobody knows", "refused"],
)
async def test_a_failed_attempt_ends_its_use_before_another_place_is_tried(
    made: MakeDeps, failure: Any, status: int | None, leaves: str
) -> None:
    deps = made(tpm=800)
    call, _ = await dispatched(deps, max_tokens=3_000)
    call.attempt.is_sent, call.attempt.status = True, status
    deps.in_flight.note_attempt_end(call, call.attempt, failure)
    assert deps.platform_keys.quotas.in_flight == 0
    attempt = await reserve_next(call, deps, failure)
    assert attempt
    assert attempt.target.model.provider.name == "B"
    assert call.quota_use is None
    # What the vendor refused used no tokens; what nobody knows of counts as it was estimated.
    other, place = await dispatched(deps, max_tokens=3_000)
    assert place == leaves
    await deps.in_flight.abandon(other)
    await deps.in_flight.abandon(call)


async def test_a_call_that_a_limit_refuses_gives_its_place_back(made: MakeDeps) -> None:
    deps = made(max_in_flight=1, rpm=1, tpm=10_000)
    call = await call_at(Stage.ROUTED, deps, POOR_KEY)
    with pytest.raises(Refusal) as refused:
        await reserve_first(call, deps)
    deps.in_flight.refuse(call, 402, refused.value.code)
    assert deps.platform_keys.quotas.in_flight == 0
    other, place = await dispatched(deps)
    assert place == "A"
    await deps.in_flight.abandon(other)


async def test_a_fault_of_the_gateway_gives_the_place_back(made: MakeDeps) -> None:
    deps = made(max_in_flight=1)
    call, _ = await dispatched(deps)
    deps.in_flight.settle_in_background(call, INTERNAL_ERROR.status, INTERNAL_ERROR.code)
    await deps.in_flight.idle.wait()
    assert deps.platform_keys.quotas.in_flight == 0


async def test_a_model_without_a_quota_does_nothing_for_those_of_others(made: MakeDeps) -> None:
    deps = made(max_in_flight=1, rpm=5, tpm=5_000)
    call = await call_at(Stage.ROUTED, deps, KEY, model="plain")
    await reserve_first(call, deps)
    assert not call.exchange.route.has_quota
    assert (call.quota_use, call.quota_tokens) == (None, 0)
    await deps.in_flight.abandon(call)
