"""The schema of a Responses request: what is refused, and how it is named."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.apis.responses.request import to_chat
from addon.apis.responses.schema import validate
from policies.refusal import Refusal

USER = {"role": "user", "content": "Hi"}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "4"}


def refusal_of(body: dict[str, Any]) -> Refusal:
    with pytest.raises(Refusal) as raised:
        validate(body)
    return raised.value


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"input": 5}, "input: Input should be a string or an array of items"),
        ({"input": [3]}, "input.0: Input should be an object"),
        ({"input": [{"role": "tool", "content": ""}]}, "input.0.role: Input should be 'user', 'assistant'"),
        ({"input": [{"role": "user"}]}, "input.0.content: Field required"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input.0.content.0.text: Field"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input.0.content.0: One of image_url, file_id is required",
        ),
        ({"input": [CALL | {"arguments": {}}, OUTPUT]}, "input.0.arguments: Input should be a valid string"),
        ({"input": [CALL]}, "input.0: No output of this function_call is in the input"),
        ({"input": [OUTPUT]}, "input.0: No call with the call_id of this function_call_output is in"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input.0: Not supported: nothing is stored"),
        ({"input": [{"id": "msg_1"}]}, "input.0: Not supported: nothing is stored"),
        ({"previous_response_id": "resp_1"}, "previous_response_id: Not supported: nothing is stored here"),
        ({"conversation": {"id": "conv_1"}}, "conversation: Not supported: nothing is stored here"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt: Not supported: prompt templates are stored at OpenAI"),
        ({"background": True}, "background: Not supported: nothing runs or is stored here"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools.0.name: Field required"),
        (
            {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}]},
            "tools.0.tools.0.name: Field required",
        ),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name: Field required"),
        ({"tool_choice": "any"}, "tool_choice: Input should be 'auto', 'none' or 'required'"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.name: Field required"),
        ({"max_output_tokens": 0}, "max_output_tokens: Input should be greater than 0"),
        ({"metadata": {"a": 1}}, "metadata: Input should be an object of at most 16 strings"),
    ],
)
def test_an_invalid_field_is_named(fields: dict[str, Any], named: str) -> None:
    refusal = refusal_of({"input": "Hi"} | fields)
    assert refusal.code == "validation_failed"
    assert named in refusal.message
    assert refusal.param is None or refusal.message.startswith(f"{refusal.param}: ")


def test_all_invalid_fields_are_in_one_message() -> None:
    refusal = refusal_of({"input": [{"role": "x", "content": ""}], "stream": 1, "background": True})
    for name in ("input.0.role", "stream", "background"):
        assert f"{name}: " in refusal.message
    assert refusal.param is None


def test_the_number_of_errors_is_bounded() -> None:
    assert "1000" in refusal_of({"input": [{}] * 2_000}).message
    assert len(refusal_of({"input": [OUTPUT] * 2_000}).message) < 5_000


@pytest.mark.parametrize("body", [{}, {"input": None}, {"input": []}])
def test_a_request_without_input_is_bad(body: dict[str, Any]) -> None:
    refusal = refusal_of(body)
    assert (refusal.code, refusal.param) == ("bad_request", "input")


@pytest.mark.parametrize(
    "items",
    [
        [USER, CALL, OUTPUT],
        [USER, {"type": "new_tomorrow", "x": 1}],
        [
            {"type": "local_shell_call", "id": "l"},
            {"type": "local_shell_call_output", "id": "l", "output": ""},
        ],
        # OpenAI takes a search of tools without what it found.
        [USER, {"type": "tool_search_call", "call_id": "t", "execution": "client", "arguments": {}}],
        [CALL, OUTPUT | {"type": "custom_tool_call_output"}],
    ],
)
def test_what_is_unknown_or_complete_is_valid(items: list[Any]) -> None:
    validate({"input": items, "unknown": {"a": [1]}, "previous_response_id": None, "background": False})


KINDS = st.sampled_from(
    [
        *("message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"),
        *("reasoning", "local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output"),
        *("apply_patch_call", "apply_patch_call_output", "tool_search_call", "tool_search_output"),
        *("additional_tools", "compaction", "web_search_call", "input_text", "output_text", "input_image"),
        *("refusal", "function", "custom", "namespace", "allowed_tools", "json_schema", "other"),
    ]
)
NAMES = st.sampled_from(
    [
        *("type", "role", "content", "call_id", "id", "name", "namespace", "arguments", "input", "output"),
        *("summary", "encrypted_content", "tools", "action", "operation", "execution", "text", "image_url"),
        *("status", "format", "mode", "refusal", "parameters", "environment", "definition"),
    ]
)
WORDS = st.sampled_from(["user", "assistant", "system", "client", "c1", "", "tg1.W10", "tg1.!", "\ud800"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | KINDS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=24,
)
ITEMS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS,
            "role": st.sampled_from(["user", "assistant", "developer"]),
            "content": WORDS | VALUES,
            "call_id": WORDS,
            "name": WORDS,
            "arguments": WORDS | VALUES,
            "input": WORDS,
            "output": WORDS | VALUES,
            "action": VALUES,
            "operation": VALUES,
            "tools": VALUES,
            "execution": WORDS,
            "encrypted_content": WORDS,
        },
    ),
    max_size=4,
)


@given(
    st.fixed_dictionaries(
        {"input": ITEMS | VALUES},
        optional=dict.fromkeys(("tools", "tool_choice", "text", "reasoning", "include", "metadata"), VALUES)
        | {"store": st.booleans(), "top_logprobs": st.integers(-1, 3)},
    )
)
def test_any_request_is_translated_or_refused(body: dict[str, Any]) -> None:
    try:
        validate(body)
    except Refusal:
        return
    to_chat(body)
