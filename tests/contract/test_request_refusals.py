"""Contract, "Errors": requests that the gateway refuses before it asks a provider, and the order of its checks."""

import gzip
import json
from typing import Any

import httpx
import pytest
from conftest import HELLO, Chat
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.raw_clients import RawClient, request_bytes
from rig.upstream import Upstream

PATH = "/v1/chat/completions"


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
    "/v1/moderations",
    "/healthz",
    "/readyz",
    "/metrics",
    "/admin",
    "/robots.txt",
]
GOOD = json.dumps({"messages": HELLO}).encode()


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
