"""All situations of calls with failing providers, and the error that the client gets in each."""

from collections.abc import Iterator, Mapping
from typing import Any

from rig.attempt_checks import ExpectedError
from rig.faults import (
    CLIENT_FAULTS,
    FAULTS,
    LATE_FAULTS,
    NO_TOKEN,
    OWN_ACCOUNT_FAULTS,
    SECOND_FAULTS,
    Fault,
    breaks_off,
    closes_kept_connections,
    resets_connections,
    says_no_again,
)
from rig.situation import Situation

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
    "200 with a number beyond every float": (502, UPSTREAM_ERROR, "could not be understood"),
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
