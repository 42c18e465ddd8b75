"""A chat request becomes a request of Anthropic's Messages API, or is refused by the name of its field."""

import json

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.dialects.anthropic.request import JSON_INSTRUCTION, to_request
from addon.dialects.anthropic.schema import supported_schema
from policies.family import Family
from policies.refusal import Refusal
from tests.rig.native_anthropic import chat_request_of, check_request

EXTRA = frozenset({"thinking", "top_k", "reasoning_effort", "output_config", "service_tier"})
ADAPTIVE = Family("claude", extra=EXTRA)
BUDGETS = Family("claude", extra=EXTRA, effort_budgets={"low": 1024, "high": 4096})
HELLO = [{"role": "user", "content": "Hello"}]
PNG = "data:image/png;base64,aGk="
WEATHER = {"type": "function", "function": {"name": "weather"}}
FORCED = {"type": "function", "function": {"name": "weather"}}
MARK = {"type": "ephemeral"}


def native(family=ADAPTIVE, messages=HELLO, **fields):
    body = {"model": "claude-x", "max_tokens": 4000, "messages": messages, **fields}
    before = json.dumps(body)
    made = to_request(body, family)
    assert json.dumps(body) == before, "the client's body is not written to"
    check_request(made)
    return made


def text(said, **more):
    return {"type": "text", "text": said, **more}


def call(id="t1", arguments="{}", name="weather"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


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


def user(part):
    return {"messages": [{"role": "user", "content": [part]}]}


def assistant(**message):
    return {"messages": [*HELLO, {"role": "assistant", **message}]}


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


# --- reasoning -------------------------------------------------------------------------------------------------

THOUGHT = {
    "type": "reasoning.text",
    "text": "Hm.",
    "signature": "s",
    "format": "anthropic-claude-v1",
    "index": 0,
}
SEALED = {"type": "reasoning.encrypted", "data": "d", "format": "anthropic-claude-v1", "index": 1}
USED = [call()]
RESULT = {"role": "tool", "tool_call_id": "t1", "content": "a"}


@pytest.mark.parametrize(
    "details",
    [
        [THOUGHT, SEALED],
        [
            {"type": "reasoning.text", "text": "Hm.", "signature": "s"},
            {"type": "reasoning.encrypted", "data": "d"},
        ],
        [
            *[{**THOUGHT, "text": piece, "signature": None} for piece in ("H", "m", ".")],
            {**THOUGHT, "text": None},
            SEALED,
        ],
        [
            THOUGHT,
            {"type": "reasoning.text", "text": "of another", "signature": "s", "format": "google-gemini-v1"},
            {"type": "reasoning.text", "text": "that no one signed", "index": 7},
            {"type": "reasoning.summary", "summary": "of another", "index": 8},
            SEALED,
        ],
    ],
)
def test_only_anthropics_reasoning_goes_back_and_comes_first(details):
    messages = [*HELLO, {"role": "assistant", "content": "a", "reasoning_details": details}]
    assert native(messages=messages)["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        text("a"),
    ]


@pytest.mark.parametrize(
    ("family", "chat", "thinking", "config"),
    [
        (ADAPTIVE, {"reasoning_effort": "xhigh"}, {"type": "adaptive"}, {"effort": "xhigh"}),
        (ADAPTIVE, {"reasoning_effort": "none"}, {"type": "disabled"}, None),
        (
            ADAPTIVE,
            {"reasoning_effort": "low", "thinking": {"type": "disabled"}},
            {"type": "disabled"},
            {"effort": "low"},
        ),
        (BUDGETS, {"reasoning_effort": "low"}, {"type": "enabled", "budget_tokens": 1024}, None),
        (BUDGETS, {"reasoning_effort": "none"}, {"type": "disabled"}, None),
        (BUDGETS, {"reasoning_effort": "high"}, None, None),  # not lower than the cap
        (BUDGETS, {"reasoning_effort": "high", "max_tokens": 4096}, None, None),
        (
            BUDGETS,
            {"reasoning_effort": "high", "max_tokens": 4097},
            {"type": "enabled", "budget_tokens": 4096},
            None,
        ),
        (BUDGETS, {"reasoning_effort": "low", "tools": [WEATHER], "tool_choice": "required"}, None, None),
        (BUDGETS, {"reasoning_effort": "low"} | assistant(content="It is"), None, None),
        (
            BUDGETS,
            {
                "reasoning_effort": "low",
                "messages": [*HELLO, {"role": "assistant", "tool_calls": USED}, RESULT],
            },
            None,
            None,
        ),
        (
            BUDGETS,
            {
                "reasoning_effort": "low",
                "messages": [
                    *HELLO,
                    {"role": "assistant", "tool_calls": USED, "reasoning_details": [THOUGHT]},
                    RESULT,
                ],
            },
            {"type": "enabled", "budget_tokens": 1024},
            None,
        ),
        (BUDGETS, {}, None, None),
        (BUDGETS, {"thinking": {"type": "enabled", "budget_tokens": 4000}}, None, None),
        (
            BUDGETS,
            {"thinking": {"type": "enabled", "budget_tokens": 3999}},
            {"type": "enabled", "budget_tokens": 3999},
            None,
        ),
    ],
)
def test_an_effort_becomes_thinking_when_the_api_allows_it(family, chat, thinking, config):
    made = native(family, **chat)
    assert (made.get("thinking"), made.get("output_config")) == (thinking, config)


def test_a_budgeted_model_without_thinking_gets_no_earlier_thinking():
    messages = [*HELLO, {"role": "assistant", "content": "a", "reasoning_details": [THOUGHT]}, *HELLO]
    for asked in ({}, {"thinking": {"type": "disabled"}}, {"reasoning_effort": "none"}):
        assert native(BUDGETS, messages=messages, **asked)["messages"][1]["content"] == [text("a")]
    kept = native(BUDGETS, messages=messages, thinking={"type": "enabled", "budget_tokens": 1024})
    assert [block["type"] for block in kept["messages"][1]["content"]] == ["thinking", "text"]


# --- schemas ---------------------------------------------------------------------------------------------------

SCALARS = st.sampled_from(
    [
        {"type": "integer", "minimum": 1, "maximum": 9, "description": "n"},
        {"type": "number", "multipleOf": 2},
        {"type": "string", "format": "date"},
        {"type": "string", "format": "colour"},
        {"type": "string", "pattern": "x+"},
        {"type": "string", "minLength": 2, "title": "T"},
        {"enum": ["a", "b"]},
        {"const": 3},
        {"$ref": "#/$defs/x"},
        {"type": "null"},
    ]
)


def composed(schemas):
    return st.one_of(
        st.builds(
            lambda items, n: {"type": "array", "items": items, "minItems": n}, schemas, st.integers(0, 3)
        ),
        st.builds(lambda both: {"anyOf": both}, st.lists(schemas, min_size=1, max_size=2)),
        st.builds(lambda both: {"oneOf": both}, st.lists(schemas, min_size=1, max_size=2)),
        st.builds(
            lambda inner, names: {"type": "object", "properties": inner, "required": names, "$defs": inner},
            st.dictionaries(st.sampled_from("abc"), schemas),
            st.lists(st.sampled_from("abc"), unique=True),
        ),
    )


@given(st.recursive(SCALARS, composed, max_leaves=6))
def test_a_schema_is_transformed_as_by_the_vendors_sdk(schema):
    before = json.dumps(schema)
    assert supported_schema(schema) == anthropic.transform_schema(schema)
    assert json.dumps(schema) == before


def test_a_supported_schema_stays():
    schema = {"type": "object", "properties": {}, "additionalProperties": False, "$schema": "draft"}
    assert supported_schema(schema) == {"type": "object", "properties": {}, "additionalProperties": False}
    open_map = {"type": "object", "additionalProperties": True, "default": {}}
    assert supported_schema(open_map) == open_map
    nonsense = {"type": "object", "properties": [], "anyOf": {}, "items": True, "format": []}
    assert supported_schema(nonsense)["properties"] == []


# --- there and back --------------------------------------------------------------------------------------------

WORDS = st.from_regex(r"\w[\w .,!-]{0,6}\w?", fullmatch=True)
MARKS = st.sampled_from([{}, {"cache_control": MARK}])
TEXTS = st.builds(lambda said, mark: {"type": "text", "text": said, **mark}, WORDS, MARKS)
IMAGES = st.builds(
    lambda url: {"type": "image_url", "image_url": {"url": url}}, st.sampled_from([PNG, "https://a.b/c.png"])
)
PDF = {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "x.pdf"}}
USER = st.builds(
    lambda parts: {"role": "user", "content": parts},
    st.lists(TEXTS | IMAGES | st.just(PDF), min_size=1, max_size=3),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
DETAILS = st.builds(
    lambda said, signature, data: [
        {"type": "reasoning.text", "text": said, "signature": signature, "format": "anthropic-claude-v1"},
        {"type": "reasoning.encrypted", "data": data, "format": "anthropic-claude-v1"},
    ],
    st.text(max_size=5),
    WORDS,
    WORDS,
)


@st.composite
def exchanges(draw):
    """Generate an assistant's message, and the results of its tool calls."""
    message = {"role": "assistant", "content": draw(st.none() | st.lists(TEXTS, min_size=1, max_size=2))}
    arguments = draw(st.lists(st.dictionaries(WORDS, JSON, max_size=2), max_size=2))
    if draw(st.booleans()):
        message["reasoning_details"] = draw(DETAILS)
    if arguments:
        message["tool_calls"] = [call(f"t{i}", json.dumps(one)) for i, one in enumerate(arguments)]
    if message["content"] is None and not arguments:
        message["content"] = [text("said")]
    results = [
        {
            "role": "tool",
            "tool_call_id": f"t{i}",
            "content": draw(st.lists(TEXTS | IMAGES, min_size=1, max_size=2)),
        }
        for i, _ in enumerate(arguments)
    ]
    return [message, *results, draw(USER)]


@st.composite
def requests(draw):
    system = {"role": "system", "content": draw(st.lists(TEXTS, min_size=2, max_size=3))}
    talk = [message for said in draw(st.lists(exchanges(), max_size=3)) for message in said]
    body = {"model": "m", "max_tokens": 9, "messages": [system, draw(USER), *talk]}
    fields = {
        "temperature": st.floats(0, 1),
        "stop": st.lists(WORDS, min_size=1, max_size=2),
        "user": st.from_regex(r"[a-z_-]{1,64}", fullmatch=True),
        "stream": st.just(True),
        "tools": st.just(
            [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
        ),
        "response_format": st.builds(
            lambda name: {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "string", "title": name}},
            },
            WORDS,
        ),
    }
    for name, values in fields.items():
        if draw(st.booleans()):
            body[name] = draw(values)
    if "tools" in body:
        body["tool_choice"] = draw(st.sampled_from(["auto", "none", "required", FORCED]))
        if body["tool_choice"] != "none" and draw(st.booleans()):
            body["parallel_tool_calls"] = False
    return body


@given(requests())
def test_a_chat_request_survives_the_way_there_and_back(body):
    made = to_request(body, ADAPTIVE)
    check_request(made)
    assert chat_request_of(made) == body
