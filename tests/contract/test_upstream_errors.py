"""Contract, "Errors": the errors of providers, with the contract's status, code, type and shape."""

from typing import Any

import pytest
from conftest import Chat
from rig.configuration import PROVIDER_KEY
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.scripts import (
    Received,
    Script,
    whole,
)
from rig.upstream import Upstream

TYPES = {
    "invalid_request_error",
    "authentication_error",
    "permission_denied",
    "rate_limit_error",
    "api_error",
}


NORMALIZED: list[tuple[int, int, str, str]] = [
    (400, 400, "invalid_request_error", "invalid_request_error"),
    (401, 401, "invalid_api_key", "authentication_error"),
    (402, 402, "invalid_request_error", "invalid_request_error"),
    (403, 403, "permission_denied", "permission_denied"),
    (404, 404, "model_not_found", "invalid_request_error"),
    (405, 405, "invalid_request_error", "invalid_request_error"),
    (408, 408, "invalid_request_error", "invalid_request_error"),
    (409, 409, "invalid_request_error", "invalid_request_error"),
    (413, 413, "invalid_request_error", "invalid_request_error"),
    (415, 415, "invalid_request_error", "invalid_request_error"),
    (418, 418, "invalid_request_error", "invalid_request_error"),
    (422, 422, "invalid_request_error", "invalid_request_error"),
    (429, 429, "rate_limit_exceeded", "rate_limit_error"),
    (500, 500, "upstream_error", "api_error"),
    (501, 501, "upstream_error", "api_error"),
    (502, 502, "upstream_error", "api_error"),
    (503, 503, "upstream_error", "api_error"),
    (504, 504, "upstream_error", "api_error"),
    # These statuses are not standard, or a client of this contract may not follow them.
    (529, 502, "upstream_error", "api_error"),
    (520, 502, "upstream_error", "api_error"),
    (599, 502, "upstream_error", "api_error"),
    (600, 502, "upstream_error", "api_error"),
    (999, 502, "upstream_error", "api_error"),
    (302, 502, "upstream_error", "api_error"),
    (304, 502, "upstream_error", "api_error"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("status", "becomes", "code", "kind"), NORMALIZED)
def test_an_upstream_error_is_normalized(
    chat: Chat,
    gateway: Gateway,
    upstream: Upstream,
    status: int,
    becomes: int,
    code: str,
    kind: str,
    stream: bool,
) -> None:
    body = b"" if status == 304 else {"error": {"message": "The vendor says no.", "type": "t", "code": "c"}}
    upstream.behave(whole(body, status, [("Location", "http://127.0.0.1:9/")]))
    answer = chat(stream=stream)
    error = assert_error(answer, becomes, code, kind)
    if body:
        assert error["message"] == "The vendor says no."
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["status"], row["error_code"], row["retail_nanousd"]) == (becomes, code, 0)
    assert row["usage_source"] == "none"


WORDINGS: dict[str, Any] = {
    "an object": {"error": {"message": "Too long.", "type": "x", "param": "messages", "code": None}},
    "a string": {"error": "Too long."},
    "an array of one": [{"error": {"code": 400, "message": "Too long.", "status": "INVALID_ARGUMENT"}}],
    "flat": {"object": "error", "message": "Too long.", "type": "x", "param": None, "code": 3051},
    "message alone": {"message": "Too long."},
    "detail": {"detail": "Too long."},
    "detail in a list": {
        "detail": [{"loc": ["body", "messages"], "msg": "Too long.", "type": "value_error"}]
    },
    "fault": {"fault": {"faultstring": "Too long.", "detail": {"errorcode": "x"}}},
    "code as an integer": {"error": {"message": "Too long.", "type": "x", "code": 400}},
    "code and string": {"code": "Some error", "error": "Too long."},
}


@pytest.mark.parametrize("name", WORDINGS)
def test_the_message_is_found_in_each_form_of_error_body(chat: Chat, upstream: Upstream, name: str) -> None:
    upstream.behave(whole(WORDINGS[name], 400))
    error = assert_error(chat(), 400, "invalid_request_error", "invalid_request_error")
    assert "Too long." in error["message"]


@pytest.mark.parametrize("blanks", [60_000, 900_000])
def test_an_error_with_a_long_run_of_blanks_is_answered(chat: Chat, upstream: Upstream, blanks: int) -> None:
    def repeat(request: Received) -> Script:
        said = request.json()["messages"][0]["content"]
        return whole({"error": {"message": f"Invalid value: '{said}'.", "type": "x"}}, 400)

    upstream.behave(repeat)
    answer = chat(messages=[{"role": "user", "content": f"a{' ' * blanks}b"}])
    error = assert_error(answer, 400, "invalid_request_error", "invalid_request_error")
    assert error["message"].startswith("Invalid value: 'a")


UNREADABLE: dict[str, tuple[bytes, str | None]] = {
    "HTML": (b"<html><body><h1>502 Bad Gateway</h1><a href='x'>nginx</a></body></html>", "text/html"),
    "plain text": (b"upstream connect error", "text/plain"),
    "empty": (b"", "application/json"),
    "empty without a type": (b"", None),
    "half a JSON": (b'{"error": {"mess', "application/json"),
    "no UTF-8": (b"\xff\xfe\xfd", "application/json"),
    "a number": (b"5", "application/json"),
    "null": (b"null", "application/json"),
    "an empty object": (b"{}", "application/json"),
    "an empty array": (b"[]", "application/json"),
    "a message that is no text": (b'{"error":{"message":{"a":[1]}}}', "application/json"),
    "an empty message": (b'{"error":{"message":""}}', "application/json"),
    "JSON called a stream": (b'{"error":{"message":"x"}}', "text/event-stream"),
    "a megabyte": (b'{"error":{"message":"' + b"x" * 1_000_000 + b'"}}', "application/json"),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", UNREADABLE)
def test_an_error_that_cannot_be_read_still_has_the_contracts_shape(
    chat: Chat, upstream: Upstream, name: str, stream: bool
) -> None:
    body, kind = UNREADABLE[name]
    upstream.behave(whole(body, 503, content_type=kind))
    error = assert_error(chat(stream=stream), 503, "upstream_error", "api_error")
    assert "<" not in error["message"]
    assert len(error["message"]) < 10_000


SPOKEN_KEYS = [
    {"error": {"message": f"Incorrect API key provided: {PROVIDER_KEY}."}},
    {"error": f"key {PROVIDER_KEY} is wrong"},
    {"message": f"Authorization: Bearer {PROVIDER_KEY}"},
    {"error": {"message": "no", "param": PROVIDER_KEY, "code": PROVIDER_KEY}},
]


@pytest.mark.parametrize("status", [200, 401, 500])
@pytest.mark.parametrize("body", SPOKEN_KEYS)
def test_a_key_that_the_provider_repeats_does_not_reach_the_client(
    chat: Chat, upstream: Upstream, body: Any, status: int
) -> None:
    upstream.behave(whole(body, status))
    answer = chat()
    assert answer.status_code >= 400
    assert PROVIDER_KEY not in answer.text
    assert PROVIDER_KEY not in str(answer.headers)


@pytest.mark.parametrize("said", ["vendor/large-2026", "models/vendor/large-2026"])
@pytest.mark.parametrize("status", [200, 404])
def test_an_error_names_the_model_by_its_slug(chat: Chat, upstream: Upstream, status: int, said: str) -> None:
    upstream.behave(whole({"error": {"message": f"The model `{said}` does not exist."}}, status))
    error = chat(model="tester-large").json()["error"]
    assert "tester-large" in error["message"]
    assert "vendor/large-2026" not in error["message"]


def test_every_error_type_is_one_of_the_contracts_five() -> None:
    assert {kind for *_, kind in NORMALIZED} <= TYPES
