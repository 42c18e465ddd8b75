"""A chat request becomes a request of Anthropic's Messages API, or is refused by the name of its field."""

import pytest
from rig.anthropic_requests import (
    ADAPTIVE,
    BUDGETS,
    FORCED,
    HELLO,
    MARK,
    PNG,
    WEATHER,
    assistant,
    call,
    native,
    text,
    user,
)

from addon.dialects.anthropic.request import JSON_INSTRUCTION, to_request
from policies.refusal import Refusal


def test_the_smallest_request_has_a_model_a_cap_and_messages():
    assert native() == {
        "model": "claude-x",
        "max_tokens": 4000,
        "messages": [{"role": "user", "content": [text("Hello")]}],
    }


@pytest.mark.parametrize(
    ("chat", "expected"),
    [
        ({"temperature": 0.5, "top_p": 0.9, "top_k": 5}, {"temperature": 0.5, "top_p": 0.9, "top_k": 5}),
        ({"stop": "END"}, {"stop_sequences": ["END"]}),
        ({"stop": ["a", "\n", "b"]}, {"stop_sequences": ["a", "b"]}),
        ({"stop": " "}, {}),
        ({"user": "u-1"}, {"metadata": {"user_id": "u-1"}}),
        ({"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}),
        ({"stream": False}, {}),
        ({"service_tier": "auto"}, {"service_tier": "auto"}),
        ({"container": "c-1"}, {}),
        ({"seed": 1, "n": 1, "logit_bias": {}, "logprobs": True, "presence_penalty": 0.0}, {}),
        ({"tools": []}, {}),
        ({"tool_choice": "auto"}, {}),
        ({"response_format": {"type": "text"}}, {}),
        ({"response_format": {"type": "json_object"}}, {"system": JSON_INSTRUCTION}),
        ({"output_config": {"effort": "low"}}, {"output_config": {"effort": "low"}}),
    ],
)
def test_each_field_has_one_place_or_none(chat, expected):
    made = native(**chat)
    assert {name: made[name] for name in made.keys() - {"model", "max_tokens", "messages"}} == expected


def test_a_cap_under_its_newer_name_is_the_same_cap():
    assert (
        to_request({"model": "m", "max_completion_tokens": 7, "messages": HELLO}, ADAPTIVE)["max_tokens"] == 7
    )


@pytest.mark.parametrize(
    ("chat", "expected"),
    [
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": FORCED}, {"type": "tool", "name": "weather"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"tool_choice": FORCED, "parallel_tool_calls": False},
            {"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
        ),
        ({"parallel_tool_calls": True}, None),
    ],
)
def test_tool_choices(chat, expected):
    assert native(tools=[WEATHER], **chat).get("tool_choice") == expected


def test_tools_keep_their_schema_unless_it_is_strict():
    schema = {"type": "object", "properties": {"days": {"type": "integer", "minimum": 1}}}
    functions = [
        {"name": "a", "description": "A", "parameters": schema},
        {"name": "b", "parameters": schema, "strict": True},
        {"name": "c", "parameters": None, "strict": False},
        {"name": "d", "parameters": {"properties": {}}},
    ]
    made = native(tools=[{"type": "function", "function": f, "cache_control": MARK} for f in functions])
    bare = {"type": "object", "properties": {}}
    days = {"type": "integer", "description": "{minimum: 1}"}
    supported = {"type": "object", "properties": {"days": days}, "additionalProperties": False}
    assert made["tools"] == [
        {"name": "a", "description": "A", "input_schema": schema, "cache_control": MARK},
        {"name": "b", "input_schema": supported, "strict": True, "cache_control": MARK},
        {"name": "c", "input_schema": bare, "cache_control": MARK},
        {"name": "d", "input_schema": bare, "cache_control": MARK},
    ]


def test_system_and_developer_messages_become_the_system_prompt():
    marked = [text("Two.", cache_control=MARK)]
    messages = [
        {"role": "developer", "content": "One."},
        *HELLO,
        {"role": "system", "content": marked},
        {"role": "system", "content": ""},
    ]
    made = native(messages=messages, response_format={"type": "json_object"})
    assert made["system"] == [text("One."), *marked, text(JSON_INSTRUCTION)]
    assert [turn["role"] for turn in made["messages"]] == ["user"]
    assert native(messages=[{"role": "system", "content": "One."}, *HELLO])["system"] == "One."
    marked_alone = [{"role": "system", "content": "One.", "cache_control": MARK}, *HELLO]
    assert native(messages=marked_alone)["system"] == [text("One.", cache_control=MARK)]


def test_messages_of_one_side_become_one_turn_that_begins_with_tool_results():
    parts = [text("seen"), {"type": "image_url", "image_url": {"url": PNG}}]
    made = native(
        messages=[
            {"role": "user", "content": "a", "name": "Ann"},
            {"role": "user", "content": [text("b", cache_control=MARK), text("")]},
            {"role": "assistant", "content": "c", "tool_calls": [call("t1", '{"x": "é"}'), call("t2", "")]},
            {"role": "user", "content": "d"},
            {"role": "tool", "tool_call_id": "t1", "content": "e"},
            {"role": "tool", "tool_call_id": "t2", "content": parts, "cache_control": MARK},
            {"role": "tool", "tool_call_id": "t3", "content": ""},
            {"role": "assistant", "content": "f", "cache_control": MARK},
        ]
    )
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    seen = [text("seen"), image]
    assert made["messages"] == [
        {"role": "user", "content": [text("a"), text("b", cache_control=MARK)]},
        {
            "role": "assistant",
            "content": [
                text("c"),
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"x": "é"}},
                {"type": "tool_use", "id": "t2", "name": "weather", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [text("e")]},
                {"type": "tool_result", "tool_use_id": "t2", "content": seen, "cache_control": MARK},
                {"type": "tool_result", "tool_use_id": "t3"},
                text("d"),
            ],
        },
        {"role": "assistant", "content": [text("f", cache_control=MARK)]},
    ]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://a.b/c.png", "detail": "low"}},
            {"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}},
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:image/JPG;charset=x;base64,aGk="}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "aGk="}},
        ),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "x.pdf"}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
                "title": "x.pdf",
            },
        ),
        (
            {"type": "file", "file": {"file_data": "https://a.b/c.pdf"}, "cache_control": MARK},
            {
                "type": "document",
                "source": {"type": "url", "url": "https://a.b/c.pdf"},
                "cache_control": MARK,
            },
        ),
    ],
)
def test_parts_that_are_not_text(part, block):
    assert native(messages=[{"role": "user", "content": [part]}])["messages"][0]["content"] == [block]


@pytest.mark.parametrize(
    ("chat", "field"),
    [
        (user({"type": "input_audio", "input_audio": {}}), "messages.0.content.0"),
        (user({"type": "text"}), "messages.0.content.0.text"),
        (user({"type": "image_url"}), "messages.0.content.0.image_url.url"),
        (
            user({"type": "image_url", "image_url": {"url": "http://a.b/c"}}),
            "messages.0.content.0.image_url.url",
        ),
        (
            user({"type": "image_url", "image_url": {"url": "data:image/bmp;base64,a"}}),
            "messages.0.content.0.image_url.url",
        ),
        (user({"type": "file", "file": {"file_id": "f"}}), "messages.0.content.0.file"),
        (
            user({"type": "file", "file": {"file_data": "data:text/csv;base64,a"}}),
            "messages.0.content.0.file.file_data",
        ),
        (user({"type": "file"}), "messages.0.content.0.file.file_data"),
        (assistant(content=[{"type": "image_url", "image_url": PNG}]), "messages.1.content.0"),
        (assistant(tool_calls=[call(arguments="[]")]), "messages.1.tool_calls.0.function.arguments"),
        (assistant(tool_calls=[call(arguments="{")]), "messages.1.tool_calls.0.function.arguments"),
        (assistant(tool_calls=[call(arguments='{"a":NaN}')]), "messages.1.tool_calls.0.function.arguments"),
        (assistant(tool_calls=[call(arguments="[" * 100_000)]), "messages.1.tool_calls.0.function.arguments"),
        (assistant(tool_calls=[{"type": "custom", "id": "t"}]), "messages.1.tool_calls.0.type"),
        (assistant(content="a", reasoning_details=["b"]), "messages.1.reasoning_details"),
        ({"messages": [*HELLO, {"role": "tool", "content": "a"}]}, "messages.1.tool_call_id"),
        ({"messages": [*HELLO, {"role": "function", "content": "a"}]}, "messages.1.role"),
        ({"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": " "}]}, "messages"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
        (
            {"tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "string"}}}]},
            "tools.0.function.parameters",
        ),
        ({"response_format": {"type": "grammar"}}, "response_format.type"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {}}},
            "response_format.json_schema.schema",
        ),
        ({"reasoning_effort": ["high"]}, "reasoning_effort"),
        ({"output_config": "high"}, "output_config"),
        ({"thinking": "hard"}, "thinking"),
    ],
)
def test_a_field_that_the_api_does_not_have_is_refused_by_name(chat, field):
    with pytest.raises(Refusal) as caught:
        native(**chat)
    assert caught.value.code == "validation_failed"
    assert caught.value.param == field
    assert caught.value.message.startswith(f"{field}: ")


def test_an_unknown_effort_is_refused_when_efforts_are_budgets():
    with pytest.raises(Refusal, match="reasoning_effort: The model supports none, low, high"):
        native(BUDGETS, reasoning_effort="most")


def test_other_parts_of_an_assistant_become_text_or_nothing():
    refused = native(**assistant(content=None, refusal="No."))["messages"][1]["content"]
    parts = native(**assistant(content=[{"type": "refusal", "refusal": "No."}]))["messages"][1]["content"]
    assert refused == parts == [text("No.")]
    assert len(native(**assistant(content=None))["messages"]) == 1


def test_ids_of_other_providers_are_replaced_and_stay_paired():
    ids = ["functions.weather:0", "functions.weather.0", "", "toolu_1"]
    made = native(
        messages=[
            *HELLO,
            {"role": "assistant", "tool_calls": [call(one) for one in ids]},
            *[{"role": "tool", "tool_call_id": one, "content": "a"} for one in ids],
        ]
    )
    used = [block["id"] for block in made["messages"][1]["content"]]
    assert used == [block["tool_use_id"] for block in made["messages"][2]["content"]]
    assert len({*used}) == 4 and used[3] == "toolu_1"
    assert all(one.replace("_", "").isalnum() for one in used)
