"""The edges of a call: late bytes, early ends, slow clients, and odd texts of a provider."""

import json
import shutil
import ssl
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.gateway import PROVIDER_KEY, Gateway
from rig.raw_clients import RawClient, request_bytes
from rig.raw_http2_client import RawHttp2Client
from rig.scripts import (
    CLOSE,
    DONE,
    RESET,
    UNTIL_CLIENT_LEAVES,
    Gate,
    Received,
    Script,
    chunk,
    chunked,
    completion,
    event,
    response_head,
    whole,
)
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"


def _chat(gateway: Gateway, **body: Any) -> bytes:
    content = json.dumps({"messages": HELLO} | body).encode()
    return request_bytes("POST", CHAT, gateway.headers.items(), content)


def _stream(*after: Any) -> Any:
    return chunked(event(chunk("hello")), event(chunk("", finish_reason="stop")), DONE, *after, finish=False)


def _left(gateway: Gateway) -> list[dict[str, Any]]:
    """Return the log lines of calls that were not sent because their clients had left."""
    refusals = [line for line in gateway.logs if line.get("event") == "refusal"]
    return [line for line in refusals if (line["status"], line["error_code"]) == (499, "client_disconnected")]


def test_an_http2_call_that_is_reset_in_the_same_write_is_not_made(
    secure_gateway: Gateway,
    upstream: Upstream,
    trusting: ssl.SSLContext,
) -> None:
    headers = [(name.lower(), value) for name, value in secure_gateway.headers.items()]
    before, rows = len(_left(secure_gateway)), secure_gateway.ledger_rows()
    with RawHttp2Client(secure_gateway.url, trusting) as client:
        client.post_and_reset(CHAT, headers, json.dumps({"messages": HELLO}).encode())
        secure_gateway.wait_until(lambda: len(_left(secure_gateway)) > before)
    assert upstream.requests == []
    assert secure_gateway.ledger_rows() == rows, "what was never sent has no row"
    errors = [line for line in secure_gateway.logs if line["level"] == "error"]
    assert errors == [], "TLS to clients is no error"


@pytest.mark.parametrize("ending", [CLOSE, RESET, UNTIL_CLIENT_LEAVES], ids=lambda ending: ending.value)
def test_events_after_done_do_not_change_the_answer(
    gateway: Gateway, upstream: Upstream, ending: Any
) -> None:
    upstream.behave(_stream(ending))
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway, stream=True))
        answer = client.read_answer()
        row = gateway.wait_for_row(answer.header("x-request-id") or "")
        client.send(request_bytes("GET", "/v1/models", []))
        assert client.read_answer().status == 200
    assert answer.complete
    assert answer.body.endswith(DONE)
    assert (row["status"], row["error_code"]) == (200, None)
    assert upstream.last.client_left.wait(BOUND_S)


def test_a_slow_client_does_not_count_as_a_silent_provider(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(sections={"upstream": {"idle_timeout_s": 1}})
    pieces = [event(chunk("x" * 100_000)) for _ in range(120)]
    upstream.behave(chunked(*pieces, event(chunk("", finish_reason="stop")), DONE))
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway, stream=True))
        client.read_head()
        # This test is about time: it waits twice as long as a provider may be silent.
        time.sleep(2)
        body = client.read_chunks_until(b"data: [DONE]")
    assert body.count(b"x" * 100_000) == len(pieces)


def test_a_stop_waits_until_a_slow_client_has_read_its_answer(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(sections={"listen": {"drain_timeout_s": BOUND_S}})
    answer = whole_answer("x" * 20_000_000)
    upstream.behave(whole(answer))
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway))
        head = client.read_head()
        gateway.terminate()
        gateway.wait_for_log(lambda line: line.get("event") == "call")
        length = int(head.header("content-length") or 0)
        assert len(client.read_to_close()) == length
    assert gateway.wait() == 0


def whole_answer(text: str, **changes: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"} | changes
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


ERROR = json.dumps({"error": {"message": "slow down"}}).encode()


@pytest.mark.parametrize(
    "script",
    [
        whole(b"\x1b\x00\x00", 429, [("Content-Encoding", "br")]),
        whole(ERROR, 429, [("Content-Encoding", "gzip")]),
        whole(zlib.compress(ERROR)[:-6], 429, [("Content-Encoding", "deflate")]),
        (response_head(429, [("Content-Length", "500")]) + ERROR, CLOSE),
        (response_head(429, [("Transfer-Encoding", "chunked")]) + b"zz\r\n", CLOSE),
    ],
    ids=["unknown coding", "not gzip", "cut deflate", "cut short", "broken chunks"],
)
def test_an_error_keeps_its_status_when_its_body_cannot_be_read(
    gateway: Gateway, upstream: Upstream, script: Any
) -> None:
    _assert_rate_limited(gateway, upstream, script)


def test_an_error_keeps_its_status_when_its_body_stops(hasty_gateway: Gateway, upstream: Upstream) -> None:
    script = (response_head(429, [("Content-Length", "500")]) + ERROR, Gate())
    _assert_rate_limited(hasty_gateway, upstream, script)


def _assert_rate_limited(gateway: Gateway, upstream: Upstream, script: Any) -> None:
    upstream.behave(script)
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway))
        answer = client.read_answer()
    assert (answer.status, answer.json()["error"]["code"]) == (429, "rate_limit_exceeded")


@pytest.fixture(scope="module")
def hasty_gateway(start_gateway: StartGateway) -> Gateway:
    """Yield a gateway that waits two seconds for the first byte (the head too) and long for every later one."""
    return start_gateway(sections={"upstream": {"first_byte_timeout_s": 2, "idle_timeout_s": 3600}})


def test_comments_are_no_first_byte_and_a_whole_answer_may_take_longer_than_a_first_byte(
    hasty_gateway: Gateway, upstream: Upstream
) -> None:
    gate = Gate()

    def slow(request: Received) -> Script:
        if request.json().get("stream"):
            return chunked(b": thinking\n\n", Gate(), finish=False)
        return (gate, *whole(completion()))

    upstream.behave(slow)
    with RawClient(hasty_gateway.url) as patient, RawClient(hasty_gateway.url) as hurried:
        patient.send(_chat(hasty_gateway))
        upstream.wait_for_requests(1)
        hurried.send(_chat(hasty_gateway, stream=True))
        answer = hurried.read_answer()
        assert (answer.status, answer.json()["error"]["code"]) == (504, "upstream_error")
        gate.open()
        assert patient.read_answer().status == 200


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the kernel's timers are read from /proc")
def test_keepalive_probes_are_on_toward_clients_and_providers(gateway: Gateway, upstream: Upstream) -> None:
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway))
        assert client.read_answer().status == 200
        gateway.wait_until(
            lambda: kept_alive(local=client.port) and kept_alive(peer=upstream.port, process=gateway.pid)
        )


def kept_alive(local: int | None = None, peer: int | None = None, process: int | str = "self") -> bool:
    """Return whether an established connection has a keepalive timer: ``02`` in the kernel's table of TCP."""
    for line in Path(f"/proc/{process}/net/tcp").read_text("ascii").splitlines()[1:]:
        _, here, there, state, _, timer, *_ = line.split()
        ports = int(here.partition(":")[2], 16), int(there.partition(":")[2], 16)
        if (local, peer)[local is None] == ports[local is None] and state == "01" and timer.startswith("02"):
            return True
    return False


def test_no_secret_and_no_endless_text_is_recorded(gateway: Gateway, upstream: Upstream) -> None:
    upstream.behave(whole(whole_answer("hi", finish_reason=PROVIDER_KEY + "z" * 100_000)))
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway, model=gateway.key, user=gateway.key + "u" * 100_000))
        answer = client.read_answer()
    row = gateway.wait_for_row(answer.header("x-request-id") or "")
    written = json.dumps(row)
    assert gateway.key not in written
    assert PROVIDER_KEY not in written
    assert len(written) < 2_000


def test_text_after_an_early_count_is_estimated(gateway: Gateway, upstream: Upstream) -> None:
    early = chunk("x" * 2_400) | {"usage": {"prompt_tokens": 50}}
    upstream.behave(chunked(event(early), RESET, finish=False))
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway, stream=True))
        answer = client.read_answer()
    row = gateway.wait_for_row(answer.header("x-request-id") or "")
    assert (row["prompt_tokens"], row["completion_tokens"], row["usage_source"]) == (50, 600, "estimated")


def _removed(folder: Path) -> bool:
    """Return whether a folder is gone. While it is removed, its gateway may still write a temporary file."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def test_a_row_for_a_ledger_that_was_deleted_is_in_the_log(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway()
    gate = Gate()
    upstream.behave((gate, *whole(completion())))
    with RawClient(gateway.url) as client:
        client.send(_chat(gateway))
        upstream.wait_for_requests()
        gateway.wait_until(lambda: _removed(gateway.folder / "var"))
        gate.open()
        assert client.read_answer().status == 200
        client.send(_chat(gateway))
        answer = client.read_answer()
        assert (answer.status, answer.json()["error"]["code"]) == (503, "rate_limit_unavailable")
    assert gateway.stop() == 0
    assert any(line.get("event") == "ledger row lost" for line in gateway.logs)
