"""Each answer has the header ``Date``: an answer of the provider, an error of a call, and an error of HTTP."""

import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import pytest
from conftest import HELLO
from rig.gateway import Gateway
from rig.raw_clients import Answer, RawClient, request_bytes
from rig.scripts import Script, whole
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
WHOLE = json.dumps({"messages": HELLO}).encode()
STREAM = json.dumps({"messages": HELLO, "stream": True}).encode()


def assert_dated(answer: Answer) -> None:
    [value] = [value for name, value in answer.headers if name == "date"]
    assert value.endswith(" GMT")
    assert abs((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()) < 3600


def post(gateway: Gateway, body: bytes, *more: tuple[str, str]) -> bytes:
    return request_bytes("POST", PATH, [*gateway.headers.items(), *more], body)


def test_each_kind_of_answer_has_a_date(gateway: Gateway, upstream: Upstream) -> None:
    asked: dict[str, tuple[bytes, int]] = {
        "whole": (post(gateway, WHOLE), 200),
        "stream": (post(gateway, STREAM), 200),
        "invalid body": (post(gateway, b"{}"), 400),
        "unknown path": (request_bytes("GET", "/nothing", []), 404),
        "no key": (request_bytes("POST", PATH, [], WHOLE), 401),
        "models": (request_bytes("GET", "/v1/models", []), 200),
        "too large": (post(gateway, b"", ("Content-Length", "999999999")), 413),
        "malformed": (b"GET / HTTP/1.1\r\n folded\r\n\r\n", 400),
        "malformed body": (post(gateway, b"zz\r\n", ("Transfer-Encoding", "chunked")), 400),
        "huge head": (request_bytes("GET", "/", [("x", "y" * 70_000)]), 431),
    }
    for name, (request, status) in asked.items():
        with RawClient(gateway.url) as raw:
            raw.send(request)
            answer = raw.read_answer()
        assert answer.status == status, name
        assert_dated(answer)


FAILURES: dict[str, Script] = {"error": whole({"error": "no"}, 500), "garbage": whole(b"", 200)}


@pytest.mark.parametrize("name", FAILURES)
def test_an_error_of_a_provider_has_the_date_of_the_gateway(
    gateway: Gateway, upstream: Upstream, name: str
) -> None:
    upstream.behave(FAILURES[name])
    with RawClient(gateway.url) as raw:
        raw.send(post(gateway, WHOLE))
        assert_dated(raw.read_answer())
