"""The rule of the circuit breaker, as a table and against a simple model of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.circuit_breaker import (
    CLOSED,
    FAILURES,
    FORGET_US,
    PROBE_US,
    REPORT_US,
    REST_US,
    WINDOW_US,
    Circuit,
    CircuitState,
    after_failure,
    after_probe,
    after_shared_failure,
    after_shared_probe,
    after_shared_success,
    after_success,
    circuit_name,
    count_circuits,
    forget,
    is_reported_open,
    release_probe,
    renew_probe,
    shared_circuit,
    shared_name,
    state_of,
)

NOW = 10**12


def failed_at(*moments_us: int) -> Circuit:
    circuit = CLOSED
    for moment_us in moments_us:
        circuit = after_failure(circuit, moment_us)
    return circuit


def shared_state(circuits: list[Circuit], shared: Circuit, now_us: int) -> CircuitState:
    return state_of(shared_circuit(circuits, shared, now_us), now_us)


OPENED = failed_at(*[NOW] * FAILURES)


@pytest.mark.parametrize(
    ("moments_us", "state"),
    [
        ([], "closed"),
        ([NOW] * (FAILURES - 1), "closed"),
        ([NOW] * FAILURES, "open"),
        ([NOW - WINDOW_US] + [NOW] * (FAILURES - 1), "open"),
        ([NOW - WINDOW_US - 1] + [NOW] * (FAILURES - 1), "closed"),
        ([NOW - WINDOW_US - 1] + [NOW] * FAILURES, "open"),
        ([NOW + 10] * FAILURES, "closed"),
        ([NOW + 10] * FAILURES + [NOW], "closed"),
    ],
)
def test_a_circuit_opens_after_failures_in_a_row_within_the_window(moments_us: list[int], state: str) -> None:
    assert state_of(failed_at(*moments_us), NOW) == state


@pytest.mark.parametrize(("after_us", "state"), [(0, "open"), (REST_US - 1, "open"), (REST_US, "half_open")])
def test_an_open_circuit_rests_and_waits_then_for_a_probe(after_us: int, state: str) -> None:
    assert state_of(OPENED, NOW + after_us) == state


def test_a_circuit_that_no_call_tries_is_forgotten() -> None:
    last = NOW + REST_US + FORGET_US
    assert state_of(OPENED, last) == "half_open"
    assert state_of(OPENED, last + 1) == "closed"
    assert after_failure(OPENED, last + 1) == failed_at(last + 1)
    assert after_probe(OPENED, last + 1) == OPENED


@pytest.mark.parametrize(
    ("circuit", "after_us", "is_reported"),
    [
        (CLOSED, 0, False),
        (failed_at(*[NOW] * (FAILURES - 1)), 0, False),
        (OPENED, 0, True),
        (OPENED, REST_US, True),
        (OPENED, REST_US + REPORT_US - 1, True),
        (OPENED, REST_US + REPORT_US, False),
        (after_probe(OPENED, NOW + REST_US), REST_US + REPORT_US, True),
        (after_failure(OPENED, NOW + REST_US + REPORT_US), REST_US + REPORT_US, True),
        (after_success(OPENED, NOW), 0, False),
    ],
)
def test_an_open_circuit_that_no_call_tries_is_not_reported_for_long(
    circuit: Circuit, after_us: int, is_reported: bool
) -> None:
    assert is_reported_open(circuit, NOW + after_us) is is_reported


def test_a_provider_that_fails_for_all_is_reported_like_one_circuit() -> None:
    last = NOW + REST_US + REPORT_US
    assert is_reported_open(shared_circuit([OPENED, LATER], CLOSED, last - 1), last - 1)
    assert not is_reported_open(shared_circuit([OPENED, LATER], CLOSED, last), last)
    assert not is_reported_open(shared_circuit([OPENED], CLOSED, NOW), NOW)
    again = after_shared_failure(CLOSED, last)
    assert is_reported_open(shared_circuit([OPENED, LATER], again, last), last)


def test_only_one_call_is_the_probe_until_the_wait_for_it_ends() -> None:
    then = NOW + REST_US
    probing = after_probe(OPENED, then)
    assert probing != OPENED
    assert after_probe(probing, then + PROBE_US - 1) == probing
    assert after_probe(probing, then + PROBE_US) != probing


@pytest.mark.parametrize("now_us", [NOW, NOW + REST_US - 1])
def test_while_a_circuit_rests_there_is_no_probe_and_failures_change_nothing(now_us: int) -> None:
    assert after_probe(OPENED, now_us) == after_failure(OPENED, now_us) == OPENED


@pytest.mark.parametrize("circuit", [OPENED, after_probe(OPENED, NOW + REST_US)])
@pytest.mark.parametrize("late_us", [0, 5])
def test_a_failure_after_the_rest_begins_another(circuit: Circuit, late_us: int) -> None:
    then = NOW + REST_US + late_us
    again = after_failure(circuit, then)
    assert state_of(again, then + REST_US - 1) == "open"
    assert state_of(again, then + REST_US) == "half_open"


def test_a_closed_circuit_needs_no_probe() -> None:
    assert after_probe(CLOSED, NOW) == CLOSED


@pytest.mark.parametrize("circuit", [CLOSED, failed_at(NOW), OPENED, after_probe(OPENED, NOW + REST_US)])
def test_any_success_closes_the_circuit(circuit: Circuit) -> None:
    assert after_success(circuit, NOW) == CLOSED


def test_each_workspace_has_circuits_of_its_own_and_another_for_its_own_key() -> None:
    assert len({circuit_name("OPENAI", mode, name) for mode in ("payg", "byok") for name in ("a", "b")}) == 4


def test_only_circuits_of_platform_keys_share_a_state() -> None:
    shared = {shared_name(circuit_name("OPENAI", "payg", name)) for name in ("a", "b")}
    assert shared == {shared_name("OPENAI/payg/")} == {"OPENAI/payg/"}
    assert shared_name(circuit_name("OPENAI", "byok", "a")) is None


# The shared state of all workspaces.

LATER = failed_at(*[NOW + 5] * FAILURES)


def succeeded_at(moment_us: int) -> Circuit:
    return after_shared_success(CLOSED, moment_us)


@pytest.mark.parametrize(
    ("circuits", "shared", "state"),
    [
        ([], CLOSED, "closed"),
        ([OPENED], CLOSED, "closed"),
        ([OPENED] + [failed_at(NOW)] * 9, CLOSED, "closed"),
        ([OPENED, LATER], CLOSED, "open"),
        ([OPENED, LATER], succeeded_at(NOW - 1), "open"),
        ([OPENED, LATER], succeeded_at(NOW), "closed"),
        ([OPENED, LATER, LATER], succeeded_at(NOW), "open"),
        ([OPENED, LATER], succeeded_at(NOW + 5), "closed"),
        ([OPENED, LATER], succeeded_at(NOW + REST_US), "open"),
    ],
    ids=str,
)
def test_a_provider_is_open_for_all_while_two_circuits_are_and_none_has_succeeded_since(
    circuits: list[Circuit], shared: Circuit, state: str
) -> None:
    assert shared_state(circuits, shared, NOW + 10) == state


def test_after_the_rest_one_call_of_all_workspaces_is_the_probe() -> None:
    then = NOW + REST_US
    assert shared_state([OPENED, LATER], CLOSED, then - 1) == "open"
    assert shared_state([OPENED, LATER], CLOSED, then) == "half_open"
    probing = after_shared_probe(CLOSED, then)
    assert after_shared_probe(probing, then + PROBE_US - 1) == probing
    assert shared_state([OPENED, LATER], probing, then + PROBE_US - 1) == "open"
    rests = after_shared_failure(probing, then + 1)
    assert after_shared_failure(rests, then + 2) == rests
    assert shared_state([OPENED, LATER], rests, then + REST_US) == "open"
    assert shared_state([OPENED, LATER], rests, then + 1 + REST_US) == "half_open"
    assert shared_state([OPENED, LATER], after_shared_success(rests, then + 3), then + 3) == "closed"


def test_the_wait_for_a_probe_lasts_as_long_as_the_probe() -> None:
    then = NOW + REST_US
    probing = after_probe(OPENED, then)
    again = renew_probe(probing, then + PROBE_US // 2, until_us=probing.retry_us)
    assert after_probe(again, then + PROBE_US) == again
    lost = release_probe(again, then + PROBE_US, until_us=again.retry_us)
    assert after_probe(lost, then + PROBE_US) != lost
    # Events during the wait count.
    failed = after_failure(again, then + PROBE_US // 2 + 1)
    assert renew_probe(failed, then + PROBE_US, until_us=again.retry_us) == failed
    assert release_probe(failed, then + PROBE_US, until_us=again.retry_us) == failed


def test_outdated_circuits_are_forgotten() -> None:
    for circuit in (failed_at(NOW), OPENED, succeeded_at(NOW)):
        last_us = max(circuit.began_us, circuit.retry_us)
        assert forget(circuit, last_us + FORGET_US) == circuit
        assert forget(circuit, last_us + FORGET_US + 1) == CLOSED
        assert forget(circuit, circuit.began_us - 1) == CLOSED


steps = st.lists(
    st.tuples(
        st.sampled_from(["failure", "success", "probe"]),
        st.sampled_from([0, 1, WINDOW_US // FAILURES, REST_US - 1, REST_US, WINDOW_US + 1, PROBE_US]),
    ),
    max_size=40,
)


@given(steps=steps)
def test_probes_are_always_a_rest_apart_and_come_only_after_enough_failures(
    steps: list[tuple[str, int]],
) -> None:
    """Check the rule on the whole history: the failures since the last success, and the calls that were let through."""
    circuit, now_us, failures, barred_until_us = CLOSED, NOW, 0, 0
    for what, pause_us in steps:
        now_us += pause_us
        if what == "failure":
            circuit, failures = after_failure(circuit, now_us), failures + 1
        elif what == "success":
            circuit, failures, barred_until_us = after_success(circuit, now_us), 0, 0
        else:
            changed = after_probe(circuit, now_us)
            if changed != circuit:
                assert failures >= FAILURES
                assert now_us >= barred_until_us
                barred_until_us = now_us + REST_US
            circuit = changed
        if failures < FAILURES:
            assert state_of(circuit, now_us) == "closed"


def test_circuits_are_counted_by_provider_and_mode_without_naming_workspaces() -> None:
    names = [
        circuit_name("A", "payg", "acme"),
        circuit_name("A", "payg", "beta"),
        circuit_name("A", "byok", "acme"),
        "A/payg/",
        "A",
        "A/acme",
    ]
    counts = count_circuits([*names, circuit_name("B_2", "byok", "acme")])
    assert counts == {
        ("A", "payg", "all"): 1,
        ("A", "payg", "workspace"): 2,
        ("A", "byok", "workspace"): 1,
        ("B_2", "byok", "workspace"): 1,
    }
    assert count_circuits([]) == {}
