"""Each way in which a call may end: the client, the provider's connection, the hold and the row.

The table in docs/call-ends.md names a test in each line: of this file, test_call_ends_with_the_process.py or
test_mitmproxy_facts.py.
"""

import json
import re
import ssl
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.ending_calls import (
    PATH,
    WAYS,
    Caller,
    ask,
    count_left_calls,
    faulty_settings,
    holds_of,
    no_row,
    row_of,
)
from rig.gateway import Gateway
from rig.raw_clients import RawClient, request_bytes
from rig.raw_http2_client import RawHttp2Client
from rig.scripts import (
    CLOSE,
    DONE,
    RESET,
    UNTIL_CLIENT_LEAVES,
    USAGE,
    Gate,
    chunk,
    chunked,
    completion,
    event,
    whole,
)
from rig.upstream import Upstream

OWN_FILES = [Path(__file__).name, "test_call_ends_with_the_process.py"]


@pytest.fixture(scope="module")
def gateways(start_gateway: StartGateway, secure_sections: dict[str, Any]) -> dict[str, Gateway]:
    """A gateway for HTTP/1 without TLS, and one for HTTP/2."""
    settings, keys = faulty_settings()
    made = {
        "HTTP/1": start_gateway(**settings),
        "HTTP/2": start_gateway(**settings, sections=secure_sections),
    }
    for gateway in made.values():
        gateway.keys = keys
    return made


@pytest.fixture(params=WAYS, ids=" ".join)
def caller(
    request: pytest.FixtureRequest, gateways: dict[str, Gateway], upstream: Upstream, trusting: ssl.SSLContext
) -> Caller:
    assert upstream.requests == []
    version, way = request.param
    return Caller(gateways[version], way, trusting)


@pytest.fixture
def plain(gateways: dict[str, Gateway], upstream: Upstream) -> Gateway:
    assert upstream.requests == []
    return gateways["HTTP/1"]


# The client leaves.


def test_a_client_leaves_before_its_request_is_in(caller: Caller, upstream: Upstream) -> None:
    gateway, before = caller.gateway, count_left_calls(caller.gateway)
    with no_row(gateway):
        caller.leave_within_body()
        gateway.wait_until(lambda: count_left_calls(gateway) == before + 1)
    assert upstream.requests == []


def test_a_client_leaves_before_its_call_was_sent(caller: Caller) -> None:
    user = f"unsent {caller.gateway.url} {caller.way}"

    def is_held() -> None:
        caller.gateway.wait_until(lambda: len(holds_of(caller.gateway)) == 1)

    caller.leave(seen=b"", ready=is_held, model="deaf", user=user)
    row = row_of(caller.gateway, user)
    assert (row["status"], row["error_code"]) == (499, "client_disconnected")
    assert (row["usage_source"], row["retail_nanousd"]) == ("none", 0)


def test_a_client_leaves_a_running_stream(caller: Caller, upstream: Upstream) -> None:
    user = f"running {caller.gateway.url} {caller.way}"
    upstream.behave(chunked(event(chunk("yes")), UNTIL_CLIENT_LEAVES))
    caller.leave(seen=b"yes", ready=lambda: None, stream=True, user=user)
    assert upstream.last.client_left.wait(BOUND_S)
    row = row_of(caller.gateway, user)
    assert (row["status"], row["error_code"], row["usage_source"]) == (
        499,
        "client_disconnected",
        "estimated",
    )
    assert row["completion_tokens"] == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_leaves_an_answer_whose_usage_comes(
    caller: Caller, upstream: Upstream, stream: bool
) -> None:
    user, gate = f"read on {caller.gateway.url} {caller.way} {stream}", Gate()
    ended = event(chunk("yes")) + event(chunk(finish="stop"))
    rest = event(chunk(usage=USAGE)) + DONE
    upstream.behave(chunked(ended, gate, rest) if stream else (gate, *whole(completion())))
    caller.leave(seen=b"yes" if stream else b"", ready=upstream.wait_for_requests, stream=stream, user=user)
    assert not upstream.last.client_left.is_set()
    gate.open()
    row = row_of(caller.gateway, user)
    assert (row["status"], row["error_code"], row["usage_source"]) == (499, "client_disconnected", "provider")
    assert row["completion_tokens"] == USAGE["completion_tokens"]


@pytest.mark.parametrize("version", ["HTTP/1", "HTTP/2"])
def test_a_client_takes_nothing(
    gateways: dict[str, Gateway], upstream: Upstream, trusting: ssl.SSLContext, version: str
) -> None:
    gateway, user = gateways[version], f"takes nothing by {version}"
    # Comments alone would end the stream after 1 MiB. However many of the 40 parts are relayed, they are one token.
    part = [event(chunk("y")), *[b": " + b"x" * 65_536 + b"\n\n"] * 10]
    upstream.behave(chunked(*part * 40, UNTIL_CLIENT_LEAVES))
    if version == "HTTP/2":
        body = json.dumps({"messages": HELLO, "model": "unseen", "stream": True, "user": user}).encode()
        headers = [(name.lower(), value) for name, value in gateway.headers.items()]
        with RawHttp2Client(gateway.url, trusting) as client:
            client.post_without_reading(PATH, headers, body)
            row = row_of(gateway, user)
    else:
        with RawClient(gateway.url) as raw:
            raw.send(gateway.chat_bytes(model="unseen", stream=True, user=user))
            row = row_of(gateway, user)
            assert not raw.read_answer().complete
    assert upstream.last.client_left.wait(BOUND_S)
    assert (row["status"], row["error_code"], row["usage_source"]) == (
        499,
        "client_disconnected",
        "estimated",
    )
    assert row["completion_tokens"] == 1, "the time that the gateway waited for its client costs nothing"


@pytest.mark.parametrize("broken", [b"zz\r\n", b"5\r\n{}\r\n0\r\n\r\n"])
def test_a_client_breaks_its_framing(plain: Gateway, upstream: Upstream, broken: bytes) -> None:
    headers = [*plain.headers.items(), ("Transfer-Encoding", "chunked")]
    with no_row(plain), RawClient(plain.url) as raw:
        raw.send(request_bytes("POST", PATH, headers, b"1\r\n{\r\n" + broken))
        answer = raw.read_answer()
        assert (answer.status, answer.json()["error"]["code"]) == (400, "bad_request")
        assert answer.header("connection") == "close"
        assert raw.is_closed_by_peer()
    assert upstream.requests == []


# The provider breaks.


@pytest.mark.parametrize("stream", [False, True])
def test_a_provider_breaks_before_the_first_byte(plain: Gateway, upstream: Upstream, stream: bool) -> None:
    upstream.behave((RESET,))
    user = f"broke at once {stream}"
    answer = ask(plain, stream=stream, user=user)
    assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_error")
    row = row_of(plain, user)
    assert (row["status"], row["attempts"], row["retail_nanousd"]) == (502, 1, 0)
    assert upstream.last.client_left.wait(BOUND_S)


def test_a_provider_breaks_before_the_first_byte_and_another_answers(
    plain: Gateway, upstream: Upstream
) -> None:
    upstream.behave(lambda _: (RESET,) if len(upstream.requests) == 1 else whole(completion()))
    answer = ask(plain, "net", user="moved")
    assert (answer.status, answer.header("x-gateway-fallback")) == (200, "true")
    row = row_of(plain, "moved")
    assert (row["status"], row["attempts"], row["model_slug"]) == (200, 2, "unseen")


def test_a_provider_breaks_after_the_first_byte(plain: Gateway, upstream: Upstream) -> None:
    upstream.behave(chunked(event(chunk("yes")), CLOSE))
    answer = ask(plain, "net", stream=True, user="broke later")
    assert (answer.status, answer.complete) == (200, True)
    assert answer.body.count(b'"error"') == 1
    assert b"[DONE]" not in answer.body
    row = row_of(plain, "broke later")
    assert (row["status"], row["attempts"], row["usage_source"]) == (502, 1, "estimated")


# The gateway fails.


UNSENT = ["admit", "read_request", "find_route", "reserve_first", "make_hold_request", "make_attempt"]
SENT = ["origin_of", "send", "take_head", "open_reader", "_end"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("step", UNSENT)
def test_the_gateway_fails_before_a_call_is_sent(
    plain: Gateway, upstream: Upstream, step: str, stream: bool
) -> None:
    with no_row(plain):
        answer = ask(plain, faulty=step, stream=stream)
        assert (answer.status, answer.json()["error"]["code"]) == (500, "internal_error")
    assert upstream.requests == []


@pytest.mark.parametrize("step", SENT)
def test_the_gateway_fails_in_an_attempt(plain: Gateway, step: str) -> None:
    answer = ask(plain, faulty=step, user=step)
    assert (answer.status, answer.json()["error"]["code"]) == (500, "internal_error")
    row = row_of(plain, step)
    assert (row["status"], row["error_code"]) == (500, "internal_error")
    assert ask(plain).status == 200


def test_the_gateway_fails_in_a_stream(plain: Gateway, upstream: Upstream) -> None:
    gate = Gate()
    upstream.behave(chunked(event(chunk("yes")), gate, event(chunk(finish="stop")), DONE))
    with RawClient(plain.url) as raw:
        headers = plain.headers | {"X-Faulty": "_end"}
        body = json.dumps({"messages": HELLO, "stream": True, "user": "failed later"}).encode()
        raw.send(request_bytes("POST", PATH, headers.items(), body))
        raw.read_head()
        raw.read_chunks_until(b"yes")
        gate.open()
        assert b'"internal_error"' in raw.read_chunks_until(b'"error"')
        assert raw.read_chunk() == b""
    row = row_of(plain, "failed later")
    assert (row["status"], row["error_code"], row["usage_source"]) == (500, "internal_error", "estimated")


def test_the_gateway_fails_in_the_settlement(plain: Gateway) -> None:
    answer = ask(plain, faulty="compute_outcome", user="unsettled")
    assert (answer.status, answer.json()["choices"][0]["message"]["content"]) == (200, "hello")
    row = row_of(plain, "unsettled")
    assert (row["status"], row["error_code"], row["retail_nanousd"]) == (200, None, 0)


# The page.


def test_each_line_of_the_table_names_its_test() -> None:
    page = (ROOT / "docs" / "call-ends.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ")][1:]
    named = [re.findall(r"`(test_\w+)`", line) for line in lines]
    assert [line for line, tests in zip(lines, named, strict=True) if not tests] == []
    own, other = (
        set(
            chain.from_iterable(re.findall(r"^def (test_\w+)", _source(file), re.MULTILINE) for file in files)
        )
        for files in (OWN_FILES, ["test_mitmproxy_facts.py"])
    )
    assert own - set(chain.from_iterable(named)) == {"test_each_line_of_the_table_names_its_test"}
    assert set(chain.from_iterable(named)) <= own | other


def _source(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
