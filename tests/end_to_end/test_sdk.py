"""The official ``openai`` SDK with a real gateway: its features work, and errors are the expected exceptions."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import openai
import pytest
from conftest import HELLO
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionChunk
from pydantic import BaseModel
from rig.bounds import BOUND_S
from rig.gateway import Gateway
from rig.scripts import (
    DONE,
    UNTIL_CLIENT_LEAVES,
    USAGE,
    Received,
    Script,
    chunk,
    chunked,
    completion,
    event,
    whole,
)
from rig.upstream import Upstream

MODEL = "tester-large"
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]
ASKED: Any = HELLO


@pytest.fixture
def sdk(gateway: Gateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key, max_retries=0, timeout=BOUND_S) as made:
        yield made


@pytest.fixture
async def async_sdk(gateway: Gateway) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key=gateway.key, max_retries=0, timeout=BOUND_S
    ) as made:
        yield made


def _text(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def test_a_whole_completion(sdk: OpenAI) -> None:
    answer = sdk.chat.completions.create(model=MODEL, messages=ASKED)
    assert answer.choices[0].message.content == "hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == MODEL
    assert answer.usage
    assert answer.usage.total_tokens == 11


def test_a_streamed_completion(sdk: OpenAI) -> None:
    with sdk.chat.completions.create(model=MODEL, messages=ASKED, stream=True) as stream:
        chunks = list(stream)
    assert _text(chunks) == "hello"
    assert {chunk.model for chunk in chunks} == {MODEL}
    assert chunks[-1].usage
    assert chunks[-1].usage.model_dump(exclude_none=True) == USAGE


def test_the_streaming_helper_accumulates_the_completion(sdk: OpenAI) -> None:
    with sdk.chat.completions.stream(model=MODEL, messages=ASKED) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == "hello"
    assert final.model == MODEL
    assert final.usage
    assert final.usage.total_tokens == 11


async def test_the_async_client_whole_and_streamed(async_sdk: AsyncOpenAI) -> None:
    answer = await async_sdk.chat.completions.create(model=MODEL, messages=ASKED)
    assert answer.choices[0].message.content == "hello"
    stream = await async_sdk.chat.completions.create(model=MODEL, messages=ASKED, stream=True)
    chunks = [chunk async for chunk in stream]
    assert _text(chunks) == "hello"


async def test_many_calls_at_once_do_not_mix(async_sdk: AsyncOpenAI, upstream: Upstream) -> None:
    def echo(request: Received) -> Script:
        asked = request.json()
        said = asked["messages"][-1]["content"]
        if asked.get("stream"):
            return chunked(*(event(chunk(letter)) for letter in said), event(chunk(finish="stop")), DONE)
        return whole(completion(said))

    async def one(number: int) -> str:
        messages: Any = [{"role": "user", "content": f"call {number}"}]
        if number % 2:
            answer = await async_sdk.chat.completions.create(model=MODEL, messages=messages)
            return answer.choices[0].message.content or ""
        stream = await async_sdk.chat.completions.create(model=MODEL, messages=messages, stream=True)
        return _text([chunk async for chunk in stream])

    upstream.behave(echo)
    assert await asyncio.gather(*map(one, range(60))) == [f"call {number}" for number in range(60)]


def test_tool_calls_of_a_whole_answer(sdk: OpenAI, upstream: Upstream) -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}
    upstream.behave(whole(completion(choices=[choice])))
    answer = sdk.chat.completions.create(model=MODEL, messages=ASKED, tools=TOOLS, tool_choice="required")
    calls = answer.choices[0].message.tool_calls
    assert calls
    assert calls[0].model_dump(exclude_none=True) == call
    assert upstream.last.json()["tools"] == TOOLS


def test_the_result_of_a_tool_goes_upstream(sdk: OpenAI, upstream: Upstream) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    turns: Any = [
        *ASKED,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain"},
    ]
    sdk.chat.completions.create(model=MODEL, messages=turns, tools=TOOLS)
    assert upstream.last.json()["messages"] == turns


def test_streamed_tool_calls_are_merged_by_index(sdk: OpenAI, upstream: Upstream) -> None:
    def part(index: int, arguments: str, **more: Any) -> bytes:
        named = {"name": more.pop("name")} if "name" in more else {}
        call = {"index": index, **more, "function": named | {"arguments": arguments}}
        return event(chunk(tool_calls=[call]))

    upstream.behave(
        chunked(
            event(chunk(role="assistant", content=None)),
            part(0, "", id="call_1", type="function", name="weather"),
            part(0, '{"city":'),
            part(1, "", id="call_2", type="function", name="weather"),
            part(1, '{"city":"Rome"}'),
            part(0, '"Oslo"}'),
            event(chunk(finish="tool_calls")),
            DONE,
        )
    )
    with sdk.chat.completions.stream(model=MODEL, messages=ASKED, tools=TOOLS) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls
    assert [(call.id, call.function.arguments) for call in message.tool_calls] == [
        ("call_1", '{"city":"Oslo"}'),
        ("call_2", '{"city":"Rome"}'),
    ]


class City(BaseModel):
    name: str


def test_structured_output_is_parsed(sdk: OpenAI, upstream: Upstream) -> None:
    upstream.behave(whole(completion('{"name": "Oslo"}')))
    answer = sdk.chat.completions.parse(model=MODEL, messages=ASKED, response_format=City)
    assert answer.choices[0].message.parsed == City(name="Oslo")
    assert upstream.last.json()["response_format"]["json_schema"]["name"] == "City"


def test_the_raw_response_shows_headers_and_the_same_object(sdk: OpenAI, gateway: Gateway) -> None:
    raw = sdk.chat.completions.with_raw_response.create(model=MODEL, messages=ASKED)
    assert raw.status_code == 200
    assert raw.headers["x-request-id"]
    assert gateway.wait_for_row(raw.headers["x-request-id"])["status"] == 200
    assert raw.parse().choices[0].message.content == "hello"


def test_the_request_id_is_on_the_object(sdk: OpenAI) -> None:
    assert sdk.chat.completions.create(model=MODEL, messages=ASKED)._request_id


def test_reasoning_content_and_unknown_keys_can_be_read(sdk: OpenAI, upstream: Upstream) -> None:
    made = completion("hello", provider_extra={"a": 1})
    made["choices"][0]["message"]["reasoning_content"] = "Let me think."
    upstream.behave(whole(made))
    answer = sdk.chat.completions.create(model=MODEL, messages=ASKED)
    assert answer.choices[0].message.model_extra == {"reasoning_content": "Let me think."}
    assert answer.model_extra == {"provider_extra": {"a": 1}}


def test_the_catalog_is_read_with_any_http_client(gateway: Gateway) -> None:
    rows = httpx.get(f"{gateway.url}/v1/models", timeout=BOUND_S, trust_env=False).json()
    assert MODEL in [row["modelSlug"] for row in rows]


STATUSES: list[tuple[int, type[openai.APIStatusError], str]] = [
    (400, openai.BadRequestError, "invalid_request_error"),
    (401, openai.AuthenticationError, "invalid_api_key"),
    (403, openai.PermissionDeniedError, "permission_denied"),
    (404, openai.NotFoundError, "model_not_found"),
    (409, openai.ConflictError, "invalid_request_error"),
    (422, openai.UnprocessableEntityError, "invalid_request_error"),
    (429, openai.RateLimitError, "rate_limit_exceeded"),
    (500, openai.InternalServerError, "upstream_error"),
    (529, openai.InternalServerError, "upstream_error"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("status", "kind", "code"), STATUSES)
def test_an_upstream_error_is_the_sdks_exception_for_it(
    sdk: OpenAI,
    upstream: Upstream,
    status: int,
    kind: type[openai.APIStatusError],
    code: str,
    stream: bool,
) -> None:
    upstream.behave(whole({"error": {"message": "The vendor says no."}}, status))
    with pytest.raises(kind, match="The vendor says no") as caught:
        sdk.chat.completions.create(model=MODEL, messages=ASKED, stream=stream)
    assert caught.value.code == code
    assert caught.value.request_id
    assert len(upstream.requests) == 1


def test_a_wrong_key_is_an_authentication_error(gateway: Gateway) -> None:
    wrong = "tg_" + "0" * 40
    with (
        OpenAI(base_url=f"{gateway.url}/v1", api_key=wrong, max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError) as caught,
    ):
        stranger.chat.completions.create(model=MODEL, messages=ASKED)
    assert (caught.value.code, caught.value.type) == ("invalid_api_key", "authentication_error")


def test_a_wrong_field_is_a_bad_request_error_with_its_name(sdk: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.chat.completions.create(model=MODEL, messages=ASKED, top_p=5)
    assert (caught.value.code, caught.value.param) == ("validation_failed", "top_p")


def test_a_byok_only_model_is_a_permission_error(sdk: OpenAI) -> None:
    with pytest.raises(openai.PermissionDeniedError) as caught:
        sdk.chat.completions.create(model="tester-byok", messages=ASKED)
    assert caught.value.code == "byok_required"


def test_an_error_inside_a_stream_is_raised_after_what_came_before_it(
    sdk: OpenAI, upstream: Upstream
) -> None:
    broken = event({"error": {"message": "overloaded"}})
    upstream.behave(chunked(event(chunk("hel")), event(chunk("lo")), broken))
    seen: list[ChatCompletionChunk] = []
    with (
        sdk.chat.completions.create(model=MODEL, messages=ASKED, stream=True) as stream,
        pytest.raises(openai.APIError, match="overloaded"),
    ):
        seen.extend(stream)
    assert _text(seen) == "hello"


def test_a_client_that_stops_reading_ends_the_call(sdk: OpenAI, gateway: Gateway, upstream: Upstream) -> None:
    upstream.behave(chunked(event(chunk("hel")), UNTIL_CLIENT_LEAVES))
    with sdk.chat.completions.create(model=MODEL, messages=ASKED, stream=True) as stream:
        next(stream)
        call = stream.response.headers["x-request-id"]
    assert upstream.last.client_left.wait(BOUND_S)
    assert gateway.wait_for_row(call)["status"] == 499
