"""Errors of the gateway itself: status, type, code and shape of the contract."""

import json
from typing import get_args

import pytest
from rig.error_answers import assert_contract_shape

from addon.text.errors import INTERNAL_ERROR, ErrorAnswer, ErrorType, refusal_error
from policies.refusal import Refusal, RefusalCode

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
