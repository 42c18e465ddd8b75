"""The end of ``tollgate serve``: calls in flight finish, no new call begins, and no client delays the end."""

import signal
import ssl
from typing import Any

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.gateway import Gateway
from rig.large import sampled
from rig.raw_clients import RawClient, request_bytes
from rig.scripts import DONE, USAGE, Gate, Script, chunk, chunked, completion, event, whole
from rig.upstream import Upstream

MODELS = request_bytes("GET", "/v1/models", [])


def _held(gate: Gate, stream: bool) -> Script:
    if not stream:
        return (gate, *whole(completion("two")))
    return chunked(event(chunk("one")), gate, event(chunk("two", finish="stop")), DONE)


def _begin(gateway: Gateway, upstream: Upstream, client: RawClient, gate: Gate, *, stream: bool) -> None:
    """Send a call that the provider holds until the gate opens; a stream has begun by then."""
    upstream.behave(_held(gate, stream))
    client.send(gateway.chat_bytes(stream=stream))
    if stream:
        client.read_head()
        client.read_chunks_until(b"one")
    else:
        upstream.wait_for_requests()


def _rest(client: RawClient, *, stream: bool) -> bytes:
    if not stream:
        return client.read_answer().body
    rest = client.read_chunks_until(b"data: [DONE]\n\n")
    assert client.read_chunk() == b""
    return rest


@sampled(every=3)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("stream", [False, True])
def test_a_signal_drains(
    start_gateway: StartGateway, upstream: Upstream, signum: signal.Signals, stream: bool
) -> None:
    gateway, gate = start_gateway(), Gate()
    with RawClient(gateway.url) as caller, RawClient(gateway.url) as idle, RawClient(gateway.url) as late:
        for client in (idle, late):
            client.send(MODELS)
            assert client.read_answer().header("connection") is None
        _begin(gateway, upstream, caller, gate, stream=stream)
        gateway.terminate(signum)
        gateway.wait_until(lambda: gateway.readiness().status_code == 503)
        assert gateway.readiness().json()["checks"]["drain"] == "draining"
        with pytest.raises(ConnectionError):
            RawClient(gateway.url)
        late.send(MODELS)
        assert late.read_answer().header("connection") == "close"
        assert late.is_closed_by_peer()
        gate.open()
        assert b"two" in _rest(caller, stream=stream)
        assert gateway.wait() == 0
        assert caller.is_closed_by_peer()
        assert idle.is_closed_by_peer()
    assert [row["status"] for row in gateway.ledger_rows()] == [200]


def test_idle_connections_do_not_delay_the_end(start_gateway: StartGateway) -> None:
    gateway = start_gateway(sections={"listen": {"drain_timeout_s": 3600}})
    with RawClient(gateway.url) as kept_alive, RawClient(gateway.url) as never_used:
        kept_alive.send(MODELS)
        kept_alive.read_answer()
        assert gateway.stop() == 0
        assert kept_alive.is_closed_by_peer()
        assert never_used.is_closed_by_peer()


@sampled(every=2)
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_does_not_end_in_time_is_cut_off_and_recorded(
    start_gateway: StartGateway, upstream: Upstream, stream: bool
) -> None:
    gateway = start_gateway(sections={"listen": {"drain_timeout_s": 0.2}})
    with RawClient(gateway.url) as client:
        _begin(gateway, upstream, client, Gate(), stream=stream)
        assert gateway.stop() == 0
        assert b"[DONE]" not in client.read_to_close()
    assert upstream.last.client_left.wait(BOUND_S)
    recorded = [(row["status"], row["error_code"], row["stream"]) for row in gateway.ledger_rows()]
    assert recorded == [(499, "interrupted", int(stream))]
    assert any(line["message"].startswith("cut off 1 call") for line in gateway.logs)
    [begun] = [line for line in gateway.logs if line.get("event") == "drain begun"]
    assert (begun["calls"], begun["timeout_s"]) == (1, 0.2)
    assert (gateway.logs[-1]["event"], gateway.logs[-1]["cut_calls"]) == ("stopped", 1)
    assert gateway.logs[-1]["uptime_s"] > 0.2


@pytest.mark.parametrize("stream", [False, True])
def test_the_end_waits_for_an_answer_whose_client_has_left(
    start_gateway: StartGateway, upstream: Upstream, stream: bool
) -> None:
    gateway, gate = start_gateway(), Gate()
    ended = event(chunk("one", finish="stop"))
    rest = event(chunk(usage=USAGE)) + DONE
    upstream.behave(chunked(ended, gate, rest) if stream else (gate, *whole(completion())))
    with RawClient(gateway.url) as client:
        client.send(gateway.chat_bytes(stream=stream))
        upstream.wait_for_requests()
        if stream:
            client.read_head()
            client.read_chunks_until(b"one")
    assert httpx.get(f"{gateway.url}/v1/models", timeout=BOUND_S, trust_env=False).status_code == 200
    gateway.terminate()
    gateway.wait_until(lambda: gateway.readiness().status_code == 503)
    assert gateway.is_running
    gate.open()
    assert gateway.wait() == 0
    (row,) = gateway.ledger_rows()
    assert (row["status"], row["error_code"], row["usage_source"]) == (499, "client_disconnected", "provider")


PIECES = 160
LARGE = [event(chunk("x" * 100_000)) for _ in range(PIECES)]


@sampled(every=2)
@pytest.mark.parametrize("secure", [False, True])
def test_a_slow_client_gets_its_last_bytes(
    start_gateway: StartGateway,
    secure_sections: dict[str, Any],
    trusting: ssl.SSLContext,
    upstream: Upstream,
    secure: bool,
) -> None:
    gateway = start_gateway(sections=secure_sections if secure else {})
    upstream.behave(chunked(*LARGE, event(chunk("two", finish="stop")), DONE))
    with RawClient(gateway.url, trusting if secure else None) as client:
        client.send(gateway.chat_bytes(stream=True))
        client.read_head()
        gateway.terminate()
        gateway.wait_until(lambda: gateway.readiness().status_code == 503)
        answer = _rest(client, stream=True)
    assert answer.count(b"x" * 100_000) == PIECES
    assert gateway.wait() == 0
    assert [row["status"] for row in gateway.ledger_rows()] == [200]


@sampled(every=2)
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_reads_nothing_does_not_delay_the_end(
    start_gateway: StartGateway, upstream: Upstream, stream: bool
) -> None:
    gateway = start_gateway(sections={"listen": {"drain_timeout_s": 0.3}})
    large = whole(completion("x" * 20_000_000))
    upstream.behave(chunked(*LARGE, event(chunk("two", finish="stop")), DONE) if stream else large)
    with RawClient(gateway.url) as client:
        client.send(gateway.chat_bytes(stream=stream))
        client.read_head()
        assert gateway.stop() == 0
    (row,) = gateway.ledger_rows()
    # A whole answer is recorded before its first byte is sent.
    assert (row["status"], row["error_code"]) == ((499, "interrupted") if stream else (200, None))
