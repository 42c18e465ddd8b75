"""Each kind of failure with each kind of fallback: the attempts, their keys, the error and the cost.

If both attempts fail, the client gets the first failure. A failure costs nothing.
"""

import ssl
from collections.abc import Iterator
from typing import Any

import pytest
import trustme
from conftest import StartGateway
from rig.attempt_checks import (
    CREDIT_NANOUSD,
    ESTIMATED,
    FIRST_NANOUSD,
    NOTHING_NANOUSD,
    SECOND_NANOUSD,
    assert_error_answer,
    assert_failed,
    assert_paid,
    assert_row,
    assert_served,
    expected_attempts,
    first_attempt,
    second_attempt,
)
from rig.fault_matrix import (
    ANSWER_SECOND,
    BROKEN_OFF,
    CLIENTS,
    EXPECTED_ERRORS,
    FIRST_FAILURE,
    GUARDED,
    GUARDED_WITHOUT_TOKEN,
    GUARDS,
    GUARDS_WITHOUT_TOKEN,
    KEPT,
    KEPT_FAILS,
    LATE,
    LATE_ERRORS,
    MATRIX,
    OWN_KEY,
    SECONDS,
    SITUATIONS,
    UNPROTECTED,
)
from rig.faults import RELAYED_CHARS
from rig.large import sampled
from rig.situation import Place, Role, Situation
from rig.situations import SECRET, Found, Situations
from rig.stream_events import events_of
from rig.upstream import Upstream


@pytest.fixture(scope="module")
def found(
    start_gateway: StartGateway,
    upstreams: dict[str, Any],
    authority: trustme.CA,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Found]:
    """Return the evidence of each situation. All situations run once for the whole file, at the same time."""
    upstream: Upstream = upstreams["TESTER"]
    upstream.reset()
    ca_file = tmp_path_factory.mktemp("trusted") / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    situations = Situations(SITUATIONS.values(), upstream)
    with situations.providers_running(_certificate(authority), _certificate(trustme.CA())):
        settings = situations.settings()
        settings["environment"]["SSL_CERT_FILE"] = str(ca_file)
        timeouts = {"connect_timeout_s": 3, "first_byte_timeout_s": 6, "idle_timeout_s": 6}
        timeouts["whole_timeout_s"] = 12  # A first attempt gets half of it.
        gateway = start_gateway(**settings, sections={"upstream": timeouts})
        met = situations.meet(gateway)
        yield met
    failures = list(upstream.failures)
    upstream.reset()
    assert failures == []
    assert not [left.stale for left in met.values() if any(one not in left.asked for one in left.stale)]
    assert not [line for line in gateway.stderr_lines if SECRET.search(line)], "a key was logged"


def _certificate(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


def _cases(cases: list[tuple[str, ...]], *names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(names, cases, ids=[" / ".join(case) for case in cases])


@sampled(every=5)
@_cases(MATRIX, "fault", "form", "mode")
def test_one_second_attempt_follows_a_failure_if_the_workspace_allows_it(
    found: Found, fault: str, form: str, mode: str
) -> None:
    one, left = SITUATIONS[fault, form, mode], found[fault, form, mode]
    made = [first_attempt(one), second_attempt(one)] if "," in mode else [first_attempt(one)]
    assert left.asked == expected_attempts(one, *(attempt for attempt in made if _is_seen(one, *attempt)))
    if mode in ANSWER_SECOND:
        place = second_attempt(one)[0]
        assert_served(one, left, place, "payg", {"first": FIRST_NANOUSD, "second": SECOND_NANOUSD}[place])
    else:
        assert_failed(one, left, EXPECTED_ERRORS[fault], attempts=len(made) - one.fault.has_no_token)


def _is_seen(one: Situation, place: Place, role: Role) -> bool:
    """Return whether a provider sees the attempt. A closed port and a missing access token hide it."""
    if (place, role) == first_attempt(one):
        return one.fault.script is not None
    return place == "second" or not one.fault.port or one.is_repaired


@_cases(SECONDS, "fault", "form", "mode")
def test_if_both_attempts_fail_the_client_gets_the_first_failure(
    found: Found, fault: str, form: str, mode: str
) -> None:
    one, left = SITUATIONS["then", fault, form, mode], found["then", fault, form, mode]
    assert left.asked == expected_attempts(one, first_attempt(one), second_attempt(one))
    assert_failed(one, left, FIRST_FAILURE, attempts=2)


@_cases(CLIENTS, "fault", "form", "mode")
def test_an_error_of_the_client_has_no_second_attempt(found: Found, fault: str, form: str, mode: str) -> None:
    one, left = SITUATIONS[fault, form, mode], found[fault, form, mode]
    assert left.asked == expected_attempts(one, first_attempt(one))
    assert_failed(one, left, EXPECTED_ERRORS[fault], attempts=1)


@_cases(LATE, "fault", "mode")
def test_a_stream_that_has_begun_ends_with_an_error_without_second_attempt(
    found: Found, fault: str, mode: str
) -> None:
    one, left = SITUATIONS[fault, mode], found[fault, mode]
    assert left.asked == expected_attempts(one, first_attempt(one))
    begun, failed = events_of(left.answer)
    assert begun["choices"][0]["delta"]["content"] == "x" * RELAYED_CHARS
    assert (begun["model"], failed["error"]["code"]) == (one.slug("first"), "upstream_error")
    assert LATE_ERRORS[fault][1] in failed["error"]["message"]
    assert "x-gateway-fallback" not in left.answer.headers
    status, metered = LATE_ERRORS[fault][0], mode.startswith("PAYG")
    ended = {"status": status, "error_code": "upstream_error", "attempts": 1, "fallback": 0}
    assert_row(one, left, "first", "payg" if metered else "byok", **ended, **ESTIMATED)
    cost = (left.row["prompt_tokens"] * 1_040 + left.row["completion_tokens"] * 10_400) * metered
    assert left.row["retail_nanousd"] == cost
    assert_paid(one, left, cost)


@_cases(GUARDED, "guard", "form")
def test_a_forbidden_second_attempt_is_not_made(found: Found, guard: str, form: str) -> None:
    one, left = SITUATIONS[guard, form], found[guard, form]
    assert left.asked == expected_attempts(one, first_attempt(one))
    assert_failed(one, left, GUARDS[guard][1], attempts=1)


@_cases(GUARDED_WITHOUT_TOKEN, "guard", "form")
def test_a_call_that_was_never_sent_has_no_row_and_no_hold(found: Found, guard: str, form: str) -> None:
    one, left = SITUATIONS[guard, form], found[guard, form]
    assert_error_answer(left, *GUARDS_WITHOUT_TOKEN[guard][1])
    credit = {("wallet", "ever"): (-CREDIT_NANOUSD[one.wallet_usd], 0)} if one.wallet_usd else {}
    assert (left.asked, left.row, left.spent, left.entries, left.holds) == (
        [],
        {},
        credit,
        [],
        [],
    )


def test_the_fallback_uses_the_customers_own_key_if_there_is_one(found: Found) -> None:
    one, left = SITUATIONS[OWN_KEY,], found[OWN_KEY,]
    assert left.asked == expected_attempts(one, ("first", "platform"), ("second", "customer"))
    assert_served(one, left, "second", "byok", NOTHING_NANOUSD)


def test_a_fallback_needs_no_overage_protection(found: Found) -> None:
    one, left = SITUATIONS[UNPROTECTED,], found[UNPROTECTED,]
    assert left.asked == expected_attempts(one, ("first", "platform"), ("second", "fallback"))
    assert_served(one, left, "second", "payg", SECOND_NANOUSD)


def test_a_closed_idle_connection_is_not_an_attempt(found: Found) -> None:
    one, left = SITUATIONS[KEPT,], found[KEPT,]
    assert left.stale == expected_attempts(one, ("second", "fallback"))
    assert left.asked == expected_attempts(one, ("first", "platform"), ("second", "fallback"))
    assert_served(one, left, "second", "payg", SECOND_NANOUSD)


def test_a_failed_idle_and_a_failed_new_connection_are_one_attempt(found: Found) -> None:
    one, left = SITUATIONS[KEPT_FAILS,], found[KEPT_FAILS,]
    assert left.stale == expected_attempts(one, ("second", "fallback"))
    assert left.asked == expected_attempts(one, ("first", "platform"), ("second", "fallback"))
    assert_failed(one, left, FIRST_FAILURE, attempts=2)


def test_an_interrupted_stream_of_the_fallback_costs_its_relayed_part(found: Found) -> None:
    one, left = SITUATIONS[BROKEN_OFF,], found[BROKEN_OFF,]
    assert left.asked == expected_attempts(one, ("first", "platform"), ("second", "fallback"))
    begun, failed = events_of(left.answer)
    assert (begun["model"], failed["error"]["code"]) == (one.slug("second"), "upstream_error")
    assert LATE_ERRORS["reset"][1] in failed["error"]["message"]
    ended = {"status": 502, "error_code": "upstream_error", "attempts": 2, "fallback": 1}
    assert_row(one, left, "second", "payg", **ended, **ESTIMATED)
    cost = left.row["prompt_tokens"] * 3_120 + left.row["completion_tokens"] * 52_000
    assert left.row["retail_nanousd"] == cost
    assert_paid(one, left, cost)
