"""The sandbox behind the gateway, after a first run: answers and failures in the openai SDK, and their rows."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import openai
import pytest
from openai import OpenAI
from rig.bounds import BOUND_S
from rig.gateway import Gateway
from rig.processes import Shipped, curl_line, shown_keys


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway after its first run. Its client has the key of the demo workspace."""
    with ExitStack() as running:
        gateway = running.enter_context(Gateway(Shipped(), tmp_path_factory.mktemp("clone"), {}))
        curl_line(gateway)
        [key] = shown_keys("\n".join(gateway.stderr_lines))
        yield gateway
        assert gateway.stop() == 0
        assert "\n".join(line for line in gateway.stderr_lines if line.startswith("{")).count(key) == 0


@pytest.fixture
def sdk(newcomer: Gateway) -> Iterator[OpenAI]:
    [key] = shown_keys("\n".join(newcomer.stderr_lines))
    with OpenAI(base_url=f"{newcomer.url}/v1", api_key=key, max_retries=0, timeout=BOUND_S) as made:
        yield made


def _ask(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "sandbox-chat", "messages": [{"role": "user", "content": text}]} | more


def _retail_nanousd(row: dict[str, Any]) -> int:
    """Return the retail price of a row of sandbox-chat, with the 4% markup."""
    cached = row["cached_tokens"] or 0
    return (row["prompt_tokens"] - cached) * 156 + cached * 78 + row["completion_tokens"] * 624


def test_a_whole_answer_with_cached_tokens(newcomer: Gateway, sdk: OpenAI) -> None:
    messages = [
        {"role": "system", "content": "Be brief and kind"},
        {"role": "user", "content": "Hello there"},
    ]
    raw = sdk.chat.completions.with_raw_response.create(**_ask("", messages=messages))
    answer = raw.parse()
    assert answer.model == "sandbox-chat"
    assert "Hello there" in (answer.choices[0].message.content or "")
    usage = answer.usage
    assert usage
    assert usage.prompt_tokens_details
    assert usage.prompt_tokens_details.cached_tokens == 4
    row = newcomer.wait_for_row(raw.headers["x-request-id"])
    shown = {
        name: row[name] for name in ("status", "stream", "cached_tokens", "usage_source", "prompt_tokens")
    }
    assert shown == {
        "status": 200,
        "stream": 0,
        "cached_tokens": 4,
        "usage_source": "provider",
        "prompt_tokens": usage.prompt_tokens,
    }
    assert row["retail_nanousd"] == _retail_nanousd(row) > 0


def test_a_streamed_answer_equals_a_whole_one(newcomer: Gateway, sdk: OpenAI) -> None:
    whole = sdk.chat.completions.create(**_ask("Tell me more"))
    raw = sdk.chat.completions.with_raw_response.create(
        **_ask("Tell me more", stream=True, stream_options={"include_usage": True})
    )
    chunks = list(raw.parse())
    assert {chunk.model for chunk in chunks} == {"sandbox-chat"}
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    row = newcomer.wait_for_row(raw.headers["x-request-id"])
    assert (row["status"], row["stream"], row["usage_source"]) == (200, 1, "provider")
    assert row["retail_nanousd"] == _retail_nanousd(row) > 0


WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_call(newcomer: Gateway, sdk: OpenAI, stream: bool) -> None:
    request = _ask("Please use get_weather", tools=[WEATHER])
    if stream:
        with sdk.chat.completions.stream(**request) as events:
            answer: Any = events.get_final_completion()
    else:
        answer = sdk.chat.completions.create(**request)
    [call] = answer.choices[0].message.tool_calls or []
    assert (answer.choices[0].finish_reason, call.function.name) == ("tool_calls", "get_weather")
    assert "city" in json.loads(call.function.arguments)


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_text(newcomer: Gateway, sdk: OpenAI, stream: bool) -> None:
    raw = sdk.chat.completions.with_raw_response.create(
        **_ask("Think", model="sandbox-reasoner", stream=stream)
    )
    answer = raw.parse()
    messages = (
        [part.choices[0].delta for part in answer if part.choices] if stream else [answer.choices[0].message]
    )
    reasoning = "".join(getattr(message, "reasoning_content", None) or "" for message in messages)
    assert reasoning
    assert "Think" in "".join(message.content or "" for message in messages)
    assert newcomer.wait_for_row(raw.headers["x-request-id"])["reasoning_tokens"] > 0


def test_an_error_of_a_chosen_status(newcomer: Gateway, sdk: OpenAI) -> None:
    with pytest.raises(openai.RateLimitError) as refused:
        sdk.chat.completions.create(**_ask("[[status:429]]"))
    assert (refused.value.code, refused.value.type) == ("rate_limit_exceeded", "rate_limit_error")
    row = newcomer.wait_for_row(str(refused.value.request_id))
    assert (row["status"], row["error_code"], row["retail_nanousd"]) == (429, "rate_limit_exceeded", 0)


def test_a_connection_dropped_before_the_answer_is_whole(newcomer: Gateway, sdk: OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as broken:
        sdk.chat.completions.create(**_ask("[[drop]] Hello"))
    assert (broken.value.status_code, broken.value.code) == (502, "upstream_error")
    row = newcomer.wait_for_row(str(broken.value.request_id))
    assert (row["status"], row["error_code"], row["retail_nanousd"]) == (502, "upstream_error", 0)


def test_an_error_in_place_of_an_answer(newcomer: Gateway, sdk: OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as broken:
        sdk.chat.completions.create(**_ask("[[error-200]] Hello"))
    row = newcomer.wait_for_row(str(broken.value.request_id))
    assert (row["status"], row["error_code"]) == (broken.value.status_code, "upstream_error")


@pytest.mark.parametrize("directive", ["[[drop]]", "[[error-in-stream]]"])
def test_a_stream_that_breaks_ends_in_an_error_event(newcomer: Gateway, sdk: OpenAI, directive: str) -> None:
    raw = sdk.chat.completions.with_raw_response.create(**_ask(f"{directive} one two three", stream=True))
    with pytest.raises(openai.APIError) as broken:
        list(raw.parse())
    assert broken.value.code == "upstream_error"
    row = newcomer.wait_for_row(raw.headers["x-request-id"])
    assert (row["stream"], row["error_code"], row["usage_source"]) == (1, "upstream_error", "estimated")
    assert row["retail_nanousd"] > 0


def test_tokens_without_any_text_are_explained(newcomer: Gateway, sdk: OpenAI) -> None:
    raw = sdk.chat.completions.with_raw_response.create(**_ask("[[silent]] Hello"))
    answer = raw.parse()
    assert answer.usage
    assert answer.usage.completion_tokens > 0
    assert not answer.choices[0].message.content
    assert getattr(answer.choices[0].message, "reasoning_content", None)
    row = newcomer.wait_for_row(raw.headers["x-request-id"])
    assert row["completion_tokens"] == answer.usage.completion_tokens
    assert row["retail_nanousd"] == _retail_nanousd(row) > 0


@pytest.mark.parametrize("directive", ["[[no-done]]", "[[no-usage]]"])
def test_a_stream_without_its_end_or_its_usage(newcomer: Gateway, sdk: OpenAI, directive: str) -> None:
    raw = sdk.chat.completions.with_streaming_response.create(**_ask(f"{directive} Hello", stream=True))
    with raw as answer:
        assert answer.read().endswith(b"data: [DONE]\n\n")
    row = newcomer.wait_for_row(answer.headers["x-request-id"])
    source = "estimated" if directive == "[[no-usage]]" else "provider"
    assert (row["status"], row["usage_source"]) == (200, source)
