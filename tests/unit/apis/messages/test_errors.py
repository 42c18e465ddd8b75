"""Each error has Anthropic's type, and the message and code of the gateway's own."""

import json

import anthropic
import httpx2
import pytest
from anthropic.types import ErrorResponse

from addon.apis.messages.errors import error_body, error_event, error_type
from addon.apis.messages.schema import validate
from addon.text.errors import REFUSALS, ErrorAnswer, refusal_error, upstream_error
from policies.refusal import Refusal, RefusalCode

REFUSED: dict[RefusalCode, str] = {
    "bad_request": "invalid_request_error",
    "invalid_state": "invalid_request_error",
    "validation_failed": "invalid_request_error",
    "invalid_api_key": "authentication_error",
    "payment_required": "billing_error",
    "byok_required": "permission_error",
    "not_found": "not_found_error",
    "model_not_found": "not_found_error",
    "method_not_allowed": "invalid_request_error",
    "request_timeout": "invalid_request_error",
    "request_too_large": "request_too_large",
    "unsupported_media_type": "invalid_request_error",
    "request_header_fields_too_large": "invalid_request_error",
    "rate_limit_exceeded": "rate_limit_error",
    "internal_error": "api_error",
    "rate_limit_unavailable": "overloaded_error",
}


def test_every_refusal_has_a_type():
    assert {code: error_type(status) for code, (status, _) in REFUSALS.items()} == REFUSED


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (422, "invalid_request_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
        (529, "api_error"),
    ],
)
def test_a_providers_error_has_the_type_of_its_status(status: int, kind: str):
    assert error_type(upstream_error(status, b"").status) == kind


def test_the_body_is_read_by_the_sdk():
    refusal = Refusal("payment_required", "The monthly limit of $5 is reached.", "max_tokens")
    body = error_body(refusal_error(refusal), "id-1")
    answer = httpx2.Response(402, content=body, request=httpx2.Request("POST", "http://x/v1/messages"))
    error = anthropic.Anthropic(api_key="x")._make_status_error_from_response(answer)
    assert isinstance(error, anthropic.PaymentRequiredError)
    assert (error.type, error.api_message, error.error_code) == (
        "billing_error",
        refusal.message,
        "payment_required",
    )
    assert json.loads(body) == {
        "type": "error",
        "error": {
            "type": "billing_error",
            "message": refusal.message,
            "details": {"error_code": "payment_required", "param": "max_tokens"},
        },
        "request_id": "id-1",
    }
    assert ErrorResponse.model_validate_json(body).request_id == "id-1"


def test_in_a_stream_it_is_an_event():
    error = ErrorAnswer(502, "api_error", "upstream_error", "half a pair: \ud800\nof lines")
    event = error_event(error, "id-1")
    kind, data, *rest = event.split(b"\n")
    assert (kind, rest) == (b"event: error", [b"", b""])
    assert json.loads(data.removeprefix(b"data: "))["error"]["message"] == error.message


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (429, "rate_limit_error"), (500, "api_error")]
    + [(status, "overloaded_error") for status in (502, 503, 504, 529)],
)
def test_the_type_in_a_stream_says_whether_another_try_may_help(status: int, kind: str):
    event = error_event(ErrorAnswer(status, "api_error", "some_code", "It broke."), "id-1")
    assert json.loads(event.partition(b"data: ")[2])["error"]["type"] == kind


def test_the_tool_runner_of_the_sdk_goes_on_without_a_thread():
    """These details are those for which its Python SDK 2.14 sends all messages again, without the field."""
    with pytest.raises(Refusal) as caught:
        validate(
            {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "thread": {"type": "create"}}
        )
    error = json.loads(error_body(refusal_error(caught.value), "id-1"))["error"]
    assert error["type"] == "invalid_request_error" and "Send all messages" in error["message"]
    assert error["details"] == {
        "error_code": "thread_unsupported_request",
        "unsupported": ["thread"],
        "param": "thread",
    }
