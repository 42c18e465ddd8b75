"""Chat requests become Gemini's generateContent: the SDK's own types accept them, and nothing is lost."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.native_gemini import chat_request_of, check

from addon.dialects.gemini.request import to_request
from policies.family import Family
from policies.refusal import Refusal

BY_LEVEL = Family("gemini")
BY_BUDGET = Family("gemini-2.5", effort_budgets={"low": 1_024, "high": 24_576})
HI = {"role": "user", "content": "Hi"}
SKIPPED = base64.b64encode(b"skip_thought_signature_validator").decode()


def sent(family: Family = BY_LEVEL, **fields: Any) -> dict[str, Any]:
    native = to_request({"model": "gemini", "stream": True, "messages": [HI]} | fields, family)
    check(native)
    return native


def contents(*messages: dict[str, Any], family: Family = BY_BUDGET) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sent(family, messages=list(messages))["contents"]
    return found


def assistant(*calls: tuple[str, str], **more: Any) -> dict[str, Any]:
    made = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for call_id, name in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": made} | more


def result(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def test_the_body_has_the_conversation_and_neither_model_nor_stream():
    assert sent() == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


@pytest.mark.parametrize(
    ("fields", "config"),
    [
        ({"temperature": 0.5, "top_p": 0.9, "top_k": 3}, {"temperature": 0.5, "topP": 0.9, "topK": 3}),
        ({"max_tokens": 7}, {"maxOutputTokens": 7}),
        ({"max_completion_tokens": 7}, {"maxOutputTokens": 7}),
        ({"n": 2, "seed": 3}, {"candidateCount": 2, "seed": 3}),
        (
            {"presence_penalty": 1, "frequency_penalty": -1},
            {"presencePenalty": 1, "frequencyPenalty": -1},
        ),
        ({"stop": "END"}, {"stopSequences": ["END"]}),
        ({"stop": ["a", "b"]}, {"stopSequences": ["a", "b"]}),
        ({"logprobs": True, "top_logprobs": 4}, {"responseLogprobs": True, "logprobs": 4}),
        ({"logprobs": False, "top_logprobs": 4}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, {"responseMimeType": "application/json"}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}},
            {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
        ),
        (
            {"thinking_config": {"thinking_budget": 5, "includeThoughts": True}, "reasoning_effort": "low"},
            {"thinkingConfig": {"thinkingBudget": 5, "includeThoughts": True}},
        ),
        ({"user": "u", "logit_bias": {"1": 2}, "parallel_tool_calls": False, "stop": []}, None),
    ],
)
def test_a_field_gets_geminis_name(fields: dict[str, Any], config: dict[str, Any] | None):
    assert sent(**fields).get("generationConfig") == config


@pytest.mark.parametrize(
    ("family", "effort", "thinking"),
    [
        (BY_LEVEL, "low", {"thinkingLevel": "LOW", "includeThoughts": True}),
        (BY_BUDGET, "low", {"thinkingBudget": 1_024, "includeThoughts": True}),
        (BY_BUDGET, "none", {"thinkingBudget": 0, "includeThoughts": False}),
        (
            Family("always", effort_budgets={"none": 128}),
            "none",
            {"thinkingBudget": 128, "includeThoughts": False},
        ),
    ],
)
def test_an_effort_is_a_level_or_a_budget_of_the_family(
    family: Family, effort: str, thinking: dict[str, Any]
):
    assert sent(family, reasoning_effort=effort)["generationConfig"]["thinkingConfig"] == thinking


def test_system_and_developer_messages_become_the_system_instruction():
    native = sent(
        messages=[
            {"role": "system", "content": "a"},
            HI,
            {"role": "developer", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        ]
    )
    assert native["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}, {"text": "c"}]}
    assert native["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]


@pytest.mark.parametrize(
    ("part", "native"),
    [
        ({"type": "text", "text": "x"}, {"text": "x"}),
        ({"type": "refusal", "refusal": "No."}, {"text": "No."}),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,eHl6", "detail": "low"}},
            {"inlineData": {"mimeType": "image/png", "data": "eHl6"}},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://a.example/b/c.JPG?d=e.png"}},
            {"fileData": {"fileUri": "https://a.example/b/c.JPG?d=e.png", "mimeType": "image/jpeg"}},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://a.example/b"}},
            {"fileData": {"fileUri": "https://a.example/b"}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "eHl6", "format": "wav"}},
            {"inlineData": {"mimeType": "audio/wav", "data": "eHl6"}},
        ),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;name=a;base64,eHl6"}},
            {"inlineData": {"mimeType": "application/pdf", "data": "eHl6"}},
        ),
    ],
)
def test_a_part_keeps_its_content(part: dict[str, Any], native: dict[str, Any]):
    assert contents({"role": "user", "content": [part]}) == [{"role": "user", "parts": [native]}]


def test_calls_are_followed_by_their_results_as_objects():
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "look", "arguments": '{"où": "là"}'},
        "extra_content": {"google": {"thought_signature": "c2ln"}},
    }
    other = {"id": "c2", "type": "function", "function": {"name": "wait", "arguments": ""}}
    said = contents(
        HI,
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call, other]},
        result("c2", [{"type": "text", "text": "ra"}, {"type": "text", "text": "in"}]),
        result("c1", '{"sun": true}'),
        {"role": "user", "content": "Well?"},
    )
    assert said[1:] == [
        {
            "role": "model",
            "parts": [
                {"text": "Let me see."},
                {
                    "functionCall": {"name": "look", "args": {"où": "là"}, "id": "c1"},
                    "thoughtSignature": "c2ln",
                },
                {"functionCall": {"name": "wait", "args": {}, "id": "c2"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "wait", "response": {"result": "rain"}, "id": "c2"}},
                {"functionResponse": {"name": "look", "response": {"sun": True}, "id": "c1"}},
                {"text": "Well?"},
            ],
        },
    ]


@pytest.mark.parametrize("text", ["[1]", "3", "", "{", '{"a": NaN}', '{"a": 1e999}', '{"a": ' * 5_000])
def test_a_result_that_is_not_a_json_object_is_sent_as_text(text: str):
    said = contents(assistant(("c", "f")), result("c", text))
    assert said[1]["parts"][0]["functionResponse"]["response"] == {"result": text}


def test_a_result_belongs_to_the_last_call_with_its_id():
    said = contents(assistant(("c", "first")), result("c", "1"), assistant(("c", "second")), result("c", "2"))
    assert [content["parts"][0]["functionResponse"]["name"] for content in said[1::2]] == ["first", "second"]


def test_a_first_call_without_a_signature_gets_the_documented_placeholder():
    made = contents(assistant(("a", "f"), ("b", "g")), family=BY_LEVEL)[0]["parts"]
    assert [part.get("thoughtSignature") for part in made] == [SKIPPED, None]
    unchecked = contents(assistant(("a", "f")), family=BY_BUDGET)[0]["parts"]
    assert "thoughtSignature" not in unchecked[0]


def test_the_signature_of_a_text_goes_back_with_the_last_text():
    signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    message = {"role": "assistant", "content": "It rains.", "reasoning_content": "Look outside."}
    assert contents(HI, message | signed)[1]["parts"] == [
        {"text": "Look outside.", "thought": True},
        {"text": "It rains.", "thoughtSignature": "c2ln"},
    ]
    assert contents(HI, {"role": "assistant", "content": None} | signed)[1]["parts"] == [
        {"text": "", "thoughtSignature": "c2ln"}
    ]


def test_an_empty_message_is_not_left_out():
    assert contents({"role": "user", "content": ""}, {"role": "assistant", "content": None}) == [
        {"role": "user", "parts": [{"text": ""}]},
        {"role": "model", "parts": [{"text": ""}]},
    ]


def test_tools_are_declared_with_their_schema_as_it_is():
    schema = {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"]}},
        "additionalProperties": False,
    }
    native = sent(
        tools=[
            {
                "type": "function",
                "function": {"name": "f", "description": "d", "parameters": schema, "strict": True},
            },
            {"type": "function", "function": {"name": "g"}},
        ]
    )
    assert native["tools"] == [
        {
            "functionDeclarations": [
                {"name": "f", "description": "d", "parametersJsonSchema": schema},
                {"name": "g"},
            ]
        }
    ]


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (
            {"type": "function", "function": {"name": "f"}},
            {"mode": "ANY", "allowedFunctionNames": ["f"]},
        ),
    ],
)
def test_a_tool_choice_is_a_mode(choice: Any, calling: dict[str, Any]):
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert sent(tools=tools, tool_choice=choice)["toolConfig"] == {"functionCallingConfig": calling}


def image(url: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]}


PICTURE = image("data:image/png;base64,eHl6")["messages"][0]["content"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [HI, {"role": "critic", "content": "x"}]}, "messages.1.role"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages.0.content.0"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
            "messages.0.content.0.file.file_data",
        ),
        (image("gs://bucket/a.png"), "messages.0.content.0.image_url.url"),
        (image("data:image/png,xyz"), "messages.0.content.0.image_url.url"),
        (image("data:;base64,eHl6"), "messages.0.content.0.image_url.url"),
        (image("https://[x/a.png"), "messages.0.content.0.image_url.url"),
        (
            {"messages": [assistant(("c", "f")), result("c", PICTURE)]},
            "messages.1.content.0",
        ),
        ({"messages": [HI, result("nobody", "x")]}, "messages.1.tool_call_id"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}]},
            "messages.0.tool_calls.0.type",
        ),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "[1]"}}
                        ],
                    }
                ]
            },
            "messages.0.tool_calls.0.function.arguments",
        ),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
        ({"response_format": {"type": "grammar"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"reasoning_effort": "none"}, "reasoning_effort"),
        ({"reasoning_effort": ["low"]}, "reasoning_effort"),
        ({"thinking_config": {"tinkering": 1}}, "thinking_config"),
    ],
)
def test_a_field_that_gemini_does_not_have_is_refused_by_name(fields: dict[str, Any], param: str):
    with pytest.raises(Refusal) as caught:
        to_request({"messages": [HI]} | fields, BY_LEVEL)
    assert (caught.value.code, caught.value.param) == ("validation_failed", param)
    assert caught.value.message.startswith(f"{param}: ")


def test_an_effort_without_a_budget_is_refused():
    with pytest.raises(Refusal, match=r"reasoning_effort: must be one of none, low, high\."):
        to_request({"messages": [HI], "reasoning_effort": "medium"}, BY_BUDGET)


# --- there and back --------------------------------------------------------------------------------------------

TEXTS = st.text(min_size=1, max_size=20)
NAMES = st.text("abcdef_", min_size=1, max_size=6)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS, lambda inner: st.lists(inner, max_size=3), max_leaves=5
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)
DATA = st.binary(max_size=9).map(lambda some: base64.b64encode(some).decode())
SIGNATURES = st.binary(min_size=1, max_size=9).map(
    lambda some: {"extra_content": {"google": {"thought_signature": base64.b64encode(some).decode()}}}
)
PARTS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.builds(
        lambda some: {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{some}"}}, DATA
    ),
    st.builds(lambda some: {"type": "input_audio", "input_audio": {"data": some, "format": "mp3"}}, DATA),
    st.builds(lambda some: {"type": "file", "file": {"file_data": f"data:text/csv;base64,{some}"}}, DATA),
)
CONTENT = TEXTS | st.lists(PARTS, min_size=1, max_size=3)


@st.composite
def turns(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Generate a user's message, the model's answer, and the results of its calls."""
    made: list[dict[str, Any]] = [{"role": "user", "content": draw(CONTENT)}]
    message: dict[str, Any] = {"role": "assistant", "content": draw(TEXTS)}
    message |= draw(st.just({}) | SIGNATURES)
    message |= draw(st.just({}) | st.builds(lambda text: {"reasoning_content": text}, TEXTS))
    calls = []
    for number in range(draw(st.integers(0, 3))):
        arguments = json.dumps(draw(OBJECTS))
        call = {"id": f"call-{number}", "type": "function"}
        call |= {"function": {"name": draw(NAMES), "arguments": arguments}} | draw(st.just({}) | SIGNATURES)
        calls.append(call)
    results = [result(call["id"], draw(TEXTS | OBJECTS.map(json.dumps))) for call in calls]
    return [*made, message | {"tool_calls": calls} if calls else message, *draw(st.permutations(results))]


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0.01, 1),
        "max_tokens": st.integers(1, 99),
        "n": st.integers(1, 8),
        "seed": st.integers(0, 99),
        "presence_penalty": st.floats(-2, 2),
        "frequency_penalty": st.floats(-2, 2),
        "stop": st.lists(TEXTS, min_size=1, max_size=5),
        "response_format": st.sampled_from(
            [
                {"type": "json_object"},
                {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "array"}}},
            ]
        ),
        "tools": st.lists(
            st.fixed_dictionaries(
                {"name": NAMES}, optional={"description": TEXTS, "parameters": st.just({"type": "object"})}
            ).map(lambda function: {"type": "function", "function": function}),
            min_size=1,
            max_size=3,
        ),
        "tool_choice": st.sampled_from(["auto", "none", "required"])
        | NAMES.map(lambda name: {"type": "function", "function": {"name": name}}),
    },
)


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with its content as parts, and with JSON parsed."""
    made = dict(message)
    if message["role"] == "tool":
        made["content"] = spoken(message["content"])
    elif isinstance(message["content"], str):
        made["content"] = [{"type": "text", "text": message["content"]}]
    made["tool_calls"] = [
        call | {"function": call["function"] | {"arguments": json.loads(call["function"]["arguments"])}}
        for call in message.get("tool_calls", ())
    ]
    return made


def spoken(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return {"result": text}
    return value if isinstance(value, dict) else {"result": text}


@given(st.lists(turns(), min_size=1, max_size=3), TEXTS | st.none(), FIELDS)
def test_a_request_loses_no_contract_field_there_and_back(
    conversation: list[list[dict[str, Any]]], system: str | None, fields: dict[str, Any]
):
    messages = [message for turn in conversation for message in turn]
    if system is not None:
        messages = [{"role": "system", "content": system}, *messages]
    if "tools" not in fields:
        fields.pop("tool_choice", None)
    native = to_request({"messages": messages} | fields, BY_BUDGET)
    check(native)
    back = chat_request_of(json.loads(json.dumps(native)))
    assert [plain(message) for message in back.pop("messages")] == [plain(message) for message in messages]
    assert back == fields
