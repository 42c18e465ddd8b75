"""The built-in upstream, asked by the official SDK and by plain HTTP over loopback."""

import asyncio
import json
import logging
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from typing import Annotated, Any, Literal

import httpx
import openai
import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from rig.bounds import BOUND_S
from rig.configuration import ROOT

from addon.sandbox.directives import FLAGS, NAMES, NUMBERS, parse_directives
from addon.sandbox.request import CHAT_MODEL, REASONER_MODEL
from addon.sandbox.schema import plain_value
from addon.sandbox.script import MAX_COUNTED_CHARS, count_tokens, split_tokens
from addon.sandbox.server import Sandbox

LONGEST = 4_096


def tool(name: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


WEATHER = tool("get_weather", city={"type": "string"}, days={"type": "integer", "minimum": 3})
CLOCK = tool("get_time", zone={"enum": ["UTC", "CET"]})


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


class Caller:
    """The three ways in which the tests talk to one sandbox."""

    def __init__(self, sandbox: Sandbox, base_url: str) -> None:
        self.sandbox = sandbox
        self.base_url = base_url
        self.key = sandbox.key.get_secret_value()
        headers = {"Authorization": f"Bearer {self.key}"}
        self.http = httpx.AsyncClient(headers=headers, timeout=BOUND_S, trust_env=False, verify=False)
        self.sdk = openai.AsyncOpenAI(
            api_key=self.key, base_url=base_url, max_retries=0, http_client=self.http
        )

    async def post(self, text: str = "Hello", **changes: Any) -> httpx.Response:
        body = {"model": CHAT_MODEL, "messages": user(text)} | changes
        return await self.http.post(f"{self.base_url}/chat/completions", json=body)

    async def whole(self, text: str = "Hello", **changes: Any) -> Any:
        """The SDK's completion."""
        body = {"model": CHAT_MODEL, "messages": user(text)} | changes
        return await self.sdk.chat.completions.create(**body)

    async def chunks(self, text: str = "Hello", **changes: Any) -> list[Any]:
        """The SDK's chunks."""
        body = {"model": CHAT_MODEL, "messages": user(text), "stream": True} | changes
        return [chunk async for chunk in await self.sdk.chat.completions.create(**body)]


@asynccontextmanager
async def started(sandbox: Sandbox) -> AsyncIterator[Caller]:
    made = Caller(sandbox, await sandbox.start())
    try:
        yield made
    finally:
        await made.sdk.close()
        await sandbox.stop()


@pytest_asyncio.fixture
async def caller() -> AsyncIterator[Caller]:
    async with started(Sandbox()) as made:
        yield made


def payloads(body: str) -> list[str]:
    """What stands behind ``data:`` in each event."""
    return [event.removeprefix("data: ") for event in body.split("\n\n") if event]


def joined(chunks: list[Any], field: str = "content") -> str:
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    return "".join(getattr(delta, field, None) or "" for delta in deltas)


# What it says.


async def test_the_answer_repeats_the_last_user_message(caller: Caller) -> None:
    answer = await caller.whole("What is the time?")
    assert "“What is the time?”" in answer.choices[0].message.content
    assert answer.model == CHAT_MODEL
    assert answer.choices[0].finish_reason == "stop"


async def test_the_same_request_gets_the_same_answer(caller: Caller) -> None:
    first, second = (await caller.post()).json(), (await caller.post()).json()
    assert first["id"] != second["id"]
    assert (first["choices"], first["usage"]) == (second["choices"], second["usage"])


@pytest.mark.parametrize("model", [CHAT_MODEL, REASONER_MODEL])
@pytest.mark.parametrize("text", ["Hello", "Zwölf Boxkämpfer, 日本語!", "[[tokens:50]]", ""])
async def test_a_stream_says_word_by_word_what_a_whole_answer_says(
    caller: Caller, model: str, text: str
) -> None:
    whole = await caller.whole(text, model=model)
    chunks = await caller.chunks(text, model=model, stream_options={"include_usage": True})
    assert joined(chunks) == whole.choices[0].message.content
    assert joined(chunks, "reasoning_content") == getattr(whole.choices[0].message, "reasoning_content", "")
    assert chunks[-1].usage == whole.usage
    tokens = sum(
        bool(c.delta.content) or hasattr(c.delta, "reasoning_content") for x in chunks for c in x.choices
    )
    assert tokens == whole.usage.completion_tokens


async def test_a_stream_has_role_first_then_the_end_then_usage_then_done(caller: Caller) -> None:
    answer = await caller.post(stream=True, stream_options={"include_usage": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, done = payloads(answer.text)
    first, *_, end, usage = map(json.loads, events)
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert (end["choices"][0]["delta"], end["choices"][0]["finish_reason"]) == ({}, "stop")
    assert (usage["choices"], usage["usage"]["total_tokens"] > 0) == ([], True)
    assert {json.loads(event)["id"] for event in events} == {first["id"]}
    assert done == "[DONE]"


async def test_a_stream_tells_usage_only_where_it_was_asked_for(caller: Caller) -> None:
    assert not any(chunk.usage for chunk in await caller.chunks())


async def test_n_answers_are_numbered_and_all_counted(caller: Caller) -> None:
    one, three = await caller.whole(), await caller.whole(n=3)
    assert [choice.index for choice in three.choices] == [0, 1, 2]
    assert [f"Answer {number} of 3" in three.choices[number - 1].message.content for number in (1, 2, 3)] == [
        True
    ] * 3
    assert three.usage.completion_tokens > 3 * one.usage.completion_tokens
    chunks = await caller.chunks(n=3)
    ends = {c.index: c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason}
    assert ends == {0: "stop", 1: "stop", 2: "stop"}


# Token counts.


@given(st.text())
@settings(max_examples=100)
def test_the_tokens_of_a_text_are_the_text(text: str) -> None:
    tokens = list(split_tokens(text))
    assert "".join(tokens) == text
    assert all(tokens)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("word", 1), ("two words", 2), ("Hello, world!", 4), ("a-b", 3), ("  \n x ", 2), ("日本語", 1)],
)
def test_a_token_is_a_word_or_a_mark(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


def test_of_long_texts_only_the_first_part_is_counted_token_by_token() -> None:
    assert count_tokens("," * MAX_COUNTED_CHARS) == MAX_COUNTED_CHARS
    assert count_tokens("," * MAX_COUNTED_CHARS, "x" * 400, ",,,,") == MAX_COUNTED_CHARS + 100 + 1
    assert count_tokens("," * 32_000_000) < 9_000_000


async def test_the_tokens_of_system_messages_are_the_cached_ones(caller: Caller) -> None:
    messages = [{"role": "system", "content": "Be brief and kind"}, *user("Good morning")]
    usage = (await caller.whole(messages=messages)).usage
    assert (usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens) == (6, 4)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


async def test_a_part_that_is_not_text_counts_as_85_tokens(caller: Caller) -> None:
    parts = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    answer = await caller.whole(messages=[{"role": "user", "content": parts}])
    assert answer.usage.prompt_tokens == 86
    assert "1 of their parts are not text" in answer.choices[0].message.content


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
async def test_a_cap_ends_the_answer(caller: Caller, field: str) -> None:
    answer = await caller.whole(**{field: 4})
    assert answer.choices[0].message.content == "This is the built"
    assert (answer.choices[0].finish_reason, answer.usage.completion_tokens) == ("length", 4)


async def test_the_smaller_of_two_caps_holds(caller: Caller) -> None:
    answer = await caller.whole(max_tokens=9, max_completion_tokens=2)
    assert answer.usage.completion_tokens == 2


async def test_reasoning_comes_out_of_the_same_cap(caller: Caller) -> None:
    answer = await caller.whole(model=REASONER_MODEL, max_completion_tokens=3)
    assert answer.choices[0].message.reasoning_content == "The user wrote"
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("", "length")
    assert answer.usage.completion_tokens_details.reasoning_tokens == 3


@pytest.mark.parametrize(("effort", "sentences"), [("none", 0), ("low", 1), ("medium", 2), ("high", 3)])
async def test_the_reasoner_reasons_as_much_as_it_is_asked_to(
    caller: Caller, effort: str, sentences: int
) -> None:
    answer = await caller.whole(model=REASONER_MODEL, reasoning_effort=effort)
    reasoning = getattr(answer.choices[0].message, "reasoning_content", "")
    assert reasoning.count(".") == sentences
    assert answer.usage.completion_tokens_details.reasoning_tokens == count_tokens(reasoning)


@pytest.mark.parametrize("stop", ["sandbox", ["nowhere", "sandbox"]])
async def test_a_stop_sequence_ends_the_answer_before_itself(caller: Caller, stop: Any) -> None:
    answer = await caller.whole(stop=stop)
    assert answer.choices[0].message.content == "This is the built-in "
    assert answer.choices[0].finish_reason == "stop"


async def test_logprobs_cover_the_content_token_by_token(caller: Caller) -> None:
    answer = await caller.whole(logprobs=True, top_logprobs=3)
    tokens = answer.choices[0].logprobs.content
    assert "".join(entry.token for entry in tokens) == answer.choices[0].message.content
    assert all(entry.top_logprobs[0].token == entry.token for entry in tokens)
    assert all(len({top.token for top in entry.top_logprobs}) == 3 for entry in tokens)
    chunks = await caller.chunks(logprobs=True, top_logprobs=3)
    streamed = [c.logprobs.content[0] for chunk in chunks for c in chunk.choices if c.logprobs]
    assert streamed == tokens


# Tools and JSON.

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
    caller: Caller, text: str, changes: dict[str, Any], names: list[str]
) -> None:
    message = (await caller.whole(text, tools=[WEATHER, CLOCK], **changes)).choices[0]
    calls = message.message.tool_calls or []
    assert [call.function.name for call in calls] == names
    assert message.finish_reason == ("tool_calls" if names else "stop")
    assert len({call.id for call in calls}) == len(names)
    wanted = {"get_weather": {"city": "example", "days": 3}, "get_time": {"zone": "UTC"}}
    assert all(json.loads(call.function.arguments) == wanted[call.function.name] for call in calls)


async def test_streamed_tool_calls_add_up_to_the_whole_ones(caller: Caller) -> None:
    request: dict[str, Any] = {"text": "get_time and get_weather", "tools": [WEATHER, CLOCK]}
    whole = (await caller.whole(**request)).choices[0].message.tool_calls
    parts = [
        part for x in await caller.chunks(**request) for c in x.choices for part in c.delta.tool_calls or ()
    ]
    assert len(parts) > 4
    for index, call in enumerate(whole):
        own = [part for part in parts if part.index == index]
        # The ids differ, because each answer has its own.
        assert (own[0].type, own[0].function.name) == ("function", call.function.name)
        assert own[0].id
        assert not any(part.id or part.function.name for part in own[1:])
        assert "".join(part.function.arguments for part in own) == call.function.arguments


async def test_a_capped_tool_call_is_cut(caller: Caller) -> None:
    choice = (await caller.whole("get_weather", tools=[WEATHER], max_tokens=3)).choices[0]
    assert (choice.message.tool_calls[0].function.arguments, choice.finish_reason) == ('{"city', "length")


async def test_after_a_tool_message_comes_text_about_the_result(caller: Caller) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}
    messages = [
        *user("Use get_time"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "It is noon"},
    ]
    choice = (await caller.whole(messages=messages, tools=[CLOCK])).choices[0]
    assert (choice.message.tool_calls, choice.finish_reason) == (None, "stop")
    assert choice.message.content == "The tool answered: “It is noon”"


class _Colour(Enum):
    RED = "red"
    BLUE = "blue"


class _Leaf(BaseModel):
    name: Annotated[str, Field(min_length=10, max_length=12)]
    children: list["_Leaf"] = Field(default_factory=list)


class _Everything(BaseModel):
    text: str
    short: Annotated[str, Field(max_length=2)]
    count: Annotated[int, Field(gt=3, lt=5)]
    even: Annotated[int, Field(ge=7, multiple_of=2)]
    below: Annotated[int, Field(lt=-2)]
    share: Annotated[float, Field(gt=0, lt=1)]
    flag: bool
    colour: _Colour
    kind: Literal["one"]
    maybe: int | None
    either: int | str
    pair: tuple[int, str]
    several: Annotated[list[str], Field(min_length=2, max_length=3)]
    day: Annotated[str, Field(json_schema_extra={"format": "date"})]
    leaf: _Leaf
    by_name: dict[str, int]
    nothing: None


def test_a_plain_value_fits_its_schema() -> None:
    value = plain_value(_Everything.model_json_schema())
    made = _Everything.model_validate_json(json.dumps(value), strict=True)
    assert (made.count, made.even, made.below, made.kind) == (4, 8, -3, "one")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "integer", "maximum": -5}}}, -5),
        (
            {"allOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 2}}}]},
            {"a": 1, "b": 2},
        ),
        ({"type": ["null", "boolean"]}, True),
        ({"type": "number", "minimum": 0.25, "maximum": 0.75}, 0.5),
        ({"$ref": "#"}, None),
        ({"$ref": "#/nowhere"}, None),
        ({"type": "object", "properties": 5, "required": 5}, {}),
        ({"type": "array", "minItems": -1, "items": {"type": "string"}}, ["example"]),
        ({"type": "integer", "multipleOf": 0, "minimum": float("inf")}, 1),
        (True, None),
    ],
)
def test_unusual_schemas_have_a_plain_value_too(schema: object, value: object) -> None:
    assert plain_value(schema) == value


def test_a_schema_that_multiplies_itself_has_a_bounded_value() -> None:
    properties = {f"p{number}": {"$ref": "#"} for number in range(60)}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    assert len(json.dumps(plain_value(schema))) < 100_000


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["type", "properties", "items", "enum", "anyOf", "allOf", "$ref", "minimum", "exclusiveMaximum",
         "multipleOf", "minLength", "minItems", "required", "prefixItems", "format"]
    ), inner | st.sampled_from(["object", "array", "string", "integer", "number", "#"]), max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(_JSON)
@settings(max_examples=150, deadline=None)
def test_no_schema_however_wrong_breaks_the_sandbox(schema: object) -> None:
    json.dumps(plain_value(schema))


async def test_json_is_answered_where_json_is_asked_for(caller: Caller) -> None:
    answer = await caller.whole("Hi", response_format={"type": "json_object"})
    assert "“Hi”" in json.loads(answer.choices[0].message.content)["answer"]
    schema = WEATHER["function"]["parameters"]
    wanted = {"type": "json_schema", "json_schema": {"name": "weather", "schema": schema}}
    answer = await caller.whole("Hi", response_format=wanted)
    assert json.loads(answer.choices[0].message.content) == {"city": "example", "days": 3}


# Directives.


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (529, openai.InternalServerError),
        (599, openai.InternalServerError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_status_answers_with_an_error_of_that_status(
    caller: Caller, status: int, error: type[openai.APIStatusError], stream: bool
) -> None:
    with pytest.raises(error) as raised:
        await caller.whole(f"[[status:{status}]]", stream=stream)
    assert raised.value.status_code == status
    assert set(raised.value.body) == {"message", "type", "param", "code"}  # type: ignore[arg-type]
    assert str(status) in raised.value.message


async def test_tokens_sets_the_length_of_the_answer(caller: Caller) -> None:
    for length in (0, 1, 200, LONGEST):
        answer = await caller.whole(f"[[tokens:{length}]] Go on")
        assert answer.usage.completion_tokens == length == count_tokens(answer.choices[0].message.content)
        assert answer.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("stream", [False, True])
async def test_drop_breaks_the_connection_off_in_mid_answer(caller: Caller, stream: bool) -> None:
    body = {"model": CHAT_MODEL, "messages": user("[[drop]]"), "stream": stream}
    async with caller.http.stream("POST", f"{caller.base_url}/chat/completions", json=body) as answer:
        assert answer.status_code == 200
        parts = answer.aiter_raw()
        received = await anext(parts)
        with pytest.raises(httpx.RemoteProtocolError):
            received += b"".join([part async for part in parts])
    assert b"[DONE]" not in received


async def test_silent_counts_tokens_but_shows_none(caller: Caller) -> None:
    silent, loud = (
        await caller.whole("[[silent]]", model=REASONER_MODEL),
        await caller.whole(model=REASONER_MODEL),
    )
    assert silent.choices[0].message.content == ""
    assert not hasattr(silent.choices[0].message, "reasoning_content")
    assert silent.usage.completion_tokens > 0
    assert loud.usage.completion_tokens_details == silent.usage.completion_tokens_details
    assert joined(await caller.chunks("[[silent]]")) == ""


async def test_an_error_in_the_stream_follows_part_of_the_answer_and_ends_it(caller: Caller) -> None:
    *events, last = payloads((await caller.post("[[error-in-stream]]", stream=True)).text)
    assert len(events) > 2
    assert json.loads(last)["error"]["type"] == "server_error"
    with pytest.raises(openai.APIError, match="asked for an error"):
        await caller.chunks("[[error-in-stream]]")


async def test_a_success_can_be_an_error(caller: Caller) -> None:
    answer = await caller.post("[[error-200]]")
    assert (answer.status_code, set(answer.json())) == (200, {"error"})
    answer = await caller.post("[[error-200]]", stream=True)
    assert (answer.status_code, len(payloads(answer.text))) == (200, 1)
    assert set(json.loads(payloads(answer.text)[0])) == {"error"}


async def test_done_can_be_left_out(caller: Caller) -> None:
    usual, cut = [payloads((await caller.post(text, stream=True)).text) for text in ("", "[[no-done]]")]
    assert len(cut) == len(usual) - 1
    assert json.loads(cut[-1])["choices"][0]["finish_reason"] == "stop"


async def test_usage_can_be_left_out(caller: Caller) -> None:
    assert "usage" not in (await caller.post("[[no-usage]]")).json()
    chunks = await caller.chunks("[[no-usage]]", stream_options={"include_usage": True})
    assert not any(chunk.usage for chunk in chunks)
    assert all(chunk.choices for chunk in chunks)


async def test_delay_comes_before_the_answer_and_pace_between_its_chunks() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async with started(Sandbox(sleep)) as caller:
        answer = await caller.post("[[delay:60000]] [[pace:5000]] Hello", stream=True)
        assert slept == [60.0] + [5.0] * len(payloads(answer.text))
        slept.clear()
        assert (await caller.post("[[status:500]] [[delay:250]]")).status_code == 500
        assert slept[0] == 0.25


async def test_directives_are_not_part_of_what_is_repeated(caller: Caller) -> None:
    answer = await caller.whole("[[delay:1]] Say [[no-usage]] this [[unknown:1]] [[ -f x ]]")
    assert "“Say this [[unknown:1]] [[ -f x ]]”" in answer.choices[0].message.content


WRONG_DIRECTIVES = [
    *(f"[[{name}:{highest + 1}]]" for name, (_, highest) in NUMBERS.items()),
    *(f"[[{name}:-1]]" for name in NUMBERS),
    *(f"[[{name}]]" for name in NUMBERS),
    *(f"[[{name}:1]]" for name in sorted(FLAGS)),
    "[[status:399]]",
    "[[delay:soon]]",
    "[[delay:1.5]]",
    "[[tool]]",
    "[[tool:get_weather]]",
    "[[pace:5]]",
    "[[error-in-stream]]",
    "[[no-done]]",
]


@pytest.mark.parametrize("text", WRONG_DIRECTIVES)
async def test_a_directive_that_can_not_be_followed_is_refused_by_name(caller: Caller, text: str) -> None:
    answer = await caller.post(text)
    assert answer.status_code == 400
    assert f"[[{re.findall(r'[a-z0-9-]+', text)[0]}" in answer.json()["error"]["message"]


async def test_a_tool_directive_needs_its_tool(caller: Caller) -> None:
    answer = await caller.post("[[tool:nothing]]", tools=[CLOCK])
    assert answer.json()["error"]["message"] == "[[tool:nothing]] names no tool of this request."


def _documented(page: str) -> set[str]:
    return set(re.findall(r"^\| `\[\[([a-z0-9-]+)", page, re.MULTILINE))


def test_every_directive_is_documented() -> None:
    page = (ROOT / "docs" / "sandbox.md").read_text(encoding="utf-8")
    assert _documented(page) == NAMES
    for name, (lowest, highest) in NUMBERS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `[[{name}:"))
        assert f"{lowest} to {highest}" in row


@given(st.text(alphabet="[]:adelypcotkns-1\n ", max_size=40))
@settings(max_examples=100)
def test_text_without_directives_stays_as_it_is(text: str) -> None:
    if not any(f"[[{name}" in text for name in NAMES):
        assert parse_directives(text)[1] == text.strip()


# What it refuses.


REFUSED: list[tuple[str, Mapping[str, Any], str | None]] = [
    ("no messages", {"messages": []}, "messages"),
    ("messages no list", {"messages": "Hello"}, "messages"),
    ("no role", {"messages": [{"content": "x"}]}, "messages.0.role"),
    ("cap of zero", {"max_tokens": 0}, "max_tokens"),
    ("cap as text", {"max_completion_tokens": "5"}, "max_completion_tokens"),
    ("n too large", {"n": 9}, "n"),
    ("stream as text", {"stream": "yes"}, "stream"),
    ("top_logprobs alone", {"top_logprobs": 2}, "top_logprobs"),
    ("stream_options alone", {"stream_options": {"include_usage": True}}, "stream_options"),
    ("required without tools", {"tool_choice": "required"}, "tool_choice"),
    ("unknown tool", {"tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
    ("unknown effort", {"reasoning_effort": "huge"}, "reasoning_effort"),
]


@pytest.mark.parametrize(("changes", "param"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_a_wrong_body_is_a_400_that_names_the_field(
    caller: Caller, changes: Mapping[str, Any], param: str | None
) -> None:
    answer = await caller.post(**changes)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b'"text"', b"[" * 100_000, b'{"messages": "\\ud800"}'])
async def test_a_body_that_is_no_json_object_is_a_400(caller: Caller, raw: bytes) -> None:
    answer = await caller.http.post(f"{caller.base_url}/chat/completions", content=raw)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_an_unknown_model_is_not_found(caller: Caller) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        await caller.whole(model="gpt-4o")
    assert raised.value.code == "model_not_found"


@pytest.mark.parametrize("header", [None, "Bearer sk-sandbox", "Bearer", "Basic x", "bearer clé"])
async def test_only_its_own_key_is_let_in(caller: Caller, header: str | None) -> None:
    headers = [] if header is None else [(b"Authorization", header.encode())]
    async with httpx.AsyncClient(timeout=BOUND_S, trust_env=False) as stranger:
        answer = await stranger.post(f"{caller.base_url}/chat/completions", headers=headers, json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


async def test_no_two_sandboxes_share_a_key() -> None:
    keys = {Sandbox().key.get_secret_value() for _ in range(10)}
    assert len(keys) == 10
    assert min(map(len, keys)) >= 40


async def test_other_paths_and_methods_are_refused_in_the_same_shape(caller: Caller) -> None:
    assert (await caller.http.post(f"{caller.base_url}/embeddings", json={})).status_code == 404
    answer = await caller.http.get(f"{caller.base_url}/chat/completions")
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")


# How it ends.


class _Asleep:
    """A ``sleep`` that never ends by itself, and tells when it is ``entered`` and when it is ``left``."""

    def __init__(self) -> None:
        self.entered, self.left = asyncio.Event(), asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        # The delay before the first byte, where none was asked for, is not what is waited for.
        if seconds:
            self.entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.left.set()


async def test_a_client_that_leaves_ends_its_answer() -> None:
    asleep = _Asleep()
    async with asyncio.timeout(BOUND_S), started(Sandbox(asleep.sleep)) as caller:
        body = {"model": CHAT_MODEL, "messages": user("[[pace:5000]]"), "stream": True}
        async with caller.http.stream("POST", f"{caller.base_url}/chat/completions", json=body) as answer:
            await anext(answer.aiter_raw())
            await asleep.entered.wait()
            assert not asleep.left.is_set()
        await asleep.left.wait()


async def test_stopping_breaks_off_what_is_being_answered() -> None:
    asleep = _Asleep()
    async with asyncio.timeout(BOUND_S), started(Sandbox(asleep.sleep)) as caller:
        waiting = asyncio.create_task(caller.post("[[delay:60000]]"))
        await asleep.entered.wait()
        await caller.sandbox.stop()
        assert asleep.left.is_set()
        with pytest.raises(httpx.HTTPError):
            await waiting
        with pytest.raises(httpx.ConnectError):
            await caller.post()


async def test_stopping_what_never_started_is_no_error() -> None:
    await Sandbox().stop()


async def test_answers_leave_no_log_line(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for text in ("a-private-word", "[[status:429]]", "[[status:500]]", "[[drop]]"):
        await caller.post(text, stream=False) if "drop" not in text else await _dropped(caller)
    own = [record for record in caplog.records if record.name.startswith(("tornado", "tollgate", "asyncio"))]
    assert own == []


async def _dropped(caller: Caller) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await caller.post("[[drop]]")


def test_the_command_line_does_not_wait_for_tornado() -> None:
    script = "import sys, addon.cli, addon.sandbox.server, addon.telemetry.admin; sys.exit('tornado' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0
