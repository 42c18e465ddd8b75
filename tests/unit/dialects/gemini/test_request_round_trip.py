"""Any chat request keeps its meaning as a request of Gemini's."""

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rig.gemini_requests import BY_BUDGET, result
from rig.native_gemini import chat_request_of, check

from addon.dialects.gemini.request import to_request

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
