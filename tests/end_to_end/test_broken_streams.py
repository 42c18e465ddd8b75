"""The ways in which a provider's stream may break or fall silent, and what client and ledger get then."""

import json
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.gateway import Gateway
from rig.memory import resident_bytes
from rig.raw_clients import Answer, RawClient, request_bytes
from rig.scripts import (
    CLOSE,
    DONE,
    RESET,
    UNTIL_CLIENT_LEAVES,
    USAGE,
    Script,
    chunk,
    chunked,
    event,
    ordinary,
    response_head,
    until_close,
)
from rig.streams import HI, PATH, STREAMED, ask_for_stream
from rig.upstream import Upstream


def _one_error_and_no_done(answer: Answer) -> dict[str, Any]:
    """Check that the last event is the contract's error, the only one, and that nothing claims success."""
    assert b"[DONE]" not in answer.body
    *_, last = [line for line in answer.body.split(b"\n") if line.startswith(b"data:")]
    assert answer.body.count(b'"error"') == 1
    assert answer.body.endswith(b"\n\n")
    error: dict[str, Any] = json.loads(last.removeprefix(b"data:"))["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("api_error", "upstream_error")
    return error


BREAKS_OFF: dict[str, Script] = {
    "between events": chunked(HI, event(chunk(finish="stop")), CLOSE),
    "with a reset": chunked(HI, event(chunk(finish="stop")), RESET),
    "inside an event": chunked(HI, event(chunk(finish="stop")), b"data: {", CLOSE),
    "after the usage": chunked(HI, event(chunk(finish="stop")), event(chunk(usage=USAGE)), CLOSE),
    "with nothing but the end": chunked(event(chunk(finish="stop")), CLOSE),
    "before its length": (
        response_head(200, [("Content-Type", "text/event-stream"), ("Content-Length", "9999")]),
        HI,
        event(chunk(finish="stop")),
        CLOSE,
    ),
}


@pytest.mark.parametrize("name", BREAKS_OFF)
def test_a_stream_that_breaks_off_after_the_end_of_every_choice_is_complete(
    raw: RawClient, gateway: Gateway, upstream: Upstream, name: str
) -> None:
    upstream.behave(BREAKS_OFF[name])
    ask_for_stream(raw, gateway)
    answer = raw.read_answer()
    assert answer.complete
    assert b'"finish_reason":"stop"' in answer.body
    assert answer.body.endswith(DONE)
    assert b'"error"' not in answer.body
    row = gateway.wait_for_row(answer.header("x-request-id") or "")
    assert (row["status"], row["error_code"], row["finish_reason"]) == (200, None, "stop")


@pytest.mark.parametrize("sent", [DONE, event(chunk(usage=USAGE)) + DONE, b": wait\n\n" + DONE])
def test_a_stream_without_a_choice_is_a_failure(
    raw: RawClient, gateway: Gateway, upstream: Upstream, sent: bytes
) -> None:
    upstream.behave(chunked(sent))
    ask_for_stream(raw, gateway)
    answer = raw.read_answer()
    assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_error")


CUTS_OFF: dict[str, Script] = {
    "inside an event": chunked(HI, HI[:30], CLOSE),
    "inside an event, with a proper end": chunked(HI, HI[:30]),
    "between events": chunked(HI, CLOSE),
    "between events, with a reset": chunked(HI, RESET),
    "inside an HTTP chunk": (*chunked(HI, finish=False), b"ff\r\ndata: {", CLOSE),
    "by a bad chunk size": (*chunked(HI, finish=False), b"zz\r\n", UNTIL_CLIENT_LEAVES),
    "before its length": (
        response_head(200, [("Content-Type", "text/event-stream"), ("Content-Length", "9999")]),
        HI,
        CLOSE,
    ),
    "until the connection ends": until_close(HI, HI[:30]),
    "by an event that is no JSON": chunked(HI, b"data: {oops}\n\n", DONE),
    "by an event that is no object": chunked(HI, b"data: 5\n\n", DONE),
    "by an event that is no UTF-8": chunked(HI, b'data: {"a":"\xff"}\n\n', DONE),
}


@pytest.mark.parametrize("name", CUTS_OFF)
def test_a_stream_that_breaks_ends_with_one_error_event_and_the_connection_serves_the_next_call(
    raw: RawClient, gateway: Gateway, upstream: Upstream, name: str
) -> None:
    upstream.behave(CUTS_OFF[name])
    ask_for_stream(raw, gateway)
    answer = raw.read_answer()
    assert (answer.status, answer.complete) == (200, True)
    assert b'"hi"' in answer.body
    _one_error_and_no_done(answer)
    row = gateway.wait_for_row(answer.header("x-request-id") or "")
    assert row["error_code"] == "upstream_error"
    assert row["usage_source"] == "estimated"
    assert row["completion_tokens"] > 0
    upstream.behave(ordinary)
    ask_for_stream(raw, gateway)
    assert raw.read_answer().body.endswith(DONE)


def test_a_client_of_http_1_0_knows_a_failed_stream_is_over_by_the_close(
    raw: RawClient, gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(CUTS_OFF["between events"])
    raw.send(request_bytes("POST", PATH, gateway.headers.items(), STREAMED).replace(b"HTTP/1.1", b"HTTP/1.0"))
    answer = raw.read_head()
    answer.body = raw.read_to_close()
    _one_error_and_no_done(answer)


def test_a_pooling_client_loses_no_call_after_a_failed_stream(gateway: Gateway, upstream: Upstream) -> None:
    body = {"messages": HELLO, "stream": True}
    with httpx.Client(headers=gateway.headers, timeout=BOUND_S, trust_env=False) as client:
        for number in range(20):
            upstream.behave(CUTS_OFF["between events"] if number % 2 == 0 else ordinary)
            answer = client.post(gateway.url + PATH, json=body)
            assert answer.text.endswith("data: [DONE]\n\n") == (number % 2 == 1)


def test_usage_that_a_provider_reported_before_it_broke_counts(
    raw: RawClient, gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(chunked(HI, event(chunk("x", usage=USAGE)), CLOSE))
    ask_for_stream(raw, gateway)
    answer = raw.read_answer()
    _one_error_and_no_done(answer)
    row = gateway.wait_for_row(answer.header("x-request-id") or "")
    assert (row["usage_source"], row["completion_tokens"]) == ("provider", 2)


ENDLESS: dict[str, bytes] = {
    "a line": b"data: " + b"x" * 65_536,
    "a comment": b": " + b"x" * 65_536,
    "an event of many lines": b"data: x\n" * 8_192,
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_event_gets_an_error_and_no_growth(
    raw: RawClient, gateway: Gateway, upstream: Upstream, name: str
) -> None:
    piece = ENDLESS[name]
    more = piece if name == "an event of many lines" else b"x" * 65_536
    upstream.behave(chunked(HI, piece, *(more for _ in range(1024)), UNTIL_CLIENT_LEAVES))
    before = resident_bytes(gateway.pid)
    ask_for_stream(raw, gateway)
    answer = raw.read_answer()
    _one_error_and_no_done(answer)
    assert len(answer.body) < 32 << 20
    assert upstream.last.client_left.wait(BOUND_S)
    assert resident_bytes(gateway.pid) - before < 48 << 20


@pytest.mark.parametrize("more", [[], [b"x" * 65_536] * 32], ids=["silent", "still talking"])
def test_the_upstream_connection_of_a_broken_stream_is_closed(
    raw: RawClient, gateway: Gateway, upstream: Upstream, more: list[bytes]
) -> None:
    upstream.behave(chunked(HI, b"data: {oops}\n\n", *more, UNTIL_CLIENT_LEAVES))
    ask_for_stream(raw, gateway)
    _one_error_and_no_done(raw.read_answer())
    assert upstream.last.client_left.wait(BOUND_S)


@pytest.fixture(scope="module")
def impatient_gateway(start_gateway: StartGateway) -> Gateway:
    return start_gateway(sections={"upstream": {"idle_timeout_s": 1}})


def test_silence_inside_a_stream_ends_it_with_an_error(
    impatient_gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(chunked(HI, UNTIL_CLIENT_LEAVES))
    with RawClient(impatient_gateway.url) as raw:
        ask_for_stream(raw, impatient_gateway)
        answer = raw.read_answer()
    _one_error_and_no_done(answer)
    assert upstream.last.client_left.wait(BOUND_S)
    row = impatient_gateway.wait_for_row(answer.header("x-request-id") or "")
    assert row["error_code"] == "upstream_error"


def test_silence_after_the_end_of_every_choice_is_no_error(
    impatient_gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(chunked(HI, event(chunk(finish="stop")), UNTIL_CLIENT_LEAVES))
    with RawClient(impatient_gateway.url) as raw:
        ask_for_stream(raw, impatient_gateway)
        answer = raw.read_answer()
    assert answer.body.endswith(b'"finish_reason":"stop"}]}\n\n' + DONE)
    row = impatient_gateway.wait_for_row(answer.header("x-request-id") or "")
    assert (row["status"], row["error_code"]) == (200, None)


def test_silence_after_the_head_alone_ends_the_call(start_gateway: StartGateway, upstream: Upstream) -> None:
    hasty_gateway = start_gateway(sections={"upstream": {"first_byte_timeout_s": 1}})
    upstream.behave(
        (
            response_head(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")]),
            UNTIL_CLIENT_LEAVES,
        )
    )
    with RawClient(hasty_gateway.url) as raw:
        ask_for_stream(raw, hasty_gateway)
        answer = raw.read_answer()
    assert b"upstream_error" in answer.body
    assert b"[DONE]" not in answer.body
    assert upstream.last.client_left.wait(BOUND_S)
