"""A call that falls back from one provider's API to another's. Each gets a request of its own API, with its own key.

The client is the official OpenAI SDK, which must not notice.
"""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from conftest import StartGateway
from openai import OpenAI
from openai.types.chat import ChatCompletionChunk
from rig.bounds import BOUND_S
from rig.configuration import ROOT, model, new_key, provider, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.scripts import Gate, Received, Script, Step, chunked, whole
from rig.three_apis import (
    ASKED,
    DIALECTS,
    FAMILIES,
    KEY_HEADERS,
    PIECES,
    SECRET,
    SENT,
    STREAMED,
    TARGETS,
    overloaded,
    secret,
    whole_answer,
)
from rig.upstream import Upstream

# --- the gateway -------------------------------------------------------------------------------------------------

PAIRS = [("chat", "claude"), ("claude", "chat"), ("chat", "gemini"), ("gemini", "chat")]
TESTS = ("whole", "streamed", "error-in-the-stream", "both-fail", "refused")
"""Each test has providers of its own, so that no circuit opens."""


def _slug(test: str, first: str, second: str, vendor: str) -> str:
    return f"{test}/{first}-{second}/{vendor}"


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    """Yield a gateway with a workspace for each pair and test. Its fallback is the second of the pair."""
    origin = upstreams["TESTER"].base_url.removesuffix("/v1")
    providers, models, workspaces, keys = {}, {}, {}, {}
    for test in TESTS:
        for first, second in PAIRS:
            name = f"{test}-{first}-{second}"
            for vendor in (first, second):
                of_vendor = f"{name}-{vendor}".upper().replace("-", "_")
                providers[of_vendor] = provider(
                    f"{origin}/{vendor}",
                    dialect=DIALECTS[vendor],
                    platform_key=f"env:TEST_{vendor.upper()}_KEY",
                )
                models[_slug(test, first, second, vendor)] = model(
                    provider=of_vendor,
                    upstream_model_id=f"vendor-{vendor}",
                    family=FAMILIES[vendor],
                    input_price_per_m="1",
                    output_price_per_m="10",
                )
            keys[name] = new_key()
            fallback = _slug(test, first, second, second)
            workspaces[name] = workspace(("ci", keys[name], True), fallback_model=fallback)
    made = start_gateway(
        providers=providers,
        models=models,
        families=tomllib.loads((ROOT / "catalog_data" / "families.toml").read_text("utf-8")),
        workspaces=workspaces,
        environment={f"TEST_{vendor.upper()}_KEY": secret(vendor) for vendor in DIALECTS},
    )
    made.keys = keys
    return made


@dataclass
class Caller:
    """Return the SDK of one test's client. Its first model is the first of ``pair``."""

    sdk: OpenAI
    test: str
    pair: tuple[str, str]

    def slug(self, vendor: str) -> str:
        return _slug(self.test, *self.pair, vendor)

    def asked(self, **changes: Any) -> dict[str, Any]:
        return ASKED | {"model": self.slug(self.pair[0])} | changes


@pytest.fixture
def caller(request: pytest.FixtureRequest, gateway: Gateway, upstream: Upstream) -> Iterator[Caller]:
    test, pair = request.param
    key = gateway.keys["-".join((test, *pair))]
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0, timeout=BOUND_S) as sdk:
        yield Caller(sdk, test, pair)
    gateway.assert_no_secret_logged([secret(vendor) for vendor in DIALECTS])


def _of(test: str, pairs: list[tuple[str, str]] = PAIRS) -> pytest.MarkDecorator:
    cases = [(test, pair) for pair in pairs]
    return pytest.mark.parametrize("caller", cases, ids=[" to ".join(pair) for pair in pairs], indirect=True)


def _vendor(request: Received) -> str:
    return request.target.split("/")[1]


def _fails_over(caller: Caller, answer: Script, *, in_stream: bool = False) -> Any:
    first = caller.pair[0]
    return lambda request: overloaded(first, in_stream=in_stream) if _vendor(request) == first else answer


def assert_each_was_asked_in_its_own_words(caller: Caller, upstream: Upstream, *, stream: bool) -> None:
    assert [_vendor(request) for request in upstream.requests] == list(caller.pair)
    for request in upstream.requests:
        vendor = _vendor(request)
        assert request.target == f"/{vendor}{TARGETS[vendor][stream]}"
        assert request.json() == SENT[vendor] | (STREAMED[vendor] if stream else {})
        header = request.header(KEY_HEADERS[vendor])
        assert header == (f"Bearer {secret(vendor)}" if vendor == "chat" else secret(vendor))
        everything = json.dumps(request.headers) + request.target + request.body.decode()
        assert SECRET.findall(everything) == [vendor]


def assert_booked(caller: Caller, gateway: Gateway, call_id: str, *, stream: bool) -> None:
    row = gateway.wait_for_row(call_id)
    _, second = caller.pair
    assert (row["status"], row["attempts"], row["fallback"], row["stream"]) == (200, 2, 1, stream)
    assert (row["requested_model"], row["model_slug"]) == (caller.slug(caller.pair[0]), caller.slug(second))
    assert (row["upstream_model_id"], row["finish_reason"]) == (f"vendor-{second}", "tool_calls")
    assert (row["prompt_tokens"], row["completion_tokens"], row["total_tokens"]) == (20, 7, 27)
    assert (row["usage_source"], row["retail_nanousd"]) == ("provider", 20 * 1_040 + 7 * 10_400)


# --- tests -------------------------------------------------------------------------------------------------------


@_of("whole")
def test_a_whole_answer_comes_from_the_other_api(
    caller: Caller, gateway: Gateway, upstream: Upstream
) -> None:
    second = caller.pair[1]
    upstream.behave(_fails_over(caller, whole(whole_answer(second))))
    raw = caller.sdk.chat.completions.with_raw_response.create(**caller.asked())
    assert raw.headers["x-gateway-fallback"] == "true"
    answer = raw.parse()
    (choice,) = answer.choices
    assert (answer.model, choice.message.content) == (caller.slug(second), "Let me see.")
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Rome"})
    assert answer.usage
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (20, 7)
    assert_each_was_asked_in_its_own_words(caller, upstream, stream=False)
    assert_booked(caller, gateway, raw.headers["x-request-id"], stream=False)


@dataclass
class StreamedAnswer:
    """A streamed answer, as far as it arrived."""

    text: str = ""
    name: str = ""
    arguments: str = ""
    finish_reason: str | None = None

    def add(self, made: ChatCompletionChunk) -> None:
        for choice in made.choices:
            self.text += choice.delta.content or ""
            self.finish_reason = choice.finish_reason or self.finish_reason
            for call in choice.delta.tool_calls or []:
                assert call.index == 0
                assert call.function
                self.name += call.function.name or ""
                self.arguments += call.function.arguments or ""


MILESTONES = [
    lambda seen: seen.text == "Let me ",
    lambda seen: seen.text == "Let me see.",
    lambda seen: seen.name == "weather",
]
"""Tests of what the client has received. The provider waits for each of them before it sends its next piece."""


@pytest.mark.parametrize(
    ("caller", "in_stream"),
    [
        *((("streamed", pair), False) for pair in PAIRS),
        *((("error-in-the-stream", pair), True) for pair in PAIRS),
    ],
    ids=[f"{' to '.join(pair)} {how}" for how in ("by status", "by event") for pair in PAIRS],
    indirect=["caller"],
)
def test_a_stream_comes_from_the_other_api_piece_by_piece(
    caller: Caller, gateway: Gateway, upstream: Upstream, in_stream: bool
) -> None:
    second = caller.pair[1]
    *pieces, last = PIECES[second]()
    gates = [Gate() for _ in pieces]
    steps: list[Step] = [step for pair in zip(pieces, gates, strict=True) for step in pair]
    upstream.behave(_fails_over(caller, chunked(*steps, last), in_stream=in_stream))
    seen, chunks, reached = StreamedAnswer(), [], 0
    with caller.sdk.chat.completions.create(**caller.asked(stream=True)) as stream:
        for made in stream:
            chunks.append(made)
            seen.add(made)
            while reached < len(gates) and MILESTONES[reached](seen):
                gates[reached].open()
                reached += 1
    assert "x-gateway-fallback" not in stream.response.headers
    assert {made.model for made in chunks} == {caller.slug(second)}
    assert (seen.text, seen.name, seen.finish_reason) == ("Let me see.", "weather", "tool_calls")
    assert json.loads(seen.arguments) == {"city": "Rome"}
    (usage,) = [made.usage for made in chunks if made.usage]
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (20, 7, 27)
    assert_each_was_asked_in_its_own_words(caller, upstream, stream=True)
    assert_booked(caller, gateway, stream.response.headers["x-request-id"], stream=True)


@_of("both-fail")
def test_when_both_fail_the_client_gets_the_first_error(
    caller: Caller, gateway: Gateway, upstream: Upstream
) -> None:
    first = caller.pair[0]
    upstream.behave(lambda request: overloaded(_vendor(request)))
    with pytest.raises(openai.InternalServerError) as failed:
        caller.sdk.chat.completions.create(**caller.asked())
    status = 502 if first == "claude" else 503  # 529 is not a standard status
    error = assert_error(failed.value.response, status, "upstream_error", "api_error")
    assert error["message"] == f"{first} is overloaded"
    row = gateway.wait_for_row(failed.value.response.headers["x-request-id"])
    assert (row["model_slug"], row["status"]) == (caller.slug(first), status)
    assert (row["attempts"], row["fallback"], row["retail_nanousd"]) == (2, 0, 0)


# Claude and Gemini can't use the id of another provider's file.
A_FILE = [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]


@_of("refused", [("chat", "claude"), ("chat", "gemini")])
def test_a_request_that_the_second_api_can_not_express_leaves_the_first_failure(
    caller: Caller, gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(lambda request: overloaded(_vendor(request)))
    with pytest.raises(openai.InternalServerError) as failed:
        caller.sdk.chat.completions.create(**caller.asked(messages=A_FILE))
    error = assert_error(failed.value.response, 503, "upstream_error", "api_error")
    assert error["message"] == "chat is overloaded"
    assert [_vendor(request) for request in upstream.requests] == ["chat"]
    row = gateway.wait_for_row(failed.value.response.headers["x-request-id"])
    assert (row["model_slug"], row["attempts"], row["fallback"]) == (caller.slug("chat"), 1, 0)


@_of("refused", [("claude", "chat"), ("gemini", "chat")])
def test_a_request_that_the_first_api_can_not_express_is_the_clients_fault(
    caller: Caller, gateway: Gateway, upstream: Upstream
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        caller.sdk.chat.completions.create(**caller.asked(messages=A_FILE))
    assert_error(refused.value.response, 400, "validation_failed", "invalid_request_error")
    assert upstream.requests == []
