"""Contract, "Errors": providers that send no completion, break off, or can't be reached."""

import json
from typing import Any

import pytest
from conftest import HELLO, Chat, StartGateway
from rig.configuration import SURE_TO_RESEND
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
    whole,
)
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
GOOD = json.dumps({"messages": HELLO}).encode()
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
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(program=SURE_TO_RESEND)

    def closes_when_used_again(request: Received) -> Script:
        return (CLOSE,) if request.nth > 1 else ordinary(request)

    upstream.behave(closes_when_used_again)
    with RawClient(gateway.url) as client:
        for _ in range(3):
            client.send(gateway.chat_bytes())
            assert client.read_answer().status == 200
    gateway.wait_until(lambda: len(gateway.ledger_rows()) == 3)
    found = [(row["status"], row["attempts"], row["resends"]) for row in gateway.ledger_rows()]
    assert found == [(200, 1, 0), (200, 1, 1), (200, 1, 1)]


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
