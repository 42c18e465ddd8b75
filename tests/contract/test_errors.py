"""Contract, "Errors" and "Authentication": both error tables, and the shape that all errors share."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from conftest import HELLO, Chat, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import PROVIDER_KEY, key_hash
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.raw_clients import RawClient, request_bytes
from rig.scripts import (
    CLOSE,
    RESET,
    UNTIL_CLIENT_LEAVES,
    Received,
    Script,
    completion,
    ordinary,
    response_head,
    stream_of,
    until_close,
    whole,
)
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
TYPES = {
    "invalid_request_error",
    "authentication_error",
    "permission_denied",
    "rate_limit_error",
    "api_error",
}


# --- authentication ------------------------------------------------------------------------------------------

AUTHORIZATIONS = {
    "none": None,
    "empty": "",
    "no scheme": "{key}",
    "Basic": "Basic {key}",
    "Token": "Token {key}",
    "Bearer alone": "Bearer",
    "Bearer and nothing": "Bearer ",
    "an unknown key": "Bearer tg_" + "0" * 40,
    "not a key": "Bearer sk-0000",
    "a letter more": "Bearer {key}0",
    "a letter less": "Bearer {short}",
    "another case": "Bearer {swapped}",
    "two keys": "Bearer {key} {key}",
    "a comma": "Bearer {key},",
    "a retired key": "Bearer {retired}",
    "the key's hash": "Bearer {hash}",
    "very long": "Bearer " + "x" * 20_000,
}


@pytest.mark.parametrize("name", AUTHORIZATIONS)
def test_a_request_without_an_active_key_gets_401(gateway: Gateway, upstream: Upstream, name: str) -> None:
    key = gateway.key
    names = {
        "key": key,
        "short": key[:-1],
        "swapped": key.swapcase(),
        "retired": gateway.keys["retired"],
        "hash": key_hash(key),
    }
    template = AUTHORIZATIONS[name]
    headers = [] if template is None else [("Authorization", template.format(**names))]
    # Sent as raw bytes, because an HTTP client would not send some of these.
    with RawClient(gateway.url) as raw:
        raw.send(request_bytes("POST", PATH, [*headers, ("Content-Type", "application/json")], GOOD))
        answer = raw.read_answer()
    assert_error(answer, 401, "invalid_api_key", "authentication_error")
    assert upstream.requests == []
    assert key.encode() not in answer.body


@pytest.mark.parametrize("headers", [{"X-Api-Key": "{key}"}, {"Cookie": "key={key}"}, {"Api-Key": "{key}"}])
def test_only_the_authorization_header_carries_the_key(gateway: Gateway, headers: dict[str, str]) -> None:
    filled = {name: value.format(key=gateway.key) for name, value in headers.items()}
    answer = httpx.post(
        gateway.url + PATH, json={"messages": HELLO}, headers=filled, timeout=BOUND_S, trust_env=False
    )
    assert_error(answer, 401, "invalid_api_key", "authentication_error")


# --- paths, methods and bodies -------------------------------------------------------------------------------

NO_SUCH_PATH = [
    "/",
    "/v1",
    "/v1/",
    "/v1/chat",
    "/v1/chat/completions/",
    "/v1/chat/completions/x",
    "/V1/chat/completions",
    "/v1/models/",
    "/v2/chat/completions",
    "/v1//chat/completions",
    "/v1/%63hat/completions",
    "/v1/x/../chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/healthz",
    "/readyz",
    "/metrics",
    "/admin",
    "/robots.txt",
]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", NO_SUCH_PATH)
def test_every_other_path_is_not_found(gateway: Gateway, upstream: Upstream, path: str, method: str) -> None:
    # Sent as raw bytes, because an HTTP client would normalize the path.
    with RawClient(gateway.url) as raw:
        raw.send(request_bytes(method, path, gateway.headers.items(), GOOD))
        answer = raw.read_answer()
    assert_error(answer, 404, "not_found", "invalid_request_error")
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *((method, PATH) for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")),
        *((method, "/v1/models") for method in ("POST", "PUT", "DELETE", "OPTIONS")),
        *((method, "/v1/models/no-such-model") for method in ("POST", "DELETE")),
    ],
)
def test_another_method_is_not_allowed(
    client: httpx.Client, upstream: Upstream, method: str, path: str
) -> None:
    answer = client.request(method, path)
    assert_error(answer, 405, "method_not_allowed", "invalid_request_error")
    assert upstream.requests == []


GOOD = json.dumps({"messages": HELLO}).encode()
BODIES: dict[str, bytes] = {
    "empty": b"",
    "white space": b"  \n",
    "no JSON": b"messages=hello",
    "cut short": GOOD[:-1],
    "something after it": GOOD + b"{}",
    "an array": b"[" + GOOD + b"]",
    "a string": b'"hello"',
    "null": b"null",
    "not UTF-8": GOOD.replace(b"hello", b"\xff\xfe"),
    "UTF-16": GOOD.decode().encode("utf-16"),
    "a lone surrogate in UTF-8": GOOD.replace(b"hello", b"\xed\xa0\x80"),
    "a control character": GOOD.replace(b"hello", b"he\x00llo"),
    "NaN": GOOD[:-1] + b',"temperature":NaN}',
    "Infinity": GOOD[:-1] + b',"temperature":-Infinity}',
    "a number beyond every float": GOOD[:-1] + b',"temperature":1e999}',
    "a duplicate key": GOOD[:-1] + b',"model":"tester-large","model":"tester-small"}',
    "a duplicate key inside": b'{"messages":[{"role":"user","content":"a","content":"b"}]}',
    "too deep": b'{"messages":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "too deep and unknown": GOOD[:-1] + b',"x":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}",
    "a comment": b"/* hello */" + GOOD,
    "single quotes": GOOD.replace(b'"', b"'"),
    "an integer of 10,000 digits": GOOD[:-1] + b',"max_tokens":' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_not_a_valid_json_object_is_refused(
    client: httpx.Client, upstream: Upstream, name: str
) -> None:
    answer = client.post(PATH, content=BODIES[name])
    assert_error(answer, 400, "validation_failed", "invalid_request_error")
    assert upstream.requests == []


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x"]
)
def test_another_content_type_is_unsupported(client: httpx.Client, upstream: Upstream, kind: str) -> None:
    answer = client.post(PATH, content=GOOD, headers={"Content-Type": kind})
    assert_error(answer, 415, "unsupported_media_type", "invalid_request_error")
    assert upstream.requests == []


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/json;x=y"]
)
def test_the_usual_forms_of_the_json_content_type_are_accepted(client: httpx.Client, kind: str) -> None:
    assert client.post(PATH, content=GOOD, headers={"Content-Type": kind}).status_code == 200


def test_a_compressed_body_is_unsupported(client: httpx.Client, upstream: Upstream) -> None:
    answer = client.post(PATH, content=gzip.compress(GOOD), headers={"Content-Encoding": "gzip"})
    assert_error(answer, 415, "unsupported_media_type", "invalid_request_error")
    assert upstream.requests == []


# --- routing -------------------------------------------------------------------------------------------------


def test_a_retired_slug_is_an_invalid_state(chat: Chat, upstream: Upstream) -> None:
    assert_error(chat(model="tester-retired"), 400, "invalid_state", "invalid_request_error")
    assert upstream.requests == []


def test_a_byok_only_model_needs_the_customers_key(chat: Chat, upstream: Upstream) -> None:
    assert_error(chat(model="tester-byok"), 403, "byok_required", "permission_denied")
    assert upstream.requests == []


@pytest.mark.parametrize("body", [{}, {"model": "some-model-of-yesterday"}])
def test_without_a_model_and_a_default_there_is_no_route(
    client: httpx.Client, gateway: Gateway, upstream: Upstream, body: dict[str, Any]
) -> None:
    headers = {"Authorization": f"Bearer {gateway.keys['bare']}"}
    answer = client.post(PATH, json={"messages": HELLO} | body, headers=headers)
    error = assert_error(answer, 400, "bad_request", "invalid_request_error")
    assert error["param"] in ("model", None)
    assert upstream.requests == []


def test_a_provider_without_a_key_is_refused_before_anything_is_sent(chat: Chat, upstream: Upstream) -> None:
    error = assert_error(chat(model="keyless-model"), 403, "byok_required", "permission_denied")
    assert error["param"] == "model"
    assert upstream.requests == []


@pytest.mark.parametrize("model", ["tester-retired", "tester-byok"])
def test_a_refused_call_writes_no_ledger_row(chat: Chat, gateway: Gateway, model: str) -> None:
    refused = chat(model=model).headers["x-request-id"]
    gateway.wait_for_row(chat().headers["x-request-id"])
    assert refused not in [row["id"] for row in gateway.ledger_rows()]


def test_the_checks_run_in_the_order_of_the_contract(client: httpx.Client, gateway: Gateway) -> None:
    bad_key = {"Authorization": "Bearer nobody"}
    for method, path, headers, content, status in (
        ("POST", "/v1/nowhere", bad_key, b"not json", 404),
        ("PUT", PATH, bad_key, b"not json", 405),
        ("POST", PATH, bad_key, b"not json", 401),
        ("POST", PATH, {}, b'{"model":"tester-retired","temperature":"x"}', 400),
    ):
        assert client.request(method, path, headers=headers, content=content).status_code == status


# --- what the upstream answers -------------------------------------------------------------------------------

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


GARBAGE: dict[str, Script] = {
    "HTML": whole(b"<html>hello</html>", content_type="text/html"),
    "empty": whole(b""),
    "half a JSON": whole(b'{"id": "x", "choi'),
    "no UTF-8": whole(b'{"id": "\xff"}'),
    "an array": whole([]),
    "a string": whole("hello"),
    "null": whole(None),
    "an empty object": whole({}),
    "no choices": whole({"id": "x", "object": "chat.completion"}),
    "choices that are none": whole(completion(choices="hello")),
    "too deep": whole(b"[" * 50_000 + b"]" * 50_000),
    "204": (response_head(204),),
    "an unrequested stream": stream_of("hel", "lo"),
    "an error object": whole({"error": {"message": "overloaded", "type": "x"}}),
    "an error as text": whole({"code": "Some error", "error": "overloaded"}),
    "an error in an array": whole([{"error": {"message": "overloaded"}}]),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_a_200_that_is_no_completion_is_an_upstream_error(
    chat: Chat, gateway: Gateway, upstream: Upstream, name: str
) -> None:
    upstream.behave(GARBAGE[name])
    answer = chat()
    error = assert_error(answer, 502, "upstream_error", "api_error")
    assert ("overloaded" in error["message"]) == name.startswith("an error")
    assert gateway.wait_for_row(answer.headers["x-request-id"])["status"] == 502


@pytest.mark.parametrize(("stated", "status"), [(429, 429), (503, 503), (529, 502), ("rate_limited", 502)])
def test_a_200_with_an_error_status_in_its_body_gets_that_status(
    chat: Chat, upstream: Upstream, stated: Any, status: int
) -> None:
    upstream.behave(whole({"error": {"message": "overloaded", "code": stated}}))
    kind = ("rate_limit_exceeded", "rate_limit_error") if status == 429 else ("upstream_error", "api_error")
    assert_error(chat(), status, *kind)


BROKEN: dict[str, Script] = {
    "closes at once": (CLOSE,),
    "resets at once": (RESET,),
    "closes inside the status line": (b"HTTP/1.", CLOSE),
    "closes inside the head": (b"HTTP/1.1 200 OK\r\nContent-Ty", CLOSE),
    "closes before the body": (response_head(200, [("Content-Length", "100")]), CLOSE),
    "closes inside the body": (response_head(200, [("Content-Length", "100")]) + b'{"id":', CLOSE),
    "resets inside the body": (response_head(200, [("Content-Length", "100")]) + b'{"id":', RESET),
    "closes inside a chunk": (response_head(200, [("Transfer-Encoding", "chunked")]) + b"64\r\n{", CLOSE),
    "closes between chunks": (response_head(200, [("Transfer-Encoding", "chunked")]) + b"1\r\n{\r\n", CLOSE),
    "speaks no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n", CLOSE),
    "sends a bad status": (b"HTTP/1.1 9999 Odd\r\n\r\n", CLOSE),
    "sends a bad length": (response_head(200, [("Content-Length", "many")]), CLOSE),
    "sends two lengths": (
        response_head(200, [("Content-Length", "1"), ("Content-Length", "2")]) + b"{}",
        CLOSE,
    ),
    "sends a bad chunk size": (response_head(200, [("Transfer-Encoding", "chunked")]) + b"zz\r\n{}", CLOSE),
    "sends an endless head": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000, UNTIL_CLIENT_LEAVES),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", [name for name in BROKEN if "body" not in name and "chunk" not in name])
def test_an_upstream_that_breaks_before_its_answer_is_an_upstream_error(
    chat: Chat, gateway: Gateway, upstream: Upstream, name: str, stream: bool
) -> None:
    upstream.behave(BROKEN[name])
    answer = chat(stream=stream)
    assert_error(answer, 502, "upstream_error", "api_error")
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["status"], row["error_code"], row["usage_source"]) == (502, "upstream_error", "none")


@pytest.mark.parametrize("name", [name for name in BROKEN if "body" in name or "chunk" in name])
def test_an_upstream_that_breaks_inside_a_whole_answer_is_an_upstream_error(
    chat: Chat, gateway: Gateway, upstream: Upstream, name: str
) -> None:
    upstream.behave(BROKEN[name])
    answer = chat()
    assert_error(answer, 502, "upstream_error", "api_error")
    assert gateway.wait_for_row(answer.headers["x-request-id"])["status"] == 502


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_upstream_that_cannot_be_reached_is_an_upstream_error(
    chat: Chat, gateway: Gateway, stream: bool
) -> None:
    answer = chat(model="refusing-model", stream=stream)
    assert_error(answer, 502, "upstream_error", "api_error")
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["status"], row["provider"], row["attempts"]) == (502, "REFUSING", 1)


def test_the_client_connection_stays_open_after_each_error(gateway: Gateway, upstream: Upstream) -> None:
    with RawClient(gateway.url) as raw:
        for script in (BROKEN["closes at once"], whole(b"", 500), GARBAGE["empty"], ordinary):
            upstream.behave(script)
            raw.send(request_bytes("POST", PATH, gateway.headers.items(), GOOD))
            answer = raw.read_answer()
            assert answer.status == (200 if script is ordinary else 500 if "500" in repr(script) else 502)


def test_a_stale_connection_is_replaced_once_and_is_no_failure(
    chat: Chat, gateway: Gateway, upstream: Upstream
) -> None:
    def closes_when_used_again(request: Received) -> Script:
        return (CLOSE,) if request.nth > 1 else ordinary(request)

    upstream.behave(closes_when_used_again)
    ids = [chat().headers["x-request-id"] for _ in range(3)]
    rows = [gateway.wait_for_row(call) for call in ids]
    assert [(row["status"], row["attempts"]) for row in rows] == [(200, 1)] * 3


def test_an_upstream_that_always_closes_is_asked_at_most_twice(chat: Chat, upstream: Upstream) -> None:
    assert chat().status_code == 200
    upstream.reset()
    upstream.behave((CLOSE,))
    assert_error(chat(), 502, "upstream_error", "api_error")
    assert len(upstream.requests) <= 2


def test_idle_connections_that_closed_cause_no_failure(chat: Chat, upstream: Upstream) -> None:
    for _ in range(3):
        assert chat().status_code == 200
        upstream.close_idle_connections()


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


# --- bounds and timeouts -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strict_gateway(start_gateway: StartGateway) -> Gateway:
    """A gateway that accepts only small bodies, from clients and from providers."""
    sections = {"limits": {"max_request_bytes": 4096}, "upstream": {"max_response_bytes": 8192}}
    return start_gateway(sections=sections)


@pytest.fixture(scope="module")
def hasty_gateway(start_gateway: StartGateway) -> Gateway:
    """A gateway that waits one second for an answer. On a slow machine no call succeeds there."""
    return start_gateway(
        sections={"upstream": {"first_byte_timeout_s": 1, "idle_timeout_s": 1, "whole_timeout_s": 1}}
    )


def _client(gateway: Gateway) -> httpx.Client:
    return httpx.Client(base_url=gateway.url, headers=gateway.headers, timeout=BOUND_S, trust_env=False)


@pytest.fixture
def strict(strict_gateway: Gateway, upstream: Upstream) -> Iterator[httpx.Client]:
    with _client(strict_gateway) as made:
        yield made


@pytest.fixture
def hasty(hasty_gateway: Gateway, upstream: Upstream) -> Iterator[httpx.Client]:
    with _client(hasty_gateway) as made:
        yield made


def _body(**more: Any) -> bytes:
    return json.dumps({"messages": HELLO} | more).encode()


@pytest.mark.parametrize("authorized", [True, False])
def test_a_body_beyond_the_bound_is_too_large_with_and_without_a_length(
    strict: httpx.Client, upstream: Upstream, authorized: bool
) -> None:
    headers = {} if authorized else {"Authorization": "Bearer nobody"}
    body = _body(user="x" * 5000)
    answer = strict.post(PATH, content=body, headers=headers)
    assert_error(answer, 413, "request_too_large", "invalid_request_error")
    if authorized:
        answer = strict.post(PATH, content=iter([body[:100], body[100:]]))
        assert_error(answer, 413, "request_too_large", "invalid_request_error")
    assert upstream.requests == []


def test_a_body_of_exactly_the_bound_is_served(strict: httpx.Client) -> None:
    body = _body(padding="x" * (4096 - len(_body(padding=""))))
    assert len(body) == 4096
    assert strict.post(PATH, content=body).status_code == 200
    assert strict.post(PATH, content=body + b" ").status_code == 413


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_upstream_that_sends_nothing_times_out(
    hasty: httpx.Client, hasty_gateway: Gateway, upstream: Upstream, stream: bool
) -> None:
    upstream.behave((UNTIL_CLIENT_LEAVES,))
    answer = hasty.post(PATH, content=_body(stream=stream))
    assert_error(answer, 504, "upstream_error", "api_error")
    assert upstream.last.client_left.wait(BOUND_S)
    assert len(upstream.requests) == 1
    row = hasty_gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["status"], row["error_code"]) == (504, "upstream_error")


def test_an_upstream_that_stops_inside_a_whole_answer_times_out(
    hasty: httpx.Client, upstream: Upstream
) -> None:
    upstream.behave(
        (
            response_head(200, [("Content-Type", "application/json"), ("Content-Length", "999")]),
            b'{"id":',
            UNTIL_CLIENT_LEAVES,
        )
    )
    answer = hasty.post(PATH, content=_body())
    assert_error(answer, 504, "upstream_error", "api_error")
    assert upstream.last.client_left.wait(BOUND_S)


def test_an_upstream_that_never_accepts_times_out(start_gateway: StartGateway) -> None:
    with _client(start_gateway(sections={"upstream": {"connect_timeout_s": 1}})) as client:
        answer = client.post(PATH, content=_body(model="deaf-model"))
    assert_error(answer, 502, "upstream_error", "api_error")


@pytest.mark.parametrize("has_length", [True, False], ids=["with a length", "without a length"])
def test_a_whole_answer_beyond_the_bound_is_an_upstream_error(
    strict: httpx.Client, upstream: Upstream, has_length: bool
) -> None:
    raw = json.dumps(completion("x" * 10_000)).encode()
    upstream.behave(whole(raw) if has_length else until_close(raw, content_type="application/json"))
    assert_error(strict.post(PATH, content=_body()), 502, "upstream_error", "api_error")


def test_every_error_type_is_one_of_the_contracts_five() -> None:
    assert {kind for *_, kind in NORMALIZED} <= TYPES
