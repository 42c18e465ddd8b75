"""The tables of HTTP/1.1 inputs of both sides, on a running gateway with real keys, real calls and a provider."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.http1_inputs import AnswerInput, Call, RequestInput, answer_inputs, request_inputs
from rig.http2 import connect_http2
from rig.large import sampled
from rig.raw_clients import RawClient, request_bytes
from rig.scripts import CLOSE, Received, Script, completion, event, whole
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
HOST = b"gateway.test"


# The client's side.


def call_of(gateway: Gateway) -> Call:
    body = json.dumps({"messages": [{"role": "user", "content": "hello"}]}).encode()
    return Call(CHAT.encode(), f"Bearer {gateway.key}".encode(), body, HOST)


def outcome_of(given: RequestInput, gateway: Gateway) -> tuple[tuple[int, ...], bool | None]:
    """Return the statuses of the final answers on one connection, and whether the gateway closed it (if given)."""
    with RawClient(gateway.url) as client:
        with suppress(ConnectionError):  # The gateway may answer before it has read everything.
            client.send(given.raw)
        statuses: list[int] = []
        while len(statuses) < len(given.statuses):
            answer = client.read_answer()
            assert answer.complete
            if answer.status != 100:
                statuses.append(answer.status)
                assert answer.status == 200 or set(answer.json()) == {"error"}
        if given.closes is None:
            return tuple(statuses), None
        if given.closes:
            return tuple(statuses), client.is_closed_by_peer()
        client.send(request_bytes("GET", "/v1/models", []))
        return tuple(statuses), client.read_answer().status != 200


def test_each_request_gets_the_statuses_of_the_table(gateway: Gateway, upstream: Upstream) -> None:
    inputs = request_inputs(call_of(gateway))
    wrong: list[tuple[object, ...]] = []
    for given in inputs:
        try:
            outcome = outcome_of(given, gateway)
        except (AssertionError, EOFError, OSError) as error:
            wrong.append((given.name, repr(error)[:200]))
            continue
        if outcome != (given.statuses, given.closes):
            wrong.append((given.name, *outcome))
    assert not wrong
    served = sum(one.statuses.count(200) for one in inputs)
    assert len(upstream.requests) == served, "what was refused went upstream, or what was served did not"
    assert {one.body for one in upstream.requests} == {upstream.last.body}
    assert "Traceback" not in "\n".join(gateway.stderr_lines)


def test_a_java_client_keeps_its_body(gateway: Gateway, upstream: Upstream) -> None:
    """The request is what java.net.http.HttpClient sends to a plain port."""
    body = json.dumps({"messages": [{"role": "user", "content": "from Java"}]}).encode()
    raw = (
        f"POST {CHAT} HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nContent-Length: {len(body)}\r\n"
        "Host: localhost:8080\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\nUpgrade: h2c\r\n"
        f"User-Agent: Java-http-client/21.0.2\r\nAuthorization: Bearer {gateway.key}\r\n"
        "Content-Type: application/json\r\n\r\n"
    ).encode() + body
    with RawClient(gateway.url) as client:
        for _ in range(2):
            client.send(raw)
            answer = client.read_answer()
            assert answer.status == 200
            assert answer.header("upgrade") is None
    assert upstream.last.json()["messages"] == [{"role": "user", "content": "from Java"}]
    assert "http2-settings" not in upstream.last.header_names


async def test_prior_knowledge_is_http2_on_the_plain_port(gateway: Gateway, upstream: Upstream) -> None:
    headers = [("authorization", f"Bearer {gateway.key}"), ("content-type", "application/json")]
    body = json.dumps({"messages": [{"role": "user", "content": "over HTTP/2"}]}).encode()
    async with connect_http2(gateway) as client:
        answer = await client.request(body, *headers)
    assert answer.status == 200
    assert json.loads(answer.body)["object"] == "chat.completion"
    assert upstream.last.json()["messages"] == [{"role": "user", "content": "over HTTP/2"}]


# The provider's side.

CUSTOMERS = ("acme", "other")
HOSTILE = "of a hostile provider"


def answer_of(text: str, *, stream: bool) -> bytes:
    """Return a completion, or the events of a stream, with this text."""
    if not stream:
        return json.dumps(completion(text)).encode()
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return event(chunk | {"choices": [choice], "usage": usage}) + event("[DONE]")


WHOLE, STREAMED = (answer_inputs(answer_of(HOSTILE, stream=stream)) for stream in (False, True))
ENDED_TOO_SOON = {"a body shorter than its length", "no last chunk", "no blank line after the last chunk"}
"""Answers that break after their last event. This does not change a stream."""


@pytest.fixture(scope="module")
def hostile(start_gateway: StartGateway) -> Iterator[Gateway]:
    """Yield a gateway with a provider for each input. All have one address, so they share connections."""

    def answer(request: Received) -> Script:
        kind = request.target.split("/")[1]
        content = request.json()
        if kind == "good":
            return whole(answer_of(content["messages"][0]["content"], stream=False))
        given = (STREAMED if content.get("stream") else WHOLE)[int(kind)]
        return (given.raw, CLOSE) if given.provider_closes else (given.raw,)

    with Upstream() as upstream:
        upstream.behave(answer)
        origin = upstream.base_url.removesuffix("/v1")
        names = ["good", *map(str, range(len(WHOLE)))]
        keys = {name: new_key() for name in CUSTOMERS}
        made = start_gateway(
            providers={f"P{name.upper()}": provider(f"{origin}/{name}") for name in names},
            models={f"m-{name}": model(provider=f"P{name.upper()}") for name in names},
            workspaces={name: workspace((name, key, True)) for name, key in keys.items()},
        )
        made.keys = keys
        yield made
        assert upstream.failures == []


def ask(client: httpx.Client, key: str, slug: str, text: str = "hello", **body: Any) -> httpx.Response:
    content = {"model": slug, "messages": [{"role": "user", "content": text}], **body}
    return client.post(CHAT, json=content, headers={"Authorization": f"Bearer {key}"})


def is_right(given: AnswerInput, answer: httpx.Response) -> bool:
    if given.status != 200:
        return answer.status_code == given.status and answer.json()["error"]["code"] == "upstream_error"
    return answer.status_code == 200 and answer.json()["choices"][0]["message"]["content"] == HOSTILE


def is_right_stream(given: AnswerInput, answer: httpx.Response) -> bool:
    """Check that a framing error after good bytes is reported within the stream."""
    is_whole = answer.status_code == 200 and "[DONE]" in answer.text and HOSTILE in answer.text
    is_error = "upstream_error" in answer.text and "[DONE]" not in answer.text
    if given.name in ENDED_TOO_SOON:
        return is_whole or is_error
    return is_whole if given.status == 200 else is_error


@sampled(every=2)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_each_answer_is_relayed_or_refused_and_the_next_call_of_another_customer_is_right(
    hostile: Gateway, stream: bool
) -> None:
    wrong: list[object] = []
    with httpx.Client(base_url=hostile.url, timeout=BOUND_S, trust_env=False) as client:
        for number, given in enumerate(STREAMED if stream else WHOLE):
            answer = ask(client, hostile.keys["acme"], f"m-{number}", stream=stream)
            if not (is_right_stream if stream else is_right)(given, answer):
                wrong.append((given.name, answer.status_code, answer.text[:300]))
            text = f"for another customer, {number}"
            following = ask(client, hostile.keys["other"], "m-good", text)
            if following.status_code != 200 or following.json()["choices"][0]["message"]["content"] != text:
                wrong.append((given.name, "the next call", following.status_code, following.text[:300]))
    assert not wrong
    assert "Traceback" not in "\n".join(hostile.stderr_lines)
