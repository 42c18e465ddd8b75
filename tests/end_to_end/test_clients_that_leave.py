"""Clients that leave: a call that was left costs what it would have cost, and only what really happened is charged."""

import json
import ssl
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.large import sampled
from rig.raw_clients import RawClient
from rig.raw_http2_client import RawHttp2Client
from rig.scripts import (
    DONE,
    RESET,
    UNTIL_CLIENT_LEAVES,
    Gate,
    Script,
    chunk,
    chunked,
    completion,
    event,
    whole,
)
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
OUTPUT_TOKENS = 4_000
"""Most of them are reasoning tokens, which no one sees, so the relayed text does not show the count."""
DIALECTS = {"chat": "openai", "claude": "anthropic", "gemini": "gemini"}
COUNTS: dict[str, dict[str, Any]] = {
    "chat": {"prompt_tokens": 20, "completion_tokens": OUTPUT_TOKENS, "total_tokens": 20 + OUTPUT_TOKENS},
    "claude": {"input_tokens": 20, "output_tokens": OUTPUT_TOKENS},
    "gemini": {
        "promptTokenCount": 20,
        "candidatesTokenCount": OUTPUT_TOKENS,
        "totalTokenCount": 20 + OUTPUT_TOKENS,
    },
}


@pytest.fixture(scope="module")
def gateways(
    start_gateway: StartGateway, upstreams: dict[str, Any], secure_sections: dict[str, Any]
) -> dict[str, Gateway]:
    """Yield a gateway for HTTP/1 without TLS, and one for HTTP/2."""
    base = upstreams["TESTER"].base_url
    key = new_key()
    settings = {
        "providers": {name.upper(): provider(base, dialect=dialect) for name, dialect in DIALECTS.items()},
        "models": {name: model(provider=name.upper(), upstream_model_id=name) for name in DIALECTS},
        "workspaces": {"acme": workspace(("ci", key, True))},
    }
    made = {
        "HTTP/1": start_gateway(**settings, sections={"listen": {"drain_timeout_s": 0.5}}),
        "HTTP/2": start_gateway(**settings, sections=secure_sections),
    }
    for gateway in made.values():
        gateway.keys = {"ci": key}
    return made


@pytest.fixture(params=["HTTP/1", "HTTP/2"])
def gateway(request: pytest.FixtureRequest, gateways: dict[str, Gateway]) -> Gateway:
    return gateways[request.param]


type Leave = Callable[..., None]


@pytest.fixture
def leave(gateway: Gateway, trusting: ssl.SSLContext) -> Leave:
    """Return a function that makes a call, leaves it after ``seen`` or ``ready``, and waits until the gateway knows."""

    def made(body: dict[str, Any], *, seen: bytes = b"", ready: Callable[[], object] = lambda: None) -> None:
        content = json.dumps({"messages": HELLO} | body).encode()
        if gateway.url.startswith("https"):
            headers = [(name.lower(), value) for name, value in gateway.headers.items()]
            with RawHttp2Client(gateway.url, trusting) as client:
                client.post_until(PATH, headers, content, seen, ready)
                client.reset_and_wait()
        else:
            with RawClient(gateway.url) as raw:
                raw.send(gateway.chat_bytes(**body))
                if seen:
                    raw.read_head()
                    raw.read_chunks_until(seen)
                ready()
            # A later request is answered later.
            assert httpx.get(f"{gateway.url}/v1/models", timeout=BOUND_S, trust_env=False).status_code == 200

    return made


def whole_answer(vendor: str) -> Any:
    if vendor == "claude":
        content = [{"type": "text", "text": "yes"}]
        return {"id": "m", "content": content, "stop_reason": "end_turn", "usage": COUNTS[vendor]}
    if vendor == "gemini":
        return _candidate("yes", finishReason="STOP") | {"usageMetadata": COUNTS[vendor]}
    return completion("yes", usage=COUNTS[vendor])


def _candidate(text: str, **ended: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": text}]}
    return {"responseId": "r", "candidates": [{"index": 0, "content": content, **ended}]}


def _pieces(vendor: str) -> tuple[bytes, bytes]:
    """Return a stream up to its finish reason, and the rest: its usage."""
    if vendor == "claude":
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "yes"}}
        start = {"id": "m", "content": [], "usage": {"input_tokens": 20, "output_tokens": 1}}
        begun = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            delta,
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        ]
        ended = [
            {"type": "message_delta", "delta": {}, "usage": {"output_tokens": OUTPUT_TOKENS}},
            {"type": "message_stop"},
        ]
        return b"".join(map(event, begun)), b"".join(map(event, ended))
    if vendor == "gemini":
        usage = {"responseId": "r", "usageMetadata": COUNTS[vendor]}
        return event(_candidate("yes", finishReason="STOP")), event(usage)
    return event(chunk("yes")) + event(chunk(finish="stop")), event(chunk(usage=COUNTS[vendor])) + DONE


def script_of(vendor: str, gate: Gate, *, stream: bool) -> Script:
    if not stream:
        return (gate, *whole(whole_answer(vendor)))
    begun, ended = _pieces(vendor)
    return chunked(begun, gate, ended)


def row_of(gateway: Gateway, name: str) -> dict[str, Any]:
    return gateway.wait_for_row(lambda row: row["end_user"] == name)


@sampled(every=4)
@pytest.mark.parametrize("vendor", DIALECTS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_call_costs_the_same_whether_its_client_stays_or_leaves(
    gateway: Gateway, upstream: Upstream, leave: Leave, vendor: str, stream: bool
) -> None:
    gate = Gate()
    gate.open()
    upstream.behave(script_of(vendor, gate, stream=stream))
    name = f"{vendor}-{stream}"
    body = {"model": vendor, "stream": stream, "max_tokens": 10_000}
    stay(gateway, body | {"user": f"{name}-stayed"})
    stayed = row_of(gateway, f"{name}-stayed")
    gate = Gate()
    upstream.behave(script_of(vendor, gate, stream=stream))
    before = len(upstream.requests)
    seen = b"yes" if stream else b""
    leave(
        body | {"user": f"{name}-left"},
        seen=seen,
        ready=lambda: upstream.wait_for_requests(before + 1),
    )
    gate.open()
    left = row_of(gateway, f"{name}-left")
    assert (stayed["status"], left["status"], left["error_code"]) == (200, 499, "client_disconnected")
    assert left["usage_source"] == "provider"
    assert stayed["retail_nanousd"] > OUTPUT_TOKENS * 600
    assert abs(left["retail_nanousd"] - stayed["retail_nanousd"]) <= stayed["retail_nanousd"] / 100


def stay(gateway: Gateway, body: dict[str, Any]) -> None:
    """Make a call and read its answer to the end."""
    asked = {"messages": HELLO} | body
    answer = httpx.post(
        gateway.url + PATH,
        json=asked,
        headers=gateway.headers,
        trust_env=False,
        verify=False,
        timeout=BOUND_S,
    )
    assert answer.status_code == 200, answer.text


FAILURES: dict[str, Callable[[Gate], Script]] = {
    "an error": lambda gate: (gate, *whole({"error": {"message": "no"}}, 500)),
    "an error in a 200": lambda gate: (gate, *whole({"error": {"message": "no"}})),
    "no answer": lambda gate: (gate, RESET),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_provider_that_fails_costs_a_client_that_left_nothing_for_output(
    gateways: dict[str, Gateway], upstream: Upstream, failure: str
) -> None:
    gateway, gate = gateways["HTTP/1"], Gate()
    upstream.behave(FAILURES[failure](gate))
    with RawClient(gateway.url) as raw:
        raw.send(gateway.chat_bytes(model="chat", user=failure))
        upstream.wait_for_requests()
    assert httpx.get(f"{gateway.url}/v1/models", timeout=BOUND_S, trust_env=False).status_code == 200
    gate.open()
    row = row_of(gateway, failure)
    assert (row["status"], row["error_code"]) == (499, "client_disconnected")
    assert (row["usage_source"], row["retail_nanousd"]) == ("none", 0)


def test_a_stream_that_was_left_while_the_provider_queued_costs_only_its_prompt(
    gateways: dict[str, Gateway], upstream: Upstream
) -> None:
    gateway = gateways["HTTP/1"]
    upstream.behave((UNTIL_CLIENT_LEAVES,))
    with RawClient(gateway.url) as raw:
        raw.send(gateway.chat_bytes(model="chat", stream=True, user="queued"))
        received = upstream.wait_for_requests()[0]
    row = row_of(gateway, "queued")
    assert (row["usage_source"], row["completion_tokens"]) == ("estimated", 0)
    assert row["prompt_tokens"] > 0
    assert received.client_left.wait(BOUND_S), "its upstream is closed at once"


def test_a_stream_that_never_reports_its_usage_is_read_up_to_a_bound_and_estimated(
    gateways: dict[str, Gateway], upstream: Upstream
) -> None:
    gateway, gate = gateways["HTTP/1"], Gate()
    begun, _ = _pieces("chat")
    noise = [b": processing\n\n" * 5_000] * 20
    upstream.behave(chunked(begun, gate, *noise, UNTIL_CLIENT_LEAVES))
    with RawClient(gateway.url) as raw:
        raw.send(gateway.chat_bytes(model="chat", stream=True, user="noisy"))
        raw.read_head()
        raw.read_chunks_until(b"yes")
    assert httpx.get(f"{gateway.url}/v1/models", timeout=BOUND_S, trust_env=False).status_code == 200
    gate.open()
    row = row_of(gateway, "noisy")
    assert (row["status"], row["finish_reason"], row["usage_source"]) == (499, "stop", "estimated")
    assert row["completion_tokens"] == 1
    assert upstream.last.client_left.wait(BOUND_S)


def test_a_drain_waits_for_answers_that_are_still_read(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(sections={"listen": {"drain_timeout_s": 0.3}})
    upstream.behave((UNTIL_CLIENT_LEAVES,))
    with RawClient(gateway.url) as raw:
        raw.send(gateway.chat_bytes(user="hangs"))
        received = upstream.wait_for_requests()[0]
    assert httpx.get(f"{gateway.url}/v1/models", timeout=BOUND_S, trust_env=False).status_code == 200
    assert not received.client_left.is_set()
    assert gateway.stop() == 0
    row = row_of(gateway, "hangs")
    assert (row["status"], row["error_code"], row["retail_nanousd"]) == (499, "interrupted", 0)
