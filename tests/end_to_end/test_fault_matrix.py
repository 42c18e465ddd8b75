"""Each kind of failure with each kind of fallback: the attempts, their keys, the error and the cost.

If both attempts fail, the client gets the first failure. A failure costs nothing.
"""

import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import trustme
from conftest import StartGateway
from contract.test_streaming import events_of
from rig.error_answers import assert_error
from rig.evidence import Asked, Evidence
from rig.faults import (
    CLIENT_FAULTS,
    FAULTS,
    LATE_FAULTS,
    NO_TOKEN,
    OWN_ACCOUNT_FAULTS,
    RELAYED_CHARS,
    SECOND_FAULTS,
    Fault,
    breaks_off,
    closes_kept_connections,
    resets_connections,
    says_no_again,
)
from rig.scripts import USAGE
from rig.situation import Place, Role, Situation
from rig.situations import SECRET, Found, Situations
from rig.upstream import Upstream

type ExpectedError = tuple[int, tuple[str, str], str]
"""Status, (code, type) and a part of the message."""

CREDIT_NANOUSD = {None: 0, "0.01": 10**7, "1": 10**9}
# At 1 USD a million prompt tokens and 10 for the answer, or 3 and 50, for 9 tokens and 2; retail is 4 % more.
FIRST_NANOUSD = {"wholesale_nanousd": 9 * 1_000 + 2 * 10_000, "retail_nanousd": 9 * 1_040 + 2 * 10_400}
SECOND_NANOUSD = {"wholesale_nanousd": 9 * 3_000 + 2 * 50_000, "retail_nanousd": 9 * 3_120 + 2 * 52_000}
NOTHING_NANOUSD = {"wholesale_nanousd": 0, "retail_nanousd": 0}

UPSTREAM_ERROR = ("upstream_error", "api_error")
REQUEST_ERROR = ("invalid_request_error", "invalid_request_error")
SAYS_NO = "The first provider says no to ***."

# The error that the client gets for each failure.
EXPECTED_ERRORS: Mapping[str, ExpectedError] = {
    "connect refused": (502, UPSTREAM_ERROR, "The provider could not be reached."),
    "connect timeout": (502, UPSTREAM_ERROR, "The provider could not be reached."),
    "TLS with a port that speaks none": (502, UPSTREAM_ERROR, "The provider could not be reached."),
    "TLS with an untrusted certificate": (502, UPSTREAM_ERROR, "The provider could not be reached."),
    "reset before the head": (502, UPSTREAM_ERROR, "The provider could not be reached."),
    "reset after the head": (502, UPSTREAM_ERROR, "it broke off."),
    "silence": (504, UPSTREAM_ERROR, "The provider did not answer in time."),
    "silence after its beginning": (504, UPSTREAM_ERROR, "The provider did not answer in time."),
    "no access token": (502, UPSTREAM_ERROR, "The gateway could not get an access token for the provider."),
    "401": (401, ("invalid_api_key", "authentication_error"), SAYS_NO),
    "403": (403, ("permission_denied", "permission_denied"), SAYS_NO),
    "408": (408, REQUEST_ERROR, SAYS_NO),
    "429": (429, ("rate_limit_exceeded", "rate_limit_error"), SAYS_NO),
    "500": (500, UPSTREAM_ERROR, SAYS_NO),
    "503": (503, UPSTREAM_ERROR, SAYS_NO),
    "529": (502, UPSTREAM_ERROR, SAYS_NO),
    "200 with an error": (502, UPSTREAM_ERROR, SAYS_NO),
    "200 with HTML": (502, UPSTREAM_ERROR, "could not be understood"),
    "200 with an empty body": (502, UPSTREAM_ERROR, ""),
    "200 with the end alone": (502, UPSTREAM_ERROR, "could not be understood"),
    "200 without a completion": (502, UPSTREAM_ERROR, "could not be understood"),
    "400": (400, REQUEST_ERROR, SAYS_NO),
    "402": (402, REQUEST_ERROR, SAYS_NO),
    "404": (404, ("model_not_found", "invalid_request_error"), SAYS_NO),
    "409": (409, REQUEST_ERROR, SAYS_NO),
    "413": (413, REQUEST_ERROR, SAYS_NO),
    "422": (422, REQUEST_ERROR, SAYS_NO),
}

# The same for a stream that has begun.
LATE_ERRORS: Mapping[str, tuple[int, str]] = {
    "reset": (502, "The provider's stream ended before the answer was complete."),
    "close": (502, "The provider's stream ended before the answer was complete."),
    "silence": (504, "The provider did not answer in time."),
    "error event": (503, "The first provider says no."),
}

FORMS = {"whole": False, "stream": True}
OWN: dict[str, Any] = {"own_keys": ("first",)}
NET: dict[str, Any] = OWN | {"workspace": {"safety_net": True}}

# The key of the first attempt, whether a second may follow, and the outcome of the second.
MODES: Mapping[str, dict[str, Any]] = {
    "PAYG": {"fallback": None},
    "PAYG, fallback answers": {},
    "PAYG, fallback fails": {"then": says_no_again},
    # These also have a fallback model, which BYOK does not use.
    "BYOK": OWN,
    "BYOK, Safety Net answers": NET,
    "BYOK, Safety Net fails": NET | {"then": says_no_again},
}
HAVE_A_SECOND = [mode for mode in MODES if "," in mode]
SAFETY_NET = [mode for mode in MODES if "Safety Net" in mode]
ANSWER_SECOND = [mode for mode in MODES if mode.endswith("answers")]

MATRIX = [
    *((fault, form, mode) for fault in FAULTS for form in FORMS for mode in MODES),
    # Without a second attempt the gateway sends nothing.
    *(("no access token", "whole", mode) for mode in HAVE_A_SECOND),
    *(("no access token", "stream", mode) for mode in ANSWER_SECOND),
    *((fault, form, mode) for fault in OWN_ACCOUNT_FAULTS for form in FORMS for mode in SAFETY_NET),
]
CLIENTS = [
    (fault, form, mode)
    for fault in CLIENT_FAULTS
    for form in FORMS
    for mode in ANSWER_SECOND
    if not (fault in OWN_ACCOUNT_FAULTS and mode in SAFETY_NET)
]
LATE = [(fault, mode) for fault in LATE_FAULTS for mode in ANSWER_SECOND]

NO_NET = "; cannot use the Safety Net fallback."
PAYMENT, BYOK_REQUIRED = ("payment_required", "invalid_request_error"), ("byok_required", "permission_denied")
FIRST_FAILURE = (503, UPSTREAM_ERROR, SAYS_NO)
# With a cap below the estimate of the prompt, a first call passes only without overage protection.
UNGUARDED = {"safety_net": True, "overage_protection": False}
REACHED = OWN | {"spends_before": True}
DEAR = {"input_price_per_m": "1000", "output_price_per_m": "10000"}

# Conditions that prevent the second attempt, and the error that the client gets.
GUARDS: dict[str, tuple[dict[str, Any], ExpectedError]] = {
    "the month's cap is reached": (
        REACHED | {"workspace": UNGUARDED | {"monthly_spend_cap_usd": "0.0001"}},
        (402, PAYMENT, f"Monthly spend limit reached{NO_NET}"),
    ),
    "the wallet is empty": (
        NET | {"wallet_usd": None},
        (402, PAYMENT, f"Insufficient API credits; top up the workspace's wallet{NO_NET}"),
    ),
    "the key's spend cap is reached": (
        REACHED | {"workspace": UNGUARDED, "key": {"spend_cap_usd": "0.0001"}},
        (402, PAYMENT, f"credit limit reached; increase the limit or wait for the reset cycle{NO_NET}"),
    ),
    "no budget is left for the prompt": (
        NET | {"first": DEAR, "wallet_usd": "0.01"},
        (402, PAYMENT, f"the estimated prompt cost exceeds the remaining cap{NO_NET}"),
    ),
    "the model needs the customer's key": (NET | {"first": {"byok_only": True}}, (403, BYOK_REQUIRED, "")),
    "the platform has no key there": (NET | {"unset": frozenset({"platform"})}, FIRST_FAILURE),
    "the fallback is too dear for the wallet": ({"second": DEAR, "wallet_usd": "0.01"}, FIRST_FAILURE),
    "the fallback is too dear for the month": (
        {"second": DEAR, "workspace": {"monthly_spend_cap_usd": "0.01"}},
        FIRST_FAILURE,
    ),
    "the fallback's provider has no key": ({"unset": frozenset({"fallback"})}, FIRST_FAILURE),
    "the fallback needs the customer's key": ({"second": {"byok_only": True}}, FIRST_FAILURE),
    "the fallback is retired": ({"second": {"active": False}}, FIRST_FAILURE),
    "the fallback is the model itself": ({"fallback": "first"}, FIRST_FAILURE),
}
# The same if the first attempt was never sent: there is no ledger row.
GUARDS_WITHOUT_TOKEN: dict[str, tuple[dict[str, Any], ExpectedError]] = {
    "no token, the wallet is empty": (
        NET | {"wallet_usd": None},
        (402, PAYMENT, f"Insufficient API credits; top up the workspace's wallet{NO_NET}"),
    ),
    "no token, the model needs the customer's key": (
        NET | {"first": {"byok_only": True}},
        (403, BYOK_REQUIRED, ""),
    ),
    "no token, the fallback is too dear": (
        {"second": DEAR, "wallet_usd": "0.01"},
        (502, UPSTREAM_ERROR, "The gateway could not get an access token for the provider."),
    ),
}
SECONDS = [(fault, form, mode) for fault in SECOND_FAULTS for form in FORMS for mode in ANSWER_SECOND]
GUARDED = [(guard, form) for guard in GUARDS for form in FORMS]
GUARDED_WITHOUT_TOKEN = [(guard, "whole") for guard in GUARDS_WITHOUT_TOKEN]

# Second attempts with another outcome than in MODES.
OWN_KEY, UNPROTECTED = "own key at the fallback", "no overage protection"
KEPT, KEPT_FAILS = "a kept connection is closed", "a kept connection is closed, and the fresh one is reset"
BROKEN_OFF = "the second breaks off"
OTHER_OUTCOMES: Mapping[str, dict[str, Any]] = {
    OWN_KEY: {"own_keys": ("second",)},
    UNPROTECTED: {"workspace": {"overage_protection": False}},
    KEPT: {"then": closes_kept_connections, "is_alone": True},
    KEPT_FAILS: {"then": resets_connections, "is_alone": True},
    BROKEN_OFF: {"then": breaks_off, "stream": True},
}


def _all_situations() -> Iterator[tuple[tuple[str, ...], Fault, dict[str, Any]]]:
    faults = {**FAULTS, **CLIENT_FAULTS, "no access token": NO_TOKEN}
    for fault, form, mode in (*MATRIX, *CLIENTS):
        yield (fault, form, mode), faults[fault], MODES[mode] | {"stream": FORMS[form]}
    for fault, mode in LATE:
        yield (fault, mode), LATE_FAULTS[fault], MODES[mode] | {"stream": True}
    for fault, form, mode in SECONDS:
        settings = MODES[mode] | {"stream": FORMS[form], "then": SECOND_FAULTS[fault]}
        yield ("then", fault, form, mode), FAULTS["503"], settings
    for guard, form in GUARDED:
        yield (guard, form), FAULTS["503"], GUARDS[guard][0] | {"stream": FORMS[form]}
    for guard, form in GUARDED_WITHOUT_TOKEN:
        settings = GUARDS_WITHOUT_TOKEN[guard][0] | {"stream": FORMS[form], "is_booked": False}
        yield (guard, form), NO_TOKEN, settings
    for how, settings in OTHER_OUTCOMES.items():
        yield (how,), FAULTS["503"], settings


SITUATIONS = {
    name: Situation(number, name, fault, **settings)
    for number, (name, fault, settings) in enumerate(_all_situations())
}


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


# --- expectations ------------------------------------------------------------------------------------------------


def assert_row(one: Situation, left: Evidence, place: Place, mode: str, **columns: Any) -> None:
    """Check that the row is that of the attempt at ``place`` and has the values of ``columns``."""
    expected = {
        "workspace": one.workspace_id,
        "key_id": "ci",
        "requested_model": one.slug("first"),
        "model_slug": one.slug(place),
        "provider": one.provider(place),
        "upstream_model_id": f"vendor/{place}",
        "mode": mode,
        "stream": int(one.stream),
    } | columns
    assert [(name, left.row[name], of) for name, of in expected.items() if left.row[name] != of] == []
    assert not SECRET.search(json.dumps(left.row))


def assert_error_answer(left: Evidence, status: int, kind: tuple[str, str], message: str) -> None:
    error = assert_error(left.answer, status, *kind)
    assert message in error["message"]
    assert "x-gateway-fallback" not in left.answer.headers
    assert not SECRET.search(left.answer.text + str(left.answer.headers))


NO_USAGE = {
    **{f"{name}_tokens": None for name in ("prompt", "completion", "total", "cached", "reasoning")},
    "usage_source": "none",
    "finish_reason": None,
} | NOTHING_NANOUSD


# An estimate counts four characters as a token.
ESTIMATED = {"usage_source": "estimated", "completion_tokens": RELAYED_CHARS // 4, "finish_reason": None}


def assert_failed(one: Situation, left: Evidence, expected_error: ExpectedError, attempts: int) -> None:
    """Check that the client got this error, the row is that of the first attempt, and the call cost nothing."""
    assert_error_answer(left, *expected_error)
    mode = "byok" if "first" in one.own_keys else "payg"
    ended = {
        "status": expected_error[0],
        "error_code": expected_error[1][0],
        "attempts": attempts,
        "fallback": 0,
    }
    assert_row(one, left, "first", mode, **ended, **NO_USAGE)
    assert_paid(one, left, 0)


def assert_paid(one: Situation, left: Evidence, nanousd: int) -> None:
    """Check that wallet and counters have this cost, that the call counts once, and that no hold is left."""
    before = SECOND_NANOUSD["retail_nanousd"] if one.spends_before else 0
    credit = CREDIT_NANOUSD[one.wallet_usd]
    wallet = left.spent.pop(("wallet", "ever"), (0, 0))
    assert wallet == (before + nanousd - credit, 0)
    assert sorted(left.entries) == sorted(paid for paid in (before, nanousd) if paid)
    assert set(left.spent.values()) == {(before + nanousd, 1 + one.spends_before)}
    assert {scope for scope, _ in left.spent} == {"key", "workspace"}
    assert left.holds == []


def assert_served(one: Situation, left: Evidence, place: Place, mode: str, cost: Mapping[str, int]) -> None:
    """Check that answer, row and cost are those of the second attempt."""
    if one.stream:
        *chunks, done = events_of(left.answer)
        said = "".join(c["delta"].get("content") or "" for made in chunks for c in made["choices"])
        models, usage = {made["model"] for made in chunks}, chunks[-1]["usage"]
        assert done == "[DONE]"
    else:
        assert left.answer.status_code == 200, left.answer.text
        made = left.answer.json()
        said, models, usage = made["choices"][0]["message"]["content"], {made["model"]}, made["usage"]
    assert (said, models, usage) == ("hello", {one.slug(place)}, USAGE)
    assert left.answer.headers.get("x-gateway-fallback") == (None if one.stream else "true")
    counted = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11, "usage_source": "provider"}
    ended = {"status": 200, "error_code": None, "finish_reason": "stop", "attempts": 2, "fallback": 1}
    assert_row(one, left, place, mode, **ended, **counted, **cost)
    assert_paid(one, left, cost["retail_nanousd"])


def expected_attempts(one: Situation, *attempts: tuple[Place, Role]) -> list[Asked]:
    """Return the expected attempts: each provider with the only key that it may receive."""
    before: list[tuple[Place, Role]] = [("second", "fallback")] if one.spends_before else []
    return [(place, [(role, one.number)]) for place, role in (*before, *attempts)]


def first_attempt(one: Situation) -> tuple[Place, Role]:
    return ("first", one.first_role)


def second_attempt(one: Situation) -> tuple[Place, Role]:
    return ("first", "platform") if "first" in one.own_keys else ("second", "fallback")


def _cases(cases: list[tuple[str, ...]], *names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(names, cases, ids=[" / ".join(case) for case in cases])


# --- tests -------------------------------------------------------------------------------------------------------


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
        assert_failed(one, left, EXPECTED_ERRORS[fault], attempts=len(made))


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
