"""Calls in flight when their gateway drains or is killed: the client, the provider's connection, the hold and the row.

The other lines of the table in docs/call-ends.md have their tests in test_call_ends.py.
"""

from contextlib import suppress

import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.ending_calls import holds_of, row_of
from rig.raw_clients import RawClient
from rig.scripts import DONE, UNTIL_CLIENT_LEAVES, Gate, chunk, chunked, completion, event, whole
from rig.upstream import Upstream


@pytest.mark.parametrize("stream", [False, True])
def test_a_drain_ends_in_time(start_gateway: StartGateway, upstream: Upstream, stream: bool) -> None:
    gateway, gate = start_gateway(), Gate()
    upstream.behave(
        chunked(event(chunk("yes")), gate, event(chunk(finish="stop")), DONE)
        if stream
        else (gate, *whole(completion()))
    )
    with RawClient(gateway.url) as raw:
        raw.send(gateway.chat_bytes(stream=stream, user="drained"))
        upstream.wait_for_requests()
        gateway.terminate()
        gateway.wait_until(lambda: gateway.readiness().status_code == 503)
        gate.open()
        answer = raw.read_answer()
        assert (answer.status, answer.complete) == (200, True)
        assert stream or answer.header("connection") == "close"
        assert raw.is_closed_by_peer()
    assert gateway.wait() == 0
    row = row_of(gateway, "drained")
    assert (row["status"], row["usage_source"]) == (200, "estimated" if stream else "provider")
    assert upstream.last.client_left.is_set()


@pytest.mark.parametrize("stream", [False, True])
def test_a_drain_ends_too_late(start_gateway: StartGateway, upstream: Upstream, stream: bool) -> None:
    gateway = start_gateway(sections={"listen": {"drain_timeout_s": 0.2}})
    upstream.behave(chunked(event(chunk("yes")), UNTIL_CLIENT_LEAVES) if stream else (UNTIL_CLIENT_LEAVES,))
    with RawClient(gateway.url) as raw:
        raw.send(gateway.chat_bytes(stream=stream, user="cut off"))
        received = upstream.wait_for_requests()[0]
        if stream:
            raw.read_head()
            raw.read_chunks_until(b"yes")
        assert gateway.stop() == 0
        with suppress(ConnectionResetError):
            assert b"[DONE]" not in raw.read_to_close()
    assert received.client_left.wait(BOUND_S)
    row = row_of(gateway, "cut off")
    assert (row["status"], row["error_code"]) == (499, "interrupted")


def test_the_process_is_killed(start_gateway: StartGateway, upstream: Upstream) -> None:
    gateway = start_gateway()
    upstream.behave(chunked(event(chunk("yes")), UNTIL_CLIENT_LEAVES))
    with RawClient(gateway.url) as raw:
        raw.send(gateway.chat_bytes(stream=True, user="killed"))
        raw.read_head()
        raw.read_chunks_until(b"yes")
        gateway.kill()
        assert raw.is_closed_by_peer()
    assert upstream.last.client_left.wait(BOUND_S)
    assert len(holds_of(gateway)) == 1
    assert gateway.ledger_rows() == []
    again = start_gateway(folder=gateway.folder)
    row = row_of(again, "killed")
    assert (row["status"], row["error_code"], row["retail_nanousd"]) == (499, "interrupted", 0)
    assert holds_of(again) == []
