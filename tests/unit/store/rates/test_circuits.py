"""The circuits that all processes share, on both stores."""

import asyncio

import pytest
from rig.stores import StoreLocation

from addon.store.protocol import Store
from policies.circuit_breaker import FAILURES, FORGET_US, PROBE_US, REPORT_US, REST_US, WINDOW_US

# Those of money alone have no tokens and no circuits.
pytestmark = pytest.mark.parametrize("location", ["sqlite", "redis"], indirect=True)


async def fail(store: Store, times: int, circuit: str = "OPENAI/payg/acme") -> None:
    for _ in range(times):
        await store.record_attempt(circuit, failed=True)


async def test_a_circuit_opens_for_all_processes_after_failures_that_any_of_them_saw(
    store: Store, other: Store
) -> None:
    for one in (store, other):
        await one.maintain()
    await fail(store, FAILURES - 2)
    await fail(other, 1)
    for one in (store, other):
        await one.maintain()
        assert await one.circuit_allows("OPENAI/payg/acme", "call")
    await fail(other, 1)
    assert not await other.circuit_allows("OPENAI/payg/acme", "call")
    await store.maintain()
    for one in (store, other):
        assert not await one.circuit_allows("OPENAI/payg/acme", "call")
        assert await one.circuit_allows("OPENAI/byok/acme", "call")
        assert one.open_circuits() == {"OPENAI/payg/acme"}


async def test_a_success_in_between_or_a_long_time_keeps_a_circuit_closed(
    store: Store, other: Store, location: StoreLocation
) -> None:
    await fail(store, FAILURES - 1)
    await other.maintain()
    await other.record_attempt("OPENAI/payg/acme", failed=False)
    assert location.circuits() == ["OPENAI/payg/"], "only the time of the last success"
    await fail(store, FAILURES - 1)
    location.age_circuits(WINDOW_US / 1e6 + 1)
    await fail(store, FAILURES - 1)
    await store.maintain()
    assert await store.circuit_allows("OPENAI/payg/acme", "call")


async def test_after_its_rest_one_probe_is_allowed_and_its_success_closes_the_circuit(
    store: Store, other: Store, location: StoreLocation
) -> None:
    await fail(store, FAILURES)
    location.age_circuits(REST_US / 1e6)
    for one in (store, other):
        await one.maintain()
    tries = await asyncio.gather(
        *(one.circuit_allows("OPENAI/payg/acme", "call") for one in (store, other) for _ in range(10))
    )
    assert tries.count(True) == 1
    assert store.open_circuits() == other.open_circuits() == {"OPENAI/payg/acme"}
    await other.record_attempt("OPENAI/payg/acme", failed=False)
    await store.maintain()
    assert await store.circuit_allows("OPENAI/payg/acme", "call")
    assert await other.circuit_allows("OPENAI/payg/acme", "call")
    assert store.open_circuits() == frozenset()


async def test_a_probe_that_fails_or_never_ends_is_followed_by_another_later(
    store: Store, other: Store, location: StoreLocation
) -> None:
    await fail(store, FAILURES)
    for ends, waits_us in ((True, REST_US), (False, REST_US), (True, PROBE_US)):
        location.age_circuits(waits_us / 1e6)
        for one in (store, other):
            await one.maintain()
        assert await store.circuit_allows("OPENAI/payg/acme", "call")
        await fail(other, int(ends))
        for one in (store, other):
            await one.maintain()
            assert not await one.circuit_allows("OPENAI/payg/acme", "call")


async def test_failures_at_once_are_all_counted(store: Store, other: Store) -> None:
    ones = [(store, other)[number % 2] for number in range(FAILURES)]
    await asyncio.gather(*(fail(one, 1) for one in ones))
    await store.maintain()
    assert store.open_circuits() == {"OPENAI/payg/acme"}


ACME, BETA, GAMMA = (f"OPENAI/payg/{name}" for name in ("acme", "beta", "gamma"))
FOR_ALL = "OPENAI/payg/"


async def open_for_all_and_rest(store: Store, location: StoreLocation) -> None:
    """Open the circuit for all workspaces, and let its rest end. The last failure of the second one opens it."""
    for circuit in (ACME, BETA):
        await fail(store, FAILURES, circuit)
    location.age_circuits(REST_US / 1e6)


async def test_failures_of_one_workspace_open_no_other_circuit_and_those_of_two_open_all(
    store: Store, other: Store
) -> None:
    await fail(store, 3 * FAILURES, ACME)
    await fail(store, FAILURES, "OPENAI/byok/beta")
    for one in (store, other):
        await one.maintain()
        assert one.open_circuits() == {ACME, "OPENAI/byok/beta"}
        assert await one.circuit_allows(BETA, "call")
        assert not one.is_circuit_open(BETA)
    await fail(other, FAILURES, BETA)
    await store.maintain()
    for one in (store, other):
        assert one.open_circuits() == {ACME, BETA, FOR_ALL, "OPENAI/byok/beta"}
        assert one.is_circuit_open(GAMMA)
        assert not await one.circuit_allows(GAMMA, "call")
        assert await one.circuit_allows("OPENAI/byok/gamma", "call")
        assert await one.circuit_allows("GROQ/payg/gamma", "call")


async def test_a_success_of_any_workspace_since_the_first_failure_keeps_the_others_circuits_closed(
    store: Store, other: Store
) -> None:
    await fail(store, FAILURES, ACME)
    await other.maintain()
    await other.record_attempt(GAMMA, failed=False)
    await store.maintain()
    await fail(store, FAILURES, BETA)
    await other.maintain()
    for one in (store, other):
        assert one.open_circuits() == {ACME, BETA}
        assert await one.circuit_allows(GAMMA, "call")


async def test_after_its_rest_one_probe_of_all_workspaces_is_allowed_and_its_success_closes_all(
    store: Store, other: Store, location: StoreLocation
) -> None:
    await open_for_all_and_rest(store, location)
    for one in (store, other):
        await one.maintain()
    tries = await asyncio.gather(
        *(
            one.circuit_allows(circuit, "call")
            for one in (store, other)
            for circuit in (BETA, GAMMA)
            for _ in range(5)
        )
    )
    assert tries.count(True) == 1
    await other.record_attempt(GAMMA, failed=False)
    await store.maintain()
    for one in (store, other):
        assert one.open_circuits() == {ACME, BETA}
        assert await one.circuit_allows(GAMMA, "call")


async def test_a_probe_for_all_that_fails_is_followed_by_another_rest(
    store: Store, other: Store, location: StoreLocation
) -> None:
    await open_for_all_and_rest(store, location)
    for waits_us in (0, REST_US):
        location.age_circuits(waits_us / 1e6)
        for one in (store, other):
            await one.maintain()
        assert await store.circuit_allows(GAMMA, "call")
        await fail(store, 1, GAMMA)
        await other.maintain()
        assert not await other.circuit_allows(GAMMA, "call")


async def test_a_probe_lasts_as_long_as_its_process_renews_it(
    store: Store, other: Store, location: StoreLocation
) -> None:
    await fail(store, FAILURES)
    location.age_circuits(REST_US / 1e6)
    await store.maintain()
    assert await store.circuit_allows(ACME, "probe")
    for _ in range(3):
        location.age_circuits(PROBE_US * 0.7 / 1e6)
        assert isinstance(store.probes, dict)
        name, until_us = store.probes["probe"]
        store.probes["probe"] = name, until_us - round(PROBE_US * 0.7)
        await store.maintain()
        await other.maintain()
        assert not await other.circuit_allows(ACME, "call")


async def test_a_probe_that_ends_without_a_result_is_followed_by_another_at_once(
    store: Store, other: Store, location: StoreLocation
) -> None:
    await fail(store, FAILURES)
    location.age_circuits(REST_US / 1e6)
    for one in (store, other):
        await one.maintain()
    assert await store.circuit_allows(ACME, "probe")
    assert store.end_probe("another") is None
    ending = store.end_probe("probe")
    assert ending
    await ending
    assert store.end_probe("probe") is None
    await other.maintain()
    assert await other.circuit_allows(ACME, "call")


async def test_the_number_of_circuits_is_bounded(
    store: Store, location: StoreLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("addon.store.rates.circuits.MAX_CIRCUITS", 3)
    await store.maintain()
    for number in range(6):
        await fail(store, 1, f"OPENAI/payg/w{number}")
    assert location.circuits() == ["OPENAI/payg/w0", "OPENAI/payg/w1", "OPENAI/payg/w2"]


async def test_old_circuits_are_removed_and_the_last_success_after_the_failures(
    store: Store, location: StoreLocation
) -> None:
    await fail(store, FAILURES)
    await store.record_attempt(BETA, failed=False)
    assert location.circuits() == [FOR_ALL, ACME]
    location.age_circuits((FORGET_US + REST_US) / 1e6 + 1)
    await store.maintain()
    await store.maintain()
    assert location.circuits() == []


async def test_successes_of_closed_circuits_are_never_written(store: Store, location: StoreLocation) -> None:
    await store.maintain()
    for name in ("OPENAI", "ANTHROPIC"):
        assert await store.circuit_allows(name, "call")
        await store.record_attempt(name, failed=False)
    assert location.circuits() == []


async def test_opening_and_closing_of_a_circuit_are_logged_once_each(
    store: Store, other: Store, location: StoreLocation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tollgate.circuits")

    def events() -> list[str]:
        return [record.__dict__["event"] for record in caplog.records if record.name == "tollgate.circuits"]

    await fail(store, FAILURES + 1)
    assert events() == ["circuit opened"]
    location.age_circuits((REST_US + FORGET_US) / 1e6 + 1)
    await store.maintain()
    await fail(store, 1)  # The first failure of a provider that was forgotten. It logs nothing.
    assert events() == ["circuit opened"]
    await fail(store, FAILURES - 1)
    await other.maintain()
    await other.record_attempt("OPENAI/payg/acme", failed=False)
    assert events() == ["circuit opened", "circuit opened", "circuit closed"]
    assert caplog.messages[-1] == "OPENAI/payg/acme serves one workspace again"


async def test_an_open_circuit_is_not_reported_for_long_when_no_call_tries_it(
    store: Store, other: Store, location: StoreLocation
) -> None:
    await open_for_all_and_rest(store, location)
    await other.maintain()
    assert other.open_circuits() == {ACME, BETA, FOR_ALL}
    location.age_circuits(REPORT_US / 1e6)
    await other.maintain()
    assert other.open_circuits() == frozenset()
    assert other.is_circuit_open(GAMMA), "a call that has a fallback still skips it, unless it is the probe"
    await fail(other, 1, ACME)
    assert {ACME, FOR_ALL} <= other.open_circuits()


async def test_a_success_writes_nothing_where_only_another_provider_has_failed(
    store: Store, location: StoreLocation
) -> None:
    await fail(store, FAILURES, "GROQ/payg/acme")
    await store.record_attempt(ACME, failed=False)
    assert location.circuits() == ["GROQ/payg/acme"]
