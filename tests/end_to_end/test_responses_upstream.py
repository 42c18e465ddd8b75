"""Chat calls with tools and reasoning through a real gateway to a vendor that takes them only over Responses.

The client is the official OpenAI SDK, the vendor as strict as OpenAI (``rig.native_responses``).
"""

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from anthropic import Anthropic
from conftest import StartGateway
from openai import OpenAI
from rig import anthropic_answers
from rig.bounds import BOUND_S
from rig.configuration import ROOT, model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.native_responses import (
    Responses,
    events,
    failed,
    frame,
    function_call,
    incomplete,
    message,
    reasoning,
    response,
    script,
)
from rig.scripts import Received, Script, chunked, whole
from rig.upstream import Upstream

FLAGSHIP, CODEX, CLAUDE = "house/flagship", "house/codex", "house/claude"
KEY = new_key()
FUNCTION = {
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
ASKED: dict[str, Any] = {
    "model": FLAGSHIP,
    "tools": [{"type": "function", "function": FUNCTION}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "And in Rome?"}],
}
PRICES = {"input_price_per_m": "1", "output_price_per_m": "10", "cached_input_price_per_m": "0.5"}
COST_NANOUSD = 16 * 1_040 + 4 * 520 + 17 * 10_400
"""Of ``native_responses.USAGE``, with the markup of 4 %: what came from the cache costs half."""


BROKEN: dict[str, Any] = {
    "an overload": lambda streams: whole({"error": {"message": "Overloaded", "code": None}}, 503),
    "a failed answer": lambda streams: script(failed(), streams=streams),
    "only response.failed": lambda streams: (
        chunked(frame({"type": "response.failed", "response": failed()})) if streams else whole(failed())
    ),
}
# Each has a provider of its own, so that no circuit opens.
BROKEN_AT = {
    (how, stream): f"BROKEN_{n}_{stream}".upper() for n, how in enumerate(BROKEN) for stream in (False, True)
}


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    origin = upstreams["TESTER"].base_url.removesuffix("/v1")
    providers = {
        "VENDOR": provider(f"{origin}/openai/v1"),
        "CLAUDE": provider(f"{origin}/claude/v1", dialect="anthropic"),
        **{name: provider(f"{origin}/openai/v1") for name in BROKEN_AT.values()},
    }
    flagship = {"upstream_model_id": "gpt-5.5", "family": "openai-reasoning-or-tools", "dialect": "responses"}
    return start_gateway(
        providers=providers,
        models={
            FLAGSHIP: model(provider="VENDOR", **flagship, **PRICES),
            **{name.lower(): model(provider=name, **flagship, **PRICES) for name in BROKEN_AT.values()},
            CODEX: model(
                provider="VENDOR", upstream_model_id="gpt-5.3-codex", family="openai-codex", **PRICES
            ),
            CLAUDE: model(provider="CLAUDE", upstream_model_id="claude-9", family="claude", **PRICES),
        },
        families=tomllib.loads((ROOT / "catalog_data" / "families.toml").read_text("utf-8")),
        workspaces={"acme": workspace(("ci", KEY, True), fallback_model=CLAUDE)},
    )


@pytest.fixture
def sdk(gateway: Gateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0, timeout=BOUND_S) as made:
        yield made


def streamed(sdk: OpenAI, **asked: Any) -> tuple[dict[str, Any], str, Any, str]:
    """Return the message that a stream adds up to, its finish reason, its usage and the id of the call."""
    said: dict[str, Any] = {"role": "assistant", "content": ""}
    finish, usage = "", None
    with sdk.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}) as stream:
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                finish = choice.finish_reason or finish
                _add(said, choice.delta.model_dump(exclude_unset=True))
    return said, finish, usage, stream.response.headers["x-request-id"]


def _add(said: dict[str, Any], delta: dict[str, Any]) -> None:
    for name in ("content", "reasoning_content"):
        if delta.get(name):
            said[name] = (said.get(name) or "") + delta[name]
    said.setdefault("reasoning_details", []).extend(delta.get("reasoning_details", []))
    for piece in delta.get("tool_calls", []):
        calls = said.setdefault("tool_calls", [])
        if "id" in piece:
            calls.append({name: piece[name] for name in ("id", "type", "function")})
        else:
            calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]


def whole_answer(sdk: OpenAI, **asked: Any) -> tuple[dict[str, Any], str, Any, str]:
    raw = sdk.chat.completions.with_raw_response.create(**asked)
    answer = raw.parse()
    (choice,) = answer.choices
    said = choice.message.model_dump(exclude_unset=True)
    return said, choice.finish_reason, answer.usage, raw.headers["x-request-id"]


def assert_booked(gateway: Gateway, call_id: str, finish: str) -> None:
    row = gateway.wait_for_row(call_id)
    assert (row["status"], row["attempts"], row["finish_reason"]) == (200, 1, finish)
    assert (row["prompt_tokens"], row["completion_tokens"]) == (20, 17)
    assert (row["cached_tokens"], row["reasoning_tokens"]) == (4, 10)
    assert (row["usage_source"], row["retail_nanousd"]) == ("provider", COST_NANOUSD)


@pytest.mark.parametrize("ask", [whole_answer, streamed], ids=["whole", "streamed"])
def test_a_tool_loop_keeps_its_reasoning(ask: Any, sdk: OpenAI, gateway: Gateway, upstream: Upstream) -> None:
    vendor = Responses(
        [reasoning("Rome first.", "Then Oslo."), function_call("weather", {"city": "Rome"}, "call_r")],
        [reasoning("Now Oslo."), function_call("weather", {"city": "Oslo"}, "call_o")],
        [reasoning(), message("Sun in Rome, rain in Oslo.")],
    )
    upstream.behave(vendor)
    messages = list(ASKED["messages"])
    ends = []
    for _turn in range(3):
        said, finish, usage, call_id = ask(sdk, **ASKED | {"messages": messages})
        ends.append(finish)
        assert usage.completion_tokens_details.reasoning_tokens == 10
        assert_booked(gateway, call_id, finish)
        messages.append(said)
        calls = said.get("tool_calls") or []
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": "Sun"} for call in calls]
    assert vendor.refusals == []
    assert ends == ["tool_calls", "tool_calls", "stop"]
    assert messages[2]["reasoning_content"] == "Rome first.\n\nThen Oslo."
    assert messages[-1]["content"] == "Sun in Rome, rain in Oslo."
    assert {request.target for request in upstream.requests} == {"/openai/v1/responses"}
    first, _, last = vendor.bodies
    assert first["reasoning"] == {"summary": "auto"} and first["store"] is False
    assert first["include"] == ["reasoning.encrypted_content"]
    assert first["tools"] == [{"type": "function", **FUNCTION, "strict": False}]
    sealed = [item["encrypted_content"] for item in last["input"] if item.get("type") == "reasoning"]
    assert sealed == vendor.issued[:2]
    assert [item.get("type", item.get("role")) for item in last["input"]] == [
        *("system", "user"),
        *("reasoning", "function_call", "function_call_output") * 2,
    ]


def test_reasoning_that_another_vendor_encrypted_does_not_end_a_conversation(
    sdk: OpenAI, gateway: Gateway, upstream: Upstream
) -> None:
    vendor = Responses([message("Rain.")])
    upstream.behave(vendor)
    detail = {
        "type": "reasoning.encrypted",
        "data": "of another",
        "format": "openai-responses-v1",
        "index": 0,
    }
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_details": [detail]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "Rain"}
    asked = ASKED | {"messages": [*ASKED["messages"], said, result]}
    answer = sdk.chat.completions.with_raw_response.create(**asked)
    assert answer.parse().choices[0].message.content == "Rain."
    assert answer.headers["x-gateway-dropped"] == "messages.reasoning_details"
    assert (len(vendor.refusals), len(vendor.bodies)) == (1, 1)
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["attempts"], row["fallback"], row["status"]) == (2, 0, 200)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_tool_loop_of_another_api_keeps_its_reasoning(
    stream: bool, gateway: Gateway, upstream: Upstream
) -> None:
    vendor = Responses(
        [reasoning("Rome first."), function_call("weather", {"city": "Rome"}, "call_r")],
        [reasoning(), message("Sun in Rome.")],
    )
    upstream.behave(vendor)
    tools: Any = [{"name": "weather", "input_schema": FUNCTION["parameters"]}]
    messages: list[Any] = [{"role": "user", "content": "And in Rome?"}]
    with Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0, timeout=BOUND_S) as claude_sdk:
        for _turn in range(2):
            asked: Any = {"model": FLAGSHIP, "max_tokens": 2_000, "tools": tools, "messages": messages}
            if stream:
                with claude_sdk.messages.stream(**asked) as events_:
                    answer = events_.get_final_message()
            else:
                answer = claude_sdk.messages.create(**asked)
            messages.append({"role": "assistant", "content": answer.content})
            calls = [block for block in answer.content if block.type == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": one.id, "content": "Sun"} for one in calls]
            messages.append({"role": "user", "content": results})
    assert vendor.refusals == []
    assert [block.type for block in messages[1]["content"]] == ["thinking", "tool_use"]
    assert messages[1]["content"][0].thinking == "Rome first."
    assert messages[3]["content"][-1].text == "Sun in Rome."
    assert vendor.bodies[1]["input"][1]["encrypted_content"] == vendor.issued[0]


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        ({"tools": openai.omit}, "/openai/v1/chat/completions"),
        ({"reasoning_effort": "none"}, "/openai/v1/chat/completions"),
        ({"reasoning_effort": "max"}, "/openai/v1/responses"),
        ({"model": CODEX, "tools": openai.omit}, "/openai/v1/responses"),
    ],
    ids=["no tools", "no reasoning", "tools and reasoning", "no chat completions"],
)
def test_only_calls_that_need_it_go_to_the_responses_api(
    fields: dict[str, Any], target: str, sdk: OpenAI, upstream: Upstream
) -> None:
    upstream.behave(Responses())
    answer = sdk.chat.completions.create(**ASKED | fields)
    assert answer.choices[0].message.content == "hello"
    assert upstream.last.target == target
    body = upstream.last.json()
    assert body.get("reasoning_effort") == ("none" if fields.get("reasoning_effort") == "none" else None)


def test_an_answer_is_cut_at_a_small_cap(sdk: OpenAI, gateway: Gateway, upstream: Upstream) -> None:
    vendor = Responses(lambda body: incomplete(message("Su"), to=body))
    upstream.behave(vendor)
    raw = sdk.chat.completions.with_raw_response.create(**ASKED, max_tokens=3, seed=7, stop="x")
    (choice,) = raw.parse().choices
    assert (choice.message.content, choice.finish_reason) == ("Su", "length")
    assert vendor.bodies[0]["max_output_tokens"] == 16  # the least that the API takes
    assert raw.headers["x-gateway-dropped"] == "seed, stop"


def test_a_refusal_of_the_vendor_reaches_the_client(sdk: OpenAI, upstream: Upstream) -> None:
    upstream.behave(Responses())
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    unanswered = [*ASKED["messages"], {"role": "assistant", "tool_calls": [call]}]
    with pytest.raises(openai.BadRequestError, match="No tool output found for function call call_1"):
        sdk.chat.completions.create(**ASKED | {"messages": unanswered})


def _claude(request: Received) -> Script:
    if not request.json().get("stream"):
        return whole(anthropic_answers.answer(anthropic_answers.TEXT))
    said = anthropic_answers.events(anthropic_answers.TEXT)
    return chunked(*[frame(event) for event in said])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("how", BROKEN)
def test_a_model_of_another_api_answers_where_it_fails(
    how: str, stream: bool, sdk: OpenAI, gateway: Gateway, upstream: Upstream
) -> None:
    broken = BROKEN[how]
    upstream.behave(lambda request: _claude(request) if "/claude/" in request.target else broken(stream))
    ask = streamed if stream else whole_answer
    sealed = {"type": "reasoning.encrypted", "data": "theirs", "format": "openai-responses-v1", "index": 0}
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    earlier = [
        {"role": "assistant", "tool_calls": [call], "reasoning_details": [sealed]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Sun"},
    ]
    asked = {"model": BROKEN_AT[how, stream].lower(), "messages": [*ASKED["messages"], *earlier]}
    said, finish, _, call_id = ask(sdk, **ASKED | asked)
    assert (said["content"], finish) == ("Grüße", "stop")
    row = gateway.wait_for_row(call_id)
    assert (row["model_slug"], row["attempts"], row["fallback"]) == (CLAUDE, 2, 1)
    first, second = upstream.requests
    assert first.json()["input"][2]["encrypted_content"] == "theirs"
    assert "theirs" not in json.dumps(second.json())


def test_a_stream_that_fails_later_ends_in_an_error(sdk: OpenAI, upstream: Upstream) -> None:
    begun = [one for one in events(response(message("Hello"))) if one["type"] != "response.completed"]
    upstream.behave(chunked(*map(frame, begun), frame({"type": "response.failed", "response": failed()})))
    with pytest.raises(openai.APIError, match=r"The model failed\."):
        streamed(sdk, **ASKED)
