"""The sandbox's completions, whole and streamed, with their usage."""

import json
from typing import Any

import openai
import pytest
from rig.sandbox import CLOCK, WEATHER, SandboxClient, event_data, joined_text, user_messages

from addon.sandbox.request import CHAT_MODEL, REASONER_MODEL


async def test_the_same_request_gets_the_same_answer(sandbox: SandboxClient) -> None:
    first, second = (await sandbox.post()).json(), (await sandbox.post()).json()
    assert first["id"] != second["id"]
    assert (first["choices"], first["usage"]) == (second["choices"], second["usage"])


@pytest.mark.parametrize("model", [CHAT_MODEL, REASONER_MODEL])
@pytest.mark.parametrize("text", ["Hello", "Zwölf Boxkämpfer, 日本語!", "[[tokens:50]]", ""])
async def test_a_stream_adds_up_to_the_whole_answer(sandbox: SandboxClient, model: str, text: str) -> None:
    whole = await sandbox.whole(text, model=model)
    chunks = await sandbox.chunks(text, model=model, stream_options={"include_usage": True})
    assert joined_text(chunks) == whole.choices[0].message.content
    assert joined_text(chunks, "reasoning_content") == getattr(
        whole.choices[0].message, "reasoning_content", ""
    )
    assert chunks[-1].usage == whole.usage
    tokens = sum(
        bool(c.delta.content) or hasattr(c.delta, "reasoning_content") for x in chunks for c in x.choices
    )
    assert tokens == whole.usage.completion_tokens


async def test_a_stream_starts_with_the_role_and_ends_with_finish_usage_and_done(
    sandbox: SandboxClient,
) -> None:
    answer = await sandbox.post(stream=True, stream_options={"include_usage": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, done = event_data(answer.text)
    first, *_, end, usage = map(json.loads, events)
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert (end["choices"][0]["delta"], end["choices"][0]["finish_reason"]) == ({}, "stop")
    assert (usage["choices"], usage["usage"]["total_tokens"] > 0) == ([], True)
    assert {json.loads(event)["id"] for event in events} == {first["id"]}
    assert done == "[DONE]"


async def test_a_stream_has_usage_only_when_the_request_asks_for_it(sandbox: SandboxClient) -> None:
    assert not any(chunk.usage for chunk in await sandbox.chunks())


async def test_the_tokens_of_system_messages_are_the_cached_ones(sandbox: SandboxClient) -> None:
    messages = [{"role": "system", "content": "Be brief and kind"}, *user_messages("Good morning")]
    usage = (await sandbox.whole(messages=messages)).usage
    assert (usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens) == (6, 4)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


async def test_a_part_that_is_not_text_counts_as_85_tokens(sandbox: SandboxClient) -> None:
    parts = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    answer = await sandbox.whole(messages=[{"role": "user", "content": parts}])
    assert answer.usage.prompt_tokens == 86
    assert "1 of their parts are not text" in answer.choices[0].message.content


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
async def test_a_cap_ends_the_answer(sandbox: SandboxClient, field: str) -> None:
    answer = await sandbox.whole(**{field: 4})
    assert answer.choices[0].message.content == "This is the built"
    assert (answer.choices[0].finish_reason, answer.usage.completion_tokens) == ("length", 4)


async def test_the_smaller_of_two_caps_applies(sandbox: SandboxClient) -> None:
    answer = await sandbox.whole(max_tokens=9, max_completion_tokens=2)
    assert answer.usage.completion_tokens == 2


async def test_the_cap_includes_reasoning(sandbox: SandboxClient) -> None:
    answer = await sandbox.whole(model=REASONER_MODEL, max_completion_tokens=3)
    assert answer.choices[0].message.reasoning_content == "The user wrote"
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("", "length")
    assert answer.usage.completion_tokens_details.reasoning_tokens == 3


async def test_logprobs_has_one_entry_for_each_token_of_the_content(sandbox: SandboxClient) -> None:
    answer = await sandbox.whole(logprobs=True, top_logprobs=3)
    tokens = answer.choices[0].logprobs.content
    assert "".join(entry.token for entry in tokens) == answer.choices[0].message.content
    assert all(entry.top_logprobs[0].token == entry.token for entry in tokens)
    assert all(len({top.token for top in entry.top_logprobs}) == 3 for entry in tokens)
    chunks = await sandbox.chunks(logprobs=True, top_logprobs=3)
    streamed = [c.logprobs.content[0] for chunk in chunks for c in chunk.choices if c.logprobs]
    assert streamed == tokens


async def test_streamed_tool_calls_add_up_to_the_whole_ones(sandbox: SandboxClient) -> None:
    request: dict[str, Any] = {"text": "get_time and get_weather", "tools": [WEATHER, CLOCK]}
    whole = (await sandbox.whole(**request)).choices[0].message.tool_calls
    parts = [
        part for x in await sandbox.chunks(**request) for c in x.choices for part in c.delta.tool_calls or ()
    ]
    assert len(parts) > 4
    for index, call in enumerate(whole):
        own = [part for part in parts if part.index == index]
        # The ids differ, because each answer has its own.
        assert (own[0].type, own[0].function.name) == ("function", call.function.name)
        assert own[0].id
        assert not any(part.id or part.function.name for part in own[1:])
        assert "".join(part.function.arguments for part in own) == call.function.arguments


async def test_a_capped_tool_call_is_cut(sandbox: SandboxClient) -> None:
    choice = (await sandbox.whole("get_weather", tools=[WEATHER], max_tokens=3)).choices[0]
    assert (choice.message.tool_calls[0].function.arguments, choice.finish_reason) == ('{"city', "length")


async def test_silent_counts_tokens_and_sends_none(sandbox: SandboxClient) -> None:
    silent, loud = (
        await sandbox.whole("[[silent]]", model=REASONER_MODEL),
        await sandbox.whole(model=REASONER_MODEL),
    )
    assert silent.choices[0].message.content == ""
    assert not hasattr(silent.choices[0].message, "reasoning_content")
    assert silent.usage.completion_tokens > 0
    assert loud.usage.completion_tokens_details == silent.usage.completion_tokens_details
    assert joined_text(await sandbox.chunks("[[silent]]")) == ""


async def test_error_in_stream_ends_a_partial_answer(sandbox: SandboxClient) -> None:
    *events, last = event_data((await sandbox.post("[[error-in-stream]]", stream=True)).text)
    assert len(events) > 2
    assert json.loads(last)["error"]["type"] == "server_error"
    with pytest.raises(openai.APIError, match="asked for an error"):
        await sandbox.chunks("[[error-in-stream]]")


async def test_error_200_sends_an_error_with_status_200(sandbox: SandboxClient) -> None:
    answer = await sandbox.post("[[error-200]]")
    assert (answer.status_code, set(answer.json())) == (200, {"error"})
    answer = await sandbox.post("[[error-200]]", stream=True)
    assert (answer.status_code, len(event_data(answer.text))) == (200, 1)
    assert set(json.loads(event_data(answer.text)[0])) == {"error"}


async def test_no_done_leaves_out_done(sandbox: SandboxClient) -> None:
    usual, cut = [event_data((await sandbox.post(text, stream=True)).text) for text in ("", "[[no-done]]")]
    assert len(cut) == len(usual) - 1
    assert json.loads(cut[-1])["choices"][0]["finish_reason"] == "stop"


async def test_no_usage_leaves_out_usage(sandbox: SandboxClient) -> None:
    assert "usage" not in (await sandbox.post("[[no-usage]]")).json()
    chunks = await sandbox.chunks("[[no-usage]]", stream_options={"include_usage": True})
    assert not any(chunk.usage for chunk in chunks)
    assert all(chunk.choices for chunk in chunks)
