"""Large requests and answers pass in every dialect; a request keeps its bytes and costs little memory."""

import base64
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.configuration import ROOT, model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.large import sampled
from rig.scripts import Received, Script, whole
from rig.three_apis import DIALECTS, FAMILIES, whole_answer
from rig.upstream import Upstream

MIB = 1 << 20
MAX_GROWTH_MB = 300
VENDORS = sorted(DIALECTS)


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    origin = upstreams["TESTER"].base_url.removesuffix("/v1")
    key = new_key()
    made = start_gateway(
        workspaces={"acme": workspace(("ci", key, True))},
        providers={
            vendor.upper(): provider(
                f"{origin}/{vendor}", dialect=DIALECTS[vendor], platform_key="env:TEST_PROVIDER_KEY"
            )
            for vendor in VENDORS
        },
        models={
            vendor: model(provider=vendor.upper(), upstream_model_id="vendor-model", family=FAMILIES[vendor])
            for vendor in VENDORS
        },
        families=tomllib.loads((ROOT / "catalog_data" / "families.toml").read_text("utf-8")),
        environment={"TEST_PROVIDER_KEY": "test-provider-key-0"},
    )
    made.keys = {"ci": key}
    return made


@pytest.fixture(autouse=True)
def answers(upstreams: dict[str, Any]) -> Upstream:
    """The provider of all three APIs. It answers in the API of the request."""

    def answer(request: Received) -> Script:
        return whole(whole_answer(request.target.split("/")[1]))

    upstream: Upstream = upstreams["TESTER"]
    upstream.behave(answer)
    return upstream


def send(gateway: Gateway, body: bytes) -> httpx.Response:
    url = f"{gateway.url}/v1/chat/completions"
    return httpx.post(url, content=body, headers=gateway.headers, timeout=BOUND_S, trust_env=False)


def ask(vendor: str, content: bytes) -> bytes:
    message = b'{"role":"user","content":%b}' % content
    return b'{"model":"%b","max_tokens":9,"messages":[%b]}' % (vendor.encode(), message)


def peak_mb(gateway: Gateway) -> float:
    found = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{gateway.pid}/status").read_text())
    assert found
    return int(found[1]) / 1000


TEXTS = {
    "one emoji": b"hello world " * 200_000 + "😀".encode(),
    "escapes": rb"\n\"\\ \u00e9\ud83d\ude00 \/" * 100_000,
}


@sampled(every=3)
@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("name", TEXTS)
def test_the_bytes_of_a_long_prompt_go_upstream_unchanged(
    gateway: Gateway, answers: Upstream, vendor: str, name: str
) -> None:
    answer = send(gateway, ask(vendor, b'"%b"' % TEXTS[name]))
    assert answer.status_code == 200, answer.text[:500]
    assert TEXTS[name][4_096:] in answers.last.body  # the text before that is parsed and encoded again
    assert b"[text " not in answers.last.body
    json.loads(answers.last.body)


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_bytes_of_a_picture_go_upstream_unchanged(
    gateway: Gateway, answers: Upstream, vendor: str
) -> None:
    picture = base64.b64encode(b"\x89PNG" * MIB)
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture.decode()}"}},
    ]
    answer = send(gateway, ask(vendor, json.dumps(parts).encode()))
    assert answer.status_code == 200, answer.text[:500]
    assert picture in answers.last.body
    assert len(answers.last.body) < len(picture) + 1_000


def test_long_tool_arguments_become_an_object_for_anthropic(gateway: Gateway, answers: Upstream) -> None:
    arguments = json.dumps({"text": "é" * 100_000})
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Done"},
    ]
    answer = send(gateway, json.dumps({"model": "claude", "max_tokens": 9, "messages": messages}).encode())
    assert answer.status_code == 200, answer.text[:500]
    assert answers.last.json()["messages"][1]["content"][0]["input"] == json.loads(arguments)


def test_a_call_of_32_mb_takes_less_than_300_mb_and_frees_them(gateway: Gateway) -> None:
    before_mb = peak_mb(gateway)
    body = ask("chat", b'"%b"' % (b"hello world " * (32 * MIB // 12 - 100) + "😀".encode()))
    for _ in range(2):
        assert send(gateway, body).status_code == 200
    assert peak_mb(gateway) - before_mb < MAX_GROWTH_MB


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"[" * (30 * MIB), "deeper than 64"),
        (
            b'{"messages":[' + b'{"role":"user","content":"x"},' * 1_000_000 + b"{}]}",
            "more than 250,000 values",
        ),
    ],
    ids=["30 MB of brackets", "a million messages"],
)
def test_a_body_that_is_expensive_to_parse_is_refused(gateway: Gateway, body: bytes, says: str) -> None:
    before_mb = peak_mb(gateway)
    answer = send(gateway, body)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]
    assert peak_mb(gateway) - before_mb < MAX_GROWTH_MB


def test_an_answer_with_too_many_values_is_an_upstream_error(gateway: Gateway, answers: Upstream) -> None:
    answers.behave(whole({"choices": [], "x": [0] * 300_000}))
    answer = send(gateway, ask("chat", b'"hello"'))
    assert answer.status_code == 502
    assert "more than 250,000 values" in answer.json()["error"]["message"]


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_large_answer_is_relayed_and_has_its_row(gateway: Gateway, answers: Upstream, vendor: str) -> None:
    text = "hello world " * 200_000 + "😀"
    spoken = json.dumps(whole_answer(vendor)).replace("Let me see.", text)
    answers.behave(whole(json.loads(spoken)))
    answer = send(gateway, ask(vendor, b'"hello"'))
    assert answer.status_code == 200, answer.text[:500]
    assert answer.json()["choices"][0]["message"]["content"] == text
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["status"], row["usage_source"], row["prompt_tokens"]) == (200, "provider", 20)


def test_a_large_body_that_is_no_completion_is_an_upstream_error(gateway: Gateway, answers: Upstream) -> None:
    answers.behave(whole({"text": "hello " * 100_000}))
    answer = send(gateway, ask("chat", b'"hello"'))
    assert answer.status_code == 502
    assert "not a chat completion" in answer.json()["error"]["message"]
