"""addon/text/errors.py: the contract's two error tables, and the sentence found in whatever a provider sent."""

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addon.text import errors
from addon.text.errors import (
    INTERNAL_ERROR,
    MAX_MESSAGE_CHARS,
    ErrorAnswer,
    ErrorType,
    is_error_payload,
    refusal_error,
    upstream_error,
    upstream_error_in_success,
)
from addon.text.provider_error import MAX_SENTENCE_CHARS
from policies.refusal import Refusal, RefusalCode

KEY = "sk-fake-0000000000000000"


def assert_contract_shape(answer: ErrorAnswer) -> None:
    """The body is one line of JSON in UTF-8 with exactly the contract's members."""
    decoded = json.loads(answer.body().decode("utf-8"))
    assert list(decoded) == ["error"]
    error = decoded["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].strip()
    assert error["type"] in get_args(ErrorType)
    assert error["code"]
    assert error["param"] is None or error["param"]
    assert len(answer.body().splitlines()) == 1
    assert answer.sse_event() == b"data: " + answer.body() + b"\n\n"


# --- refusals ------------------------------------------------------------------------------------------------

# Contract, "Gateway-generated errors"; the last six rows are the gateway's own.
GATEWAY: list[tuple[RefusalCode, int, ErrorType]] = [
    ("bad_request", 400, "invalid_request_error"),
    ("invalid_state", 400, "invalid_request_error"),
    ("validation_failed", 400, "invalid_request_error"),
    ("invalid_api_key", 401, "authentication_error"),
    ("payment_required", 402, "invalid_request_error"),
    ("byok_required", 403, "permission_denied"),
    ("rate_limit_exceeded", 429, "rate_limit_error"),
    ("internal_error", 500, "api_error"),
    ("rate_limit_unavailable", 503, "api_error"),
    ("not_found", 404, "invalid_request_error"),
    ("model_not_found", 404, "invalid_request_error"),
    ("method_not_allowed", 405, "invalid_request_error"),
    ("request_timeout", 408, "invalid_request_error"),
    ("request_too_large", 413, "invalid_request_error"),
    ("unsupported_media_type", 415, "invalid_request_error"),
    ("request_header_fields_too_large", 431, "invalid_request_error"),
]


@pytest.mark.parametrize(("code", "status", "kind"), GATEWAY)
def test_a_refusal_has_the_status_and_type_of_its_code(
    code: RefusalCode, status: int, kind: ErrorType
) -> None:
    answer = refusal_error(Refusal(code, "Said so.", "n"))
    assert (answer.status, answer.type, answer.code) == (status, kind, code)
    assert_contract_shape(answer)


def test_no_code_is_missing_from_the_table() -> None:
    assert {code for code, *_ in GATEWAY} == set(get_args(RefusalCode))


def test_a_refusal_keeps_its_message_and_param() -> None:
    answer = refusal_error(Refusal("validation_failed", "n: Input should be greater than 0", "n"))
    assert json.loads(answer.body()) == {
        "error": {
            "message": "n: Input should be greater than 0",
            "type": "invalid_request_error",
            "param": "n",
            "code": "validation_failed",
        }
    }


def test_an_internal_error_gives_no_details() -> None:
    answer = refusal_error(Refusal("internal_error", "KeyError: 'secret table'", "x"))
    assert answer == INTERNAL_ERROR
    assert b"secret" not in answer.body()


@pytest.mark.parametrize("message", ["a\nb", "a\r\n\r\nb", "a\u2028b", "a\x85b", "a \x00 b"])
def test_a_refusal_is_one_line(message: str) -> None:
    assert refusal_error(Refusal("bad_request", message)).message == "a b"


def test_a_lone_surrogate_becomes_valid_utf8() -> None:
    assert_contract_shape(refusal_error(Refusal("bad_request", "x \ud800 y")))
    assert_contract_shape(ErrorAnswer(400, "api_error", "x", "\udfff", "\ud800"))


# --- the gateway speaks for a silent provider ----------------------------------------------------------------


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


# --- status, type and code of an upstream error --------------------------------------------------------------

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
    # Not standard, or no error status at all.
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


# --- the sentence --------------------------------------------------------------------------------------------

OPENROUTER_RAW = json.dumps({"error": {"message": "Too hot.", "param": "temperature", "code": None}})
DEBUG = 'Not here. [google.rpc.error_details_ext] { message: "Not here." }'
WORDINGS: list[tuple[str, Any, str]] = [
    ("an object", {"error": {"message": "Too long.", "type": "x", "code": None}}, "Too long."),
    ("a string", {"error": "Too long."}, "Too long."),
    ("a code beside a string", {"code": "Client specified", "error": "Too long."}, "Too long."),
    ("a code as an integer", {"error": {"code": 400, "message": "Too long."}}, "Too long."),
    ("wrapped in an array", [{"error": {"code": 400, "message": "Too long."}}], "Too long."),
    ("flat", {"object": "error", "message": "Too long.", "type": "x", "code": "3051"}, "Too long."),
    ("a message alone", {"message": "Too long."}, "Too long."),
    ("a phrase and a message", {"error": "Bad Request", "message": "Too long."}, "Too long."),
    ("an error that is true", {"error": True, "message": "Too long."}, "Too long."),
    ("detail", {"detail": "Too long."}, "Too long."),
    ("detail in an object", {"detail": {"message": "Too long."}}, "Too long."),
    (
        "detail in a list",
        {
            "detail": [
                {"loc": ["body", "messages", 0], "msg": "Too long."},
                {"loc": ["n"], "msg": "Too big."},
            ]
        },
        "messages.0: Too long.; n: Too big.",
    ),
    (
        "a message in an object",
        {"object": "error", "message": {"detail": [{"loc": ["body", "n"], "msg": "Too big."}]}},
        "n: Too big.",
    ),
    ("fault", {"fault": {"faultstring": "Too long.", "detail": {"errorcode": "x"}}}, "Too long."),
    (
        "faults that both speak",
        {"fault": {"detail": "policies.Quota", "faultstring": "Too long."}},
        "Too long.",
    ),
    ("errors in a list", {"errors": [{"message": "Too long.", "code": 3043}], "success": False}, "Too long."),
    ("strings in a list", {"errors": ["Too long.", "Too hot."]}, "Too long.; Too hot."),
    ("an OAuth description", {"error_description": "Too long."}, "Too long."),
    (
        "the provider behind",
        {"error": {"message": "Provider returned error", "metadata": {"raw": OPENROUTER_RAW}}},
        "Too hot.",
    ),
    (
        "the provider behind in plain words",
        {"error": {"message": "Provider returned error", "metadata": {"raw": "Too busy."}}},
        "Too busy.",
    ),
    (
        "the provider behind says nothing",
        {"error": {"message": "Provider returned error", "metadata": {"raw": "{}"}}},
        "Provider returned error",
    ),
    ("JSON in the message", {"error": {"message": OPENROUTER_RAW}}, "Too hot."),
    ("JSON after other words", {"error": {"message": f"Error code: 400 - {OPENROUTER_RAW}"}}, "Too hot."),
    ("JSON in a string", OPENROUTER_RAW, "Too hot."),
    (
        "a template that was not filled in, before words for programmers",
        {"error": {"message": "$grpcMessage", "details": [{"detail": f"[ORIGINAL ERROR] generic::x: {DEBUG}"}]}},
        "Not here.",
    ),
    ("a string as the body", "Too long.", "Too long."),
    ("brackets that are words", {"error": {"message": "[json.exception] must be x"}}, "[json.exception] must be x"),
    ("angles that are words", {"error": {"message": "<400> Bad.Parameter: no"}}, "<400> Bad.Parameter: no"),
    ("quotes that are words", {"error": {"message": '"gpt" is unknown'}}, '"gpt" is unknown'),
    ("white space", {"error": {"message": " Too\n\t long.\r\n * So\u2028there "}}, "Too long. * So there"),
    ("control characters", {"error": {"message": "Too\x00long\x1b[31m."}}, "Too long [31m."),
    ("half a character", {"error": {"message": "Too \ud83d long."}}, "Too ? long."),
    ("anything but ASCII", {"error": {"message": "参数错误 🎉"}}, "参数错误 🎉"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), [row[1:] for row in WORDINGS], ids=[row[0] for row in WORDINGS])
def test_the_message_is_found_in_a_body_and_in_a_payload(body: Any, message: str) -> None:
    assert upstream_error(400, json.dumps(body).encode()).message == message
    assert upstream_error_in_success(body).message == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"upstream connect error", "upstream connect error"),
        (b"\xef\xbb\xbf" + b'{"error":"Too long."}', "Too long."),
        (b"\xef\xbb\xbf" + b'{"message":"Too long."}', "Too long."),
        (b'\n\n  {"error":"Too long."}\n', "Too long."),
        (b'data: {"error": {"message": "Too long."}}\n\n', "Too long."),
        (b'event: error\ndata: {"type": "error", "error": {"message": "Too long."}}\n\n', "Too long."),
        (b'{"error":"First."}\n{"error":"Second."}', "First."),
        (b"<html><head><title>502 Bad Gateway</title></head><body>x</body></html>", "502 Bad Gateway"),
        (
            b'<!DOCTYPE html>\n<HTML><TITLE lang="en">\nNo &amp; never\n</TITLE><script>{"error":"x"}</script>',
            "No & never",
        ),
        (b'<?xml version="1.0"?><e><title>Gone</title></e>', "Gone"),
    ],
)
def test_the_message_is_found_in_bodies_that_are_not_quite_json(body: bytes, message: str) -> None:
    assert upstream_error(503, body).message == message


SPEECHLESS: list[bytes] = [
    b"",
    b" \n",
    b"null",
    b"5",
    b"true",
    b"{}",
    b"[]",
    b'""',
    b"[1, 2",
    b'{"error": {"mess',
    b'{"error": null}',
    b'{"error": {}}',
    b'{"error": {"message": ""}}',
    b'{"error": {"message": " \\n "}}',
    b'{"error": {"message": {"a": [1]}}}',
    b'{"error": {"code": 5, "type": "x"}}',
    b'{"error": "[object Object]"}',
    b'"[object Object]"',
    b'{"error": {"message": "$grpcMessage"}}',
    b'{"message": "${error}"}',
    b"{'error': {'message': 'Python, not JSON'}}",
    b"undefined",
    b"\xff\xfe\xfd\x00",
    b"Service ferm\xe9",
    b'{"error":"Service ferm\xe9"}',
    b"<html><body><h1>Oops</h1></body></html>",
    b"<html><title></title></html>",
    b"<html><title>cut",
    b"[" * 100_000,
    b'{"error":' * 50_000 + b'"x"' + b"}" * 50_000,
    b'{"error":' * 50_000,
    b'{"error": {"message": ' + b"9" * 5_000 + b"}}",
    b'{"error": "' + b"x" * (1 << 20) + b'"}',
]


@pytest.mark.parametrize("body", SPEECHLESS, ids=lambda body: repr(body[:30]))
def test_without_a_message_a_general_one_names_the_status(body: bytes) -> None:
    answer = upstream_error(503, body)
    assert answer.message == "The provider reported an error (status 503) without a readable explanation."
    assert_contract_shape(answer)


@pytest.mark.parametrize("wrap", [lambda inner: {"error": inner}, lambda inner: [inner]])
def test_a_payload_too_deep_for_recursion_has_no_message(wrap: Callable[[Any], Any]) -> None:
    payload: Any = "at the bottom"
    for _ in range(100_000):
        payload = wrap(payload)
    assert upstream_error_in_success(payload).message.endswith("without a readable explanation.")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"error": {"message": "m", "param": "top_p"}}, "top_p"),
        ({"error": {"message": "m", "param": None}}, None),
        ({"error": {"message": "m", "param": 5}}, None),
        ({"error": {"message": "m", "param": ""}}, None),
        ({"error": {"message": "m", "param": ["top_p"]}}, None),
        ({"message": "m", "param": "top_p"}, "top_p"),
        ([{"error": {"message": "m", "param": "top_p"}}], "top_p"),
        ({"error": {"message": "x", "metadata": {"raw": OPENROUTER_RAW}}}, "temperature"),
        ({"error": {"message": "m", "param": "a\nb"}}, "a b"),
        ({"error": {"message": "m", "param": KEY}}, "***"),
        ({"error": {"message": "m", "param": "x" * 500}}, "x" * 199 + "…"),
    ],
)
def test_the_param_is_kept_when_it_is_a_string(body: Any, param: str | None) -> None:
    assert upstream_error(400, json.dumps(body).encode()).param == param


def test_a_long_message_is_shortened() -> None:
    message = upstream_error(400, json.dumps({"error": "word " * 10_000}).encode()).message
    assert len(message) == MAX_MESSAGE_CHARS
    assert message.endswith("…")
    exact = "x" * MAX_MESSAGE_CHARS
    assert upstream_error(400, json.dumps({"error": exact}).encode()).message == exact


def test_text_beyond_the_bound_is_not_read() -> None:
    message = "No." + " " * MAX_SENTENCE_CHARS + "[google.rpc.error_details_ext] and more"
    assert upstream_error(400, json.dumps({"error": {"message": message}}).encode()).message == "No."


def test_a_character_reference_of_endless_digits_is_not_read() -> None:
    answer = upstream_error(502, b"<html><title>Busy &#" + b"9" * 9_000 + b";</title>")
    assert answer.code == "upstream_error"


# --- what may not be shown -----------------------------------------------------------------------------------


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
    ("said", "shown"),
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
def test_the_vendors_model_id_becomes_the_slug_when_it_is_a_whole_token(said: str, shown: str | None) -> None:
    body = json.dumps({"error": said}).encode()
    assert upstream_error(404, body, NAMES).message == (shown or said)
    assert upstream_error_in_success({"error": said}, names=NAMES).message == (shown or said)


# --- errors inside a success ---------------------------------------------------------------------------------

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


# --- whatever comes ------------------------------------------------------------------------------------------

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


@settings(max_examples=150, deadline=None)
@given(
    status=st.integers(-1000, 2000), body=st.binary(max_size=200) | PAYLOADS.map(lambda p: json.dumps(p).encode())
)  # fmt: skip
def test_any_status_with_any_body_is_the_contracts_error(status: int, body: bytes) -> None:
    answer = upstream_error(status, body, {"gpt": "slug"}, ["secret"])
    assert 400 <= answer.status <= 599
    assert_contract_shape(answer)


@settings(max_examples=150, deadline=None)
@given(payload=PAYLOADS)
def test_any_payload_is_the_contracts_error(payload: Any) -> None:
    answer = upstream_error_in_success(payload)
    assert_contract_shape(answer)
    assert not answer.message.startswith(("{", "[{", '["'))
    assert isinstance(is_error_payload(payload), bool)
