"""The text, the reasoning and the tool calls of the sandbox's replies."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.sandbox import CLOCK, WEATHER, SandboxClient, user_messages

from addon.sandbox.reply import MAX_COUNTED_CHARS, count_tokens, split_tokens
from addon.sandbox.request import CHAT_MODEL, NUMBERS, REASONER_MODEL


async def test_the_answer_repeats_the_last_user_message(sandbox: SandboxClient) -> None:
    answer = await sandbox.whole("What is the time?")
    assert "“What is the time?”" in answer.choices[0].message.content
    assert answer.model == CHAT_MODEL
    assert answer.choices[0].finish_reason == "stop"


async def test_n_choices_are_numbered_and_all_counted(sandbox: SandboxClient) -> None:
    one, three = await sandbox.whole(), await sandbox.whole(n=3)
    assert [choice.index for choice in three.choices] == [0, 1, 2]
    assert [f"Answer {number} of 3" in three.choices[number - 1].message.content for number in (1, 2, 3)] == [
        True
    ] * 3
    assert three.usage.completion_tokens > 3 * one.usage.completion_tokens
    chunks = await sandbox.chunks(n=3)
    ends = {c.index: c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason}
    assert ends == {0: "stop", 1: "stop", 2: "stop"}


@given(st.text())
def test_the_tokens_of_a_text_add_up_to_the_text(text: str) -> None:
    tokens = list(split_tokens(text))
    assert "".join(tokens) == text
    assert all(tokens)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("word", 1), ("two words", 2), ("Hello, world!", 4), ("a-b", 3), ("  \n x ", 2), ("日本語", 1)],
)
def test_a_token_is_a_word_or_a_punctuation_mark(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


def test_only_the_start_of_a_long_text_is_counted_token_by_token() -> None:
    assert count_tokens("," * MAX_COUNTED_CHARS) == MAX_COUNTED_CHARS
    assert count_tokens("," * MAX_COUNTED_CHARS, "x" * 400, ",,,,") == MAX_COUNTED_CHARS + 100 + 1
    assert count_tokens("," * 32_000_000) < 9_000_000


@pytest.mark.parametrize(("effort", "sentences"), [("none", 0), ("low", 1), ("medium", 2), ("high", 3)])
async def test_reasoning_effort_sets_the_length_of_the_reasoning(
    sandbox: SandboxClient, effort: str, sentences: int
) -> None:
    answer = await sandbox.whole(model=REASONER_MODEL, reasoning_effort=effort)
    reasoning = getattr(answer.choices[0].message, "reasoning_content", "")
    assert reasoning.count(".") == sentences
    assert answer.usage.completion_tokens_details.reasoning_tokens == count_tokens(reasoning)


@pytest.mark.parametrize("stop", ["sandbox", ["nowhere", "sandbox"]])
async def test_the_text_ends_before_a_stop_sequence(sandbox: SandboxClient, stop: Any) -> None:
    answer = await sandbox.whole(stop=stop)
    assert answer.choices[0].message.content == "This is the built-in "
    assert answer.choices[0].finish_reason == "stop"


CALLING: list[tuple[str, dict[str, Any], list[str]]] = [
    ("Hello", {}, []),
    ("Use get_weather", {}, ["get_weather"]),
    ("Use get_weather", {"tool_choice": "none"}, []),
    ("get_time, then get_weather", {}, ["get_time", "get_weather"]),
    ("get_time, then get_weather", {"parallel_tool_calls": False}, ["get_time"]),
    ("not_get_time", {}, []),
    ("Hello", {"tool_choice": "required"}, ["get_weather"]),
    ("Use get_time", {"tool_choice": "required"}, ["get_time"]),
    ("Hello", {"tool_choice": {"type": "function", "function": {"name": "get_time"}}}, ["get_time"]),
    ("[[tool]]", {}, ["get_weather"]),
    ("[[tool:get_time]] and [[tool:get_time]]", {}, ["get_time", "get_time"]),
]


@pytest.mark.parametrize(("text", "changes", "names"), CALLING)
async def test_tools_are_called_when_they_are_named_or_required(
    sandbox: SandboxClient, text: str, changes: dict[str, Any], names: list[str]
) -> None:
    message = (await sandbox.whole(text, tools=[WEATHER, CLOCK], **changes)).choices[0]
    calls = message.message.tool_calls or []
    assert [call.function.name for call in calls] == names
    assert message.finish_reason == ("tool_calls" if names else "stop")
    assert len({call.id for call in calls}) == len(names)
    wanted = {"get_weather": {"city": "example", "days": 3}, "get_time": {"zone": "UTC"}}
    assert all(json.loads(call.function.arguments) == wanted[call.function.name] for call in calls)


async def test_the_answer_to_a_tool_message_repeats_the_result(sandbox: SandboxClient) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}
    messages = [
        *user_messages("Use get_time"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "It is noon"},
    ]
    choice = (await sandbox.whole(messages=messages, tools=[CLOCK])).choices[0]
    assert (choice.message.tool_calls, choice.finish_reason) == (None, "stop")
    assert choice.message.content == "The tool answered: “It is noon”"


async def test_response_format_asks_for_json(sandbox: SandboxClient) -> None:
    answer = await sandbox.whole("Hi", response_format={"type": "json_object"})
    assert "“Hi”" in json.loads(answer.choices[0].message.content)["answer"]
    schema = WEATHER["function"]["parameters"]
    wanted = {"type": "json_schema", "json_schema": {"name": "weather", "schema": schema}}
    answer = await sandbox.whole("Hi", response_format=wanted)
    assert json.loads(answer.choices[0].message.content) == {"city": "example", "days": 3}


async def test_tokens_sets_the_length_of_the_answer(sandbox: SandboxClient) -> None:
    for length in (0, 1, 200, NUMBERS["tokens"][1]):
        answer = await sandbox.whole(f"[[tokens:{length}]] Go on")
        assert answer.usage.completion_tokens == length == count_tokens(answer.choices[0].message.content)
        assert answer.choices[0].finish_reason == "stop"


async def test_directives_are_left_out_of_the_repeated_text(sandbox: SandboxClient) -> None:
    answer = await sandbox.whole("[[delay:1]] Say [[no-usage]] this [[unknown:1]] [[ -f x ]]")
    assert "“Say this [[unknown:1]] [[ -f x ]]”" in answer.choices[0].message.content


async def test_a_directive_for_an_unknown_tool_is_refused(sandbox: SandboxClient) -> None:
    answer = await sandbox.post("[[tool:nothing]]", tools=[CLOCK])
    assert answer.json()["error"]["message"] == "[[tool:nothing]] names no tool of this request."
