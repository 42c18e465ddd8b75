"""Behaviour of mitmproxy that a gateway must not have. The numbers are those of docs/decisions/mitmproxy-facts.md."""

import json
import ssl
from typing import Any

import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.gateway import Gateway
from rig.large import sampled
from rig.money import holds
from rig.processes import with_broken_function, with_wire
from rig.raw_clients import RawClient, request_bytes
from rig.raw_http2_client import RawHttp2Client
from rig.scripts import DONE, Gate, chunk, chunked, event
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"


def _body(**changes: Any) -> bytes:
    return json.dumps({"messages": HELLO} | changes).encode()


def _chat(gateway: Gateway, **changes: Any) -> bytes:
    return request_bytes("POST", CHAT, gateway.headers.items(), _body(**changes))


def _start_broken(start_gateway: StartGateway, module: str, owner: str, name: str) -> Gateway:
    # Nothing ends the call of a broken step. A short drain keeps the tests from waiting for it.
    sections = {"listen": {"drain_timeout_s": 1}}
    return start_gateway(program=with_broken_function(module, owner, name), sections=sections)


CALL, ATTEMPT = "addon.calls.call", "addon.calls.attempt_runner"
UNSENT = [
    ("addon.gateway.addon", "", "begin"),
    ("addon.gateway.addon", "", "serve"),
    (CALL, "", "admit"),
    (CALL, "", "read_request"),
    (CALL, "", "find_route"),
    (CALL, "", "reserve_first"),
    (CALL, ".AttemptRunner", "run"),
    (ATTEMPT, ".AttemptRunner", "_connect"),
    (ATTEMPT, "", "request_head"),
]
"""The steps of a call before its request is sent."""

SENT = [
    (ATTEMPT, "", "open_reader"),
    (ATTEMPT, ".AttemptRunner", "_relay"),
    (ATTEMPT, "", "make_answer_headers"),
    ("addon.calls.in_flight", ".InFlightCalls", "note_attempt_end"),
    ("addon.calls.in_flight", "", "compute_outcome"),
    ("addon.calls.in_flight", "", "log_call"),
    ("addon.calls.in_flight", ".InFlightCalls", "settle"),
]
"""The later steps. The last three write the ledger row."""


def _by_name(steps: list[tuple[str, str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("step", steps, ids=[name for _, _, name in steps])


@sampled(every=9)
@_by_name(UNSENT)
def test_1_a_step_that_raises_sends_nothing_upstream(
    start_gateway: StartGateway, upstream: Upstream, step: tuple[str, str, str]
) -> None:
    gateway = _start_broken(start_gateway, *step)
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway))
        answer = client.read_answer()
    assert (answer.status, answer.json()["error"]["code"]) == (500, "internal_error")
    assert upstream.requests == []
    assert gateway.stop() == 0
    assert holds(gateway.folder / "var" / "tollgate.db") == []


@sampled(every=7)
@_by_name(SENT)
@pytest.mark.parametrize("stream", [False, True])
def test_1_a_later_step_that_raises_ends_the_call_and_its_hold(
    start_gateway: StartGateway, upstream: Upstream, step: tuple[str, str, str], stream: bool
) -> None:
    gateway, is_settling = _start_broken(start_gateway, *step), step in SENT[-3:]
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway, stream=stream))
        answer = client.read_answer()
    assert b"vendor" not in answer.body
    assert len(upstream.requests) == 1
    if answer.status != 200:
        assert (answer.status, answer.json()["error"]["code"]) == (500, "internal_error")
    elif not is_settling:
        assert stream, "a whole answer that is none"
        assert b'"internal_error"' in answer.body
        assert b"[DONE]" not in answer.body
    assert gateway.stop() == 0
    if step[2] != "settle":
        assert holds(gateway.folder / "var" / "tollgate.db") == []
        assert len(gateway.ledger_rows()) == 1


@sampled(every=2)
@pytest.mark.parametrize("stream", [False, True])
def test_2_a_reader_that_raises_ends_in_an_error_and_a_row(
    start_gateway: StartGateway, upstream: Upstream, stream: bool
) -> None:
    module, owner = (
        ("addon.answers.stream", ".StreamedAnswerReader")
        if stream
        else ("addon.answers.whole", ".WholeAnswerReader")
    )
    gateway = _start_broken(start_gateway, module, owner, "feed")
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway, stream=stream))
        answer = client.read_answer()
        assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_error")
        client.send(request_bytes("GET", "/v1/models", []))
        assert client.read_answer().status == 200, "the client's connection is closed"
    assert gateway.wait_for_row(lambda _row: True)["error_code"] == "upstream_error"


def test_2_a_piece_without_a_whole_event_does_not_end_the_stream(
    gateway: Gateway, upstream: Upstream
) -> None:
    first, second = event(chunk("one")), event(chunk("two", finish_reason="stop"))
    upstream.behave(chunked(first, second[:20], second[20:], DONE))
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway, stream=True))
        answer = client.read_answer()
    assert answer.complete
    assert b"two" in answer.body
    assert answer.body.endswith(b"data: [DONE]\n\n")


def test_3_a_client_that_leaves_a_stream_has_its_row(gateway: Gateway, upstream: Upstream) -> None:
    gate = Gate()
    upstream.behave(chunked(event(chunk("one")), gate, finish=False))
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway, stream=True))
        head = client.read_head()
        client.read_chunks_until(b"one")
    row = gateway.wait_for_row(head.header("x-request-id") or "")
    gate.open()
    assert (row["status"], row["error_code"]) == (499, "client_disconnected")
    assert upstream.last.client_left.wait(BOUND_S)


def test_4_no_connection_is_made_before_the_request_is_read(gateway: Gateway, upstream: Upstream) -> None:
    before = upstream.connections
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway)[:60])
        with RawClient(gateway.url) as other:
            other.send(request_bytes("GET", "/v1/models", []))
            other.read_answer()
        assert upstream.connections == before


def test_6_the_gateway_asks_for_an_uncompressed_answer(gateway: Gateway, upstream: Upstream) -> None:
    with RawClient(gateway.url) as client:
        client.send(
            request_bytes(
                "POST", CHAT, [*gateway.headers.items(), ("Accept-Encoding", "gzip, br")], _body(stream=True)
            )
        )
        client.read_answer()
    assert upstream.last.header("accept-encoding") == "identity"


def test_7_an_http2_client_may_have_many_calls_in_flight(
    secure_gateway: Gateway, upstream: Upstream, trusting: ssl.SSLContext
) -> None:
    """No call gets an answer before all of them are at the provider, so five connections are not enough."""
    count, gate = 40, Gate()
    arrived = 0

    def hold_until_all_are_in(_request: Any) -> Any:
        nonlocal arrived
        arrived += 1
        if arrived == count:
            gate.open()
        return (gate, *chunked(event(chunk("hi", finish_reason="stop")), DONE))

    upstream.behave(hold_until_all_are_in)
    with RawHttp2Client(secure_gateway.url, trusting) as client:
        headers = [(name.lower(), value) for name, value in secure_gateway.headers.items()]
        answers = client.post_all(CHAT, headers, [_body(stream=True)] * count)
    assert [answer.status for answer in answers] == [200] * count
    assert all(answer.body.endswith(b"data: [DONE]\n\n") for answer in answers)
    assert len({answer.header("x-request-id") for answer in answers}) == count


def test_7_repeated_calls_reuse_connections(
    secure_gateway: Gateway, upstream: Upstream, trusting: ssl.SSLContext
) -> None:
    before = upstream.connections
    headers = [(name.lower(), value) for name, value in secure_gateway.headers.items()]
    for _ in range(2):
        with RawHttp2Client(secure_gateway.url, trusting) as client:
            for _ in range(5):
                assert client.post_all(CHAT, headers, [_body()])[0].status == 200
    assert upstream.connections <= before + 1


def test_8_an_endless_head_is_refused(gateway: Gateway) -> None:
    with RawClient(gateway.url) as client:
        client.send(b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Endless: " + b"a" * 70_000)
        raw = client.read_to_close()
    assert raw.startswith(b"HTTP/1.1 431 ")
    assert b'"request_header_fields_too_large"' in raw


def test_8_a_head_of_many_lines_is_refused(gateway: Gateway) -> None:
    lines = b"".join(b"X-%d: a\r\n" % number for number in range(10_000))
    with RawClient(gateway.url) as client:
        client.send(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")
        raw = client.read_to_close()
    assert raw.startswith(b"HTTP/1.1 431 ")


def test_8_a_slow_head_gets_408_and_a_silent_client_is_closed(start_gateway: StartGateway) -> None:
    gateway = start_gateway(program=with_wire(head_timeout_s=0.3))
    with RawClient(gateway.url) as slow, RawClient(gateway.url) as silent:
        slow.send(b"GET /v1/models HTTP/1.1\r\nHost:")
        raw = slow.read_to_close()
        assert silent.is_closed_by_peer()
    assert raw.startswith(b"HTTP/1.1 408 ")
    assert b'"request_timeout"' in raw


def test_8_the_number_of_client_connections_is_bounded(start_gateway: StartGateway) -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (94, 94))\n"
    gateway = start_gateway(program=("-c", code + "from addon.cli import main; main()"))
    clients = [RawClient(gateway.url) for _ in range(10)]  # (94 - 64) / 3
    try:
        for client in clients:
            client.send(request_bytes("GET", "/v1/models", []))
            assert client.read_answer().status == 200
        with RawClient(gateway.url) as one_too_many:
            assert one_too_many.is_closed_by_peer()
        clients.pop().close()
        gateway.wait_until(lambda: _serves(gateway))
    finally:
        for client in clients:
            client.close()


def _serves(gateway: Gateway) -> bool:
    try:
        with RawClient(gateway.url) as client:
            client.send(request_bytes("GET", "/v1/models", []))
            return client.read_answer().status == 200
    except (EOFError, ConnectionError):
        return False


def test_9_the_master_has_only_the_addons_of_the_gateway(start_gateway: StartGateway) -> None:
    code = (
        "import atexit, os\n"
        "from mitmproxy import ctx\n"
        # In one write: the log's thread may write between two.
        "names = lambda: ' '.join(sorted(ctx.master.addons.lookup))\n"
        "atexit.register(lambda: os.write(2, f'addons: {names()}\\n'.encode()))\n"
        "from addon.cli import main\n"
        "main()"
    )
    gateway = start_gateway(program=("-c", code))
    assert gateway.stop() == 0
    assert "addons: gateway proxyserver" in gateway.stderr_lines


def test_8_an_idle_http2_connection_is_closed(
    start_gateway: StartGateway, secure_sections: Any, upstream: Upstream, trusting: ssl.SSLContext
) -> None:
    gateway = start_gateway(program=with_wire(idle_timeout_s=0.3), sections=secure_sections)
    headers = [(name.lower(), value) for name, value in gateway.headers.items()]
    with RawHttp2Client(gateway.url, trusting) as client:
        assert client.post_all(CHAT, headers, [_body()])[0].status == 200
        assert client.is_closed_by_peer()


def test_8_an_http2_client_that_does_not_read_is_closed(
    start_gateway: StartGateway, secure_sections: Any, upstream: Upstream, trusting: ssl.SSLContext
) -> None:
    """mitmproxy would keep the whole answer in memory."""
    gateway = start_gateway(program=with_wire(write_timeout_s=0.3), sections=secure_sections)
    pieces = [event(chunk("x" * 100_000)) for _ in range(80)]
    upstream.behave(chunked(*pieces, event(chunk("", finish_reason="stop")), DONE))
    headers = [(name.lower(), value) for name, value in gateway.headers.items()]
    with RawHttp2Client(gateway.url, trusting) as client:
        client.post_without_reading(CHAT, headers, _body(stream=True))
        row = gateway.wait_for_row(lambda _row: True)
    assert (row["status"], row["error_code"]) == (499, "client_disconnected")
    assert upstream.last.client_left.wait(BOUND_S)
