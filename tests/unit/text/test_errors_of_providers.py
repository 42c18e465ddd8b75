"""Errors of providers become the contract's, and show no secret. So do errors inside of a success."""

import json
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rig.error_answers import assert_contract_shape

from addon.text import errors
from addon.text.errors import (
    MAX_MESSAGE_CHARS,
    ErrorAnswer,
    ErrorType,
    is_error_payload,
    upstream_error,
    upstream_error_in_success,
)

KEY = "sk-fake-0000000000000000"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (errors.provider_unreachable(), 502),
        (errors.provider_timed_out(), 504),
        (errors.unreadable_answer("an empty body"), 502),
        (errors.stream_interrupted(), 502),
    ],
)
def test_a_provider_that_fails_without_a_message_is_an_upstream_error(
    answer: ErrorAnswer, status: int
) -> None:
    assert (answer.status, answer.type, answer.code) == (status, "api_error", "upstream_error")
    assert_contract_shape(answer)


def test_an_unreadable_answer_gives_a_reason() -> None:
    assert "an empty body" in errors.unreadable_answer("an empty body").message


STATUSES: list[tuple[int, int, ErrorType, str]] = [
    (400, 400, "invalid_request_error", "invalid_request_error"),
    (401, 401, "authentication_error", "invalid_api_key"),
    (402, 402, "invalid_request_error", "invalid_request_error"),
    (403, 403, "permission_denied", "permission_denied"),
    (404, 404, "invalid_request_error", "model_not_found"),
    (408, 408, "invalid_request_error", "invalid_request_error"),
    (413, 413, "invalid_request_error", "invalid_request_error"),
    (422, 422, "invalid_request_error", "invalid_request_error"),
    (429, 429, "rate_limit_error", "rate_limit_exceeded"),
    (500, 500, "api_error", "upstream_error"),
    (502, 502, "api_error", "upstream_error"),
    (503, 503, "api_error", "upstream_error"),
    (504, 504, "api_error", "upstream_error"),
    # Nonstandard statuses, and statuses that are not errors.
    *((status, 502, "api_error", "upstream_error") for status in (529, 599, 520, 498, 499, 430, 600, 999)),
    *((status, 502, "api_error", "upstream_error") for status in (100, 103, 200, 204, 301, 304, 0, -1)),
]


@pytest.mark.parametrize(("status", "becomes", "kind", "code"), STATUSES)
def test_an_upstream_status_has_the_contracts_type_and_code(
    status: int, becomes: int, kind: ErrorType, code: str
) -> None:
    answer = upstream_error(status, b'{"error":{"message":"No."}}')
    assert (answer.status, answer.type, answer.code, answer.message) == (becomes, kind, code, "No.")


def test_every_standard_error_status_is_kept() -> None:
    standard = [status.value for status in HTTPStatus if status >= 400]
    assert [upstream_error(status, b"").status for status in standard] == standard


def test_a_long_message_is_shortened() -> None:
    message = upstream_error(400, json.dumps({"error": "word " * 10_000}).encode()).message
    assert len(message) == MAX_MESSAGE_CHARS
    assert message.endswith("…")
    exact = "x" * MAX_MESSAGE_CHARS
    assert upstream_error(400, json.dumps({"error": exact}).encode()).message == exact


@pytest.mark.parametrize(
    "message",
    [f"Incorrect API key provided: {KEY}.", f"Authorization: Bearer {KEY}", f"x{KEY}y", f"see ?key={KEY}"],
)
def test_a_credential_is_not_repeated(message: str) -> None:
    answer = upstream_error(401, json.dumps({"error": {"message": message}}).encode(), secrets=[KEY])
    assert KEY not in answer.message
    assert KEY[3:] not in answer.message
    assert "***" in answer.message


def test_the_keys_of_the_call_are_masked_even_when_they_look_like_words() -> None:
    secrets = ["", "plain", "plain/word/secret"]
    answer = upstream_error(401, b'{"error":"plain/word/secret and plain are wrong"}', secrets=secrets)
    assert answer.message == "*** and *** are wrong"


def test_a_secret_at_the_bound_is_masked_before_it_is_cut() -> None:
    secret = "abcdefgh" * 4
    body = json.dumps({"error": "x " * 990 + secret}).encode()
    assert "abcdefgh" not in upstream_error(400, body, secrets=[secret]).message


NAMES = {"gpt-4": "fast", "vendor/gpt-4.1": "faster", "m(1)": "odd"}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("The model `gpt-4` is gone.", "The model `fast` is gone."),
        ("gpt-4", "fast"),
        ("No gpt-4. Try again", "No fast. Try again"),
        ("gpt-4: not found, 'gpt-4'", "fast: not found, 'fast'"),
        ("models/gpt-4 is not found", "models/fast is not found"),
        ("use vendor/gpt-4.1 now", "use faster now"),
        ("m(1) is odd", "odd is odd"),
        ("gpt-4-turbo gpt-4.1 gpt-4o xgpt-4 my-gpt-4 gpt-4:free gpt-4/x", None),
    ],
)
def test_the_vendors_model_id_becomes_the_slug_when_it_is_a_whole_token(
    given: str, shown: str | None
) -> None:
    body = json.dumps({"error": given}).encode()
    assert upstream_error(404, body, NAMES).message == (shown or given)
    assert upstream_error_in_success({"error": given}, names=NAMES).message == (shown or given)


CHOICES = [{"index": 0, "delta": {"content": "x"}}]
ERRORS: list[Any] = [
    {"error": {"message": "m", "code": 502}},
    {"code": "Some error", "error": "m"},
    {"error": {"message": "m"}, "choices": CHOICES, "object": "chat.completion.chunk"},
    {"error": "m", "choices": []},
    {"object": "error", "message": "m", "code": 3051},
    {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    {"detail": "m"},
    {"detail": [{"msg": "m"}]},
    {"fault": {"faultstring": "m"}},
    {"errors": [{"message": "m"}], "success": False},
    {"message": "m", "code": 401},
    {"error": {"message": "m"}, "choices": None},
    [{"error": {"code": 400, "message": "m"}}],
]


ANSWERS: list[Any] = [
    {"choices": CHOICES},
    {"choices": [], "usage": {}},
    {"choices": CHOICES, "error": None},
    {"choices": CHOICES, "error": {}},
    {"choices": CHOICES, "error": ""},
    {"choices": CHOICES, "error": False},
    {"choices": CHOICES, "message": "an extra", "detail": "an extra"},
    {"choices": [{"error": {"message": "of one choice"}}]},
    {"id": "x", "object": "chat.completion"},
    {"usage": {"prompt_tokens": 1}},
    {"type": "message_start", "message": {"content": []}},
    {},
    [],
    [{"candidates": []}],
    ["error"],
    "error",
    "",
    None,
    5,
    True,
]


@pytest.mark.parametrize("payload", ERRORS)
def test_an_error_in_a_success_is_found(payload: Any) -> None:
    assert is_error_payload(payload) is True


@pytest.mark.parametrize("payload", ANSWERS)
def test_an_answer_is_not_an_error(payload: Any) -> None:
    assert is_error_payload(payload) is False


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        ({"error": {"code": 429, "message": "m"}}, 429),
        ({"error": {"status": 503, "message": "m"}}, 503),
        ({"error": {"status_code": 400, "message": "m", "code": "tool_use_failed"}}, 400),
        ({"code": 401, "message": "m"}, 401),
        ({"status": 404, "error": "m"}, 404),
        ([{"error": {"code": 400, "message": "m"}}], 400),
        ({"code": 500, "error": {"code": 429, "message": "the inner one knows"}}, 429),
        ({"error": {"code": 529, "message": "m"}}, 502),
        ({"error": {"code": 200, "message": "m"}}, 502),
        ({"error": {"code": 1305, "message": "m"}}, 502),
        ({"error": {"code": True, "message": "m"}}, 502),
        ({"error": {"code": 429.0, "message": "m"}}, 502),
        ({"error": {"code": "429", "message": "m"}}, 502),
        ({"error": {"code": 10**30, "message": "m"}}, 502),
        ({"error": "m"}, 502),
        ([], 502),
        (None, 502),
    ],
)
def test_an_error_in_a_success_keeps_its_own_status(payload: Any, status: int) -> None:
    assert upstream_error_in_success(payload).status == status


_KEYS = st.sampled_from(
    ["error", "message", "detail", "msg", "loc", "metadata", "raw", "param", "code", "status", "errors", "fault"]
)  # fmt: skip


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
PAYLOADS = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_KEYS, inner, max_size=4)
        | inner.map(lambda value: json.dumps(value))
    ),
    max_leaves=12,
)


@given(
    status=st.integers(-1000, 2000), body=st.binary(max_size=200) | PAYLOADS.map(lambda p: json.dumps(p).encode())
)  # fmt: skip
def test_any_status_with_any_body_is_the_contracts_error(status: int, body: bytes) -> None:
    answer = upstream_error(status, body, {"gpt": "slug"}, ["secret"])
    assert 400 <= answer.status <= 599
    assert_contract_shape(answer)


@example(payload="\x1b{A")
@given(payload=PAYLOADS)
def test_any_payload_is_the_contracts_error(payload: Any) -> None:
    answer = upstream_error_in_success(payload)
    assert_contract_shape(answer)
    assert not answer.message.startswith(("{", "[{", '["'))
    assert isinstance(is_error_payload(payload), bool)
