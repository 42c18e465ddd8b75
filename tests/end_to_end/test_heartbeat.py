"""``[upstream] heartbeat_s``: clients of streams get comments while a provider is silent. Nothing else changes."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, workspace
from rig.gateway import Gateway
from rig.raw_clients import Answer, RawClient, request_bytes
from rig.scripts import (
    DONE,
    UNTIL_CLIENT_LEAVES,
    Gate,
    Script,
    chunk,
    chunked,
    event,
    response_head,
    stream_of,
)
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
HEARTBEAT = b": the provider is silent\n\n"
HEARTBEAT_S = 0.1
SILENCE_S = 0.5
"""The time a provider may be silent, in the tests that wait for its end."""
HI = event(chunk("hi"))
REST = (event(chunk("yo")), event(chunk(finish="stop")), DONE)


def _start(start_gateway: StartGateway, silence_s: float) -> Gateway:
    keys = {"ci": new_key(), "net": new_key()}
    bounds = dict.fromkeys(("first_byte_timeout_s", "idle_timeout_s", "whole_timeout_s"), silence_s)
    made = start_gateway(
        sections={"upstream": {"heartbeat_s": HEARTBEAT_S} | bounds},
        models={"first": model(), "second": model()},
        workspaces={
            "acme": workspace(("ci", keys["ci"], True), default_model="first"),
            "net": workspace(("net", keys["net"], True), default_model="first", fallback_model="second"),
        },
    )
    made.keys = keys
    return made


@pytest.fixture(scope="module")
def patient(start_gateway: StartGateway) -> Gateway:
    return _start(start_gateway, BOUND_S)


@pytest.fixture(scope="module")
def impatient(start_gateway: StartGateway) -> Gateway:
    """A gateway whose providers may be silent only for a short time."""
    return _start(start_gateway, SILENCE_S)


def send(raw: RawClient, gateway: Gateway, key: str = "ci", **body: Any) -> None:
    headers = gateway.headers | {"Authorization": f"Bearer {gateway.keys[key]}"}
    content = json.dumps({"messages": HELLO, "stream": True} | body).encode()
    raw.send(request_bytes("POST", PATH, headers.items(), content))


def ask(gateway: Gateway, key: str = "ci", **body: Any) -> Answer:
    with RawClient(gateway.url) as raw:
        send(raw, gateway, key, **body)
        return raw.read_answer()


def events_of(body: bytes) -> list[bytes]:
    """Return the events of a stream without its comments. Each is JSON or the end."""
    assert body.endswith(b"\n\n")
    found = [one for one in body.split(b"\n\n")[:-1] if not one.startswith(b":")]
    for one in found:
        assert one.startswith(b"data: "), one
        assert one == b"data: [DONE]" or json.loads(one.removeprefix(b"data: "))
    return found


SECOND = event(chunk("yo"))


def silent_scripts(gate: Gate) -> dict[str, tuple[bytes, Script]]:
    """Return the bytes that the client has when the provider becomes silent, and the script of the provider."""
    return {
        "before its head": (b"", (gate, *chunked(HI, *REST))),
        "before its first event": (b"", chunked(gate, HI, *REST)),
        "behind comments": (b"", chunked(b": working\n\n", gate, HI, *REST)),
        "between events": (b"hi", chunked(HI, gate, *REST)),
        "within an event": (b"hi", chunked(HI + SECOND[:40], gate, SECOND[40:], *REST[1:])),
        "within a line end": (b"hi", chunked(HI + SECOND[:-1], gate, SECOND[-1:], *REST[1:])),
    }


@pytest.mark.parametrize("where", silent_scripts(Gate()))
def test_a_client_gets_comments_while_its_provider_is_silent(
    patient: Gateway, upstream: Upstream, where: str
) -> None:
    gate = Gate()
    seen, script = silent_scripts(gate)[where]
    upstream.behave(script)
    with RawClient(patient.url) as raw:
        send(raw, patient)
        head = raw.read_head()
        begun = raw.read_chunks_until(seen) if seen else b""
        begun += raw.read_chunks_until(HEARTBEAT) + raw.read_chunks_until(HEARTBEAT)
        gate.open()
        body = begun + raw.read_chunks_until(b"data: [DONE]\n\n")
        assert raw.read_chunk() == b""
    assert (head.status, head.header("content-type")) == (200, "text/event-stream; charset=utf-8")
    assert len(events_of(body)) == 4
    row = patient.wait_for_row(head.header("x-request-id") or "")
    assert (row["status"], row["attempts"], row["error_code"]) == (200, 1, None)
    assert (row["first_byte_ms"] >= 1000 * HEARTBEAT_S) == (not seen), "a comment is no first byte"


def test_comments_of_the_provider_count_as_silence(patient: Gateway, upstream: Upstream) -> None:
    gates = [Gate() for _ in range(8)]
    drips = [step for gate in gates for step in (b": working\n\n", gate)]
    upstream.behave(chunked(*drips, HI, *REST))
    with RawClient(patient.url) as raw, ThreadPoolExecutor() as others:
        send(raw, patient)
        reading = others.submit(raw.read_chunks_until, HEARTBEAT) if raw.read_head() else None
        assert reading
        for gate in gates:
            gate.open()
        assert reading.result(BOUND_S)
        raw.read_chunks_until(b"[DONE]")


@pytest.mark.parametrize("script", [(UNTIL_CLIENT_LEAVES,), chunked(UNTIL_CLIENT_LEAVES)])
def test_heartbeats_extend_no_timeout_and_prevent_a_second_attempt(
    impatient: Gateway, upstream: Upstream, script: Script
) -> None:
    upstream.behave(script)
    answer = ask(impatient, "net")
    assert (answer.status, answer.complete, answer.header("x-gateway-fallback")) == (200, True, None)
    assert 1 <= answer.body.count(HEARTBEAT) <= SILENCE_S / HEARTBEAT_S
    (error,) = events_of(answer.body)
    assert json.loads(error.removeprefix(b"data: "))["error"]["code"] == "upstream_error"
    row = impatient.wait_for_row(answer.header("x-request-id") or "")
    assert (row["status"], row["error_code"], row["attempts"]) == (504, "upstream_error", 1)
    assert row["first_byte_ms"] is None
    assert len(upstream.requests) == 1


def test_a_stream_that_becomes_silent_times_out(impatient: Gateway, upstream: Upstream) -> None:
    upstream.behave(chunked(HI, UNTIL_CLIENT_LEAVES))
    answer = ask(impatient)
    assert 1 <= answer.body.count(HEARTBEAT) <= SILENCE_S / HEARTBEAT_S
    assert len(events_of(answer.body)) == 2
    row = impatient.wait_for_row(answer.header("x-request-id") or "")
    assert (row["status"], row["error_code"]) == (504, "upstream_error")


def test_a_slow_error_of_the_provider_allows_a_second_attempt(impatient: Gateway, upstream: Upstream) -> None:
    slow_error = (response_head(500, [("Content-Length", "9")]), UNTIL_CLIENT_LEAVES)
    upstream.behave(lambda _: slow_error if len(upstream.requests) == 1 else stream_of("hi"))
    answer = ask(impatient, "net")
    assert len(events_of(answer.body)) == 3
    row = impatient.wait_for_row(answer.header("x-request-id") or "")
    assert (row["status"], row["attempts"], row["model_slug"]) == (200, 2, "second")


def test_a_whole_answer_has_no_heartbeats(impatient: Gateway, upstream: Upstream) -> None:
    upstream.behave((UNTIL_CLIENT_LEAVES,))
    answer = ask(impatient, stream=False)
    assert (answer.status, answer.json()["error"]["code"]) == (504, "upstream_error")


def test_without_the_setting_there_are_no_heartbeats(start_gateway: StartGateway, upstream: Upstream) -> None:
    gateway = start_gateway(sections={"upstream": {"idle_timeout_s": 0.3}})
    upstream.behave(chunked(HI, UNTIL_CLIENT_LEAVES))
    answer = ask(gateway)
    assert b"\n:" not in answer.body
    assert len(events_of(answer.body)) == 2


def test_the_sdk_ignores_heartbeats(patient: Gateway, upstream: Upstream) -> None:
    gate = Gate()
    upstream.behave((gate, *chunked(HI, *REST)))
    with openai.OpenAI(base_url=f"{patient.url}/v1", api_key=patient.key, max_retries=0) as sdk:
        stream = sdk.chat.completions.create(model="first", messages=HELLO, stream=True)
        # The SDK returns at the head, which came with a heartbeat.
        gate.open()
        text = [one.choices[0].delta.content or "" for one in stream]
    assert "".join(text) == "hiyo"
