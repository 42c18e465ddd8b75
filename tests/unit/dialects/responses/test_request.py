"""Chat requests in the shape of the Responses API."""

from typing import Any

import pytest
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)
from pydantic import SecretStr, TypeAdapter

from addon.dialects.responses import dialect
from addon.dialects.responses.request import to_request
from policies.family import Family
from policies.model import Model
from policies.prices import Prices
from policies.provider import Provider
from policies.refusal import Refusal
from policies.route import Target

FAMILY = Family("tested", extra=frozenset({"reasoning_effort", "verbosity", "top_k"}))
WHOLE, STREAMED = TypeAdapter(ResponseCreateParamsNonStreaming), TypeAdapter(ResponseCreateParamsStreaming)
USER = {"role": "user", "content": "x"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
FUNCTION = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}
GRAMMAR = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}}
CUSTOM = {"type": "custom", "custom": {"name": "patch", "description": "d", "format": GRAMMAR}}
SEALED = {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "format": "openai-responses-v1"}


def made(family: Family = FAMILY, **fields: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": [USER], **fields}
    native = to_request(body, family)
    # The SDK's type wants an id of reasoning; recorded requests have none.
    listed = [{"id": "rs_1", **item} if item.get("type") == "reasoning" else item for item in native["input"]]
    (STREAMED if native.get("stream") else WHOLE).validate_python({**native, "input": listed})
    return native


def items(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = made(messages=list(messages))["input"]
    return found


def call(call_id: str = "call_1", **function: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}", **function}}


def test_nothing_is_stored_and_reasoning_comes_encrypted_with_a_summary() -> None:
    assert made() == {
        "model": "m",
        "input": [{"role": "user", "content": "x"}],
        "store": False,
        "reasoning": {"summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    }
    assert made(reasoning_effort="high")["reasoning"] == {"effort": "high", "summary": "auto"}
    off = made(reasoning_effort="none")
    assert off["reasoning"] == {"effort": "none"} and "include" not in off
    silent = made(Family("silent", reasoning_summary="none"))
    assert "reasoning" not in silent and silent["include"] == ["reasoning.encrypted_content"]


@pytest.mark.parametrize(("cap", "sent"), [(1, 16), (16, 16), (17, 17)])
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_cap_is_at_least_what_the_api_takes(name: str, cap: int, sent: int) -> None:
    assert made(**{name: cap})["max_output_tokens"] == sent


def test_other_fields_go_where_they_belong() -> None:
    same: dict[str, Any] = {
        "temperature": 0.5,
        "top_p": 0.9,
        "parallel_tool_calls": False,
        "user": "u",
        "metadata": {"a": "b"},
        "service_tier": "flex",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
    }
    native = made(
        **same,
        stream=True,
        stream_options={"include_usage": True},
        verbosity="low",
        logprobs=True,
        top_logprobs=2,
    )
    assert same.items() <= native.items()
    assert (native["stream"], native["top_logprobs"]) == (True, 2)
    assert native["text"] == {"verbosity": "low"}
    assert native["include"] == ["reasoning.encrypted_content", "message.output_text.logprobs"]
    lost = dict.fromkeys(("stop", "seed", "n", "presence_penalty", "frequency_penalty", "logit_bias"), 1)
    assert made(**lost).keys() == made().keys()
    assert made(top_k=5)["top_k"] == 5


@pytest.mark.parametrize(
    ("response_format", "form"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": None}},
            {"type": "json_schema", "name": "a", "schema": SCHEMA},
        ),
    ],
)
def test_a_response_format_is_flat(response_format: dict[str, Any], form: Any) -> None:
    assert made(response_format=response_format).get("text", {}).get("format") == form


def test_tools_are_flat_and_strict_only_if_the_client_says_so() -> None:
    strict = {**FUNCTION, "function": {**FUNCTION["function"], "strict": True}}
    native = made(
        tools=[FUNCTION, strict, CUSTOM], tool_choice={"type": "function", "function": {"name": "f"}}
    )
    flat = {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA}
    assert native["tools"] == [
        {**flat, "strict": False},
        {**flat, "strict": True},
        {
            "type": "custom",
            "name": "patch",
            "description": "d",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /a/"},
        },
    ]
    assert native["tool_choice"] == {"type": "function", "name": "f"}
    assert made(tools=[FUNCTION], tool_choice="required")["tool_choice"] == "required"


def test_each_message_keeps_its_role_and_place() -> None:
    late = {"role": "developer", "content": [{"type": "text", "text": "b"}]}
    assert items({"role": "system", "content": "a"}, USER, {"role": "assistant", "content": "y"}, late) == [
        {"role": "system", "content": "a"},
        USER,
        {"role": "assistant", "content": "y"},
        {"role": "developer", "content": [{"type": "input_text", "text": "b"}]},
    ]


def test_parts_of_a_user() -> None:
    url = "data:image/png;base64,aGk="
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        {"type": "image_url", "image_url": "https://a.test/b.png"},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": "https://a.test/b.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    (item,) = items({"role": "user", "content": parts})
    assert item["content"] == [
        {"type": "input_text", "text": "a"},
        {"type": "input_image", "image_url": url, "detail": "low"},
        {"type": "input_image", "image_url": "https://a.test/b.png", "detail": "auto"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"},
        {"type": "input_file", "file_url": "https://a.test/b.pdf"},
        {"type": "input_file", "file_id": "file-1"},
    ]


def test_a_turn_of_the_model_is_reasoning_text_and_calls() -> None:
    custom = {"id": "call_2", "type": "custom", "custom": {"name": "patch", "input": "***"}}
    said = {
        "role": "assistant",
        "content": "I look.",
        "reasoning_details": [{"type": "reasoning.text", "text": "hm"}, SEALED],
        "tool_calls": [call(), custom],
    }
    results = [
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "1"}]},
        {"role": "tool", "tool_call_id": "call_2", "content": "2"},
    ]
    assert items(USER, said, *results)[1:] == [
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "***"},
        {"type": "function_call_output", "call_id": "call_1", "output": "1"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "2"},
    ]


def test_a_picture_stays_in_a_tools_result() -> None:
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}},
    ]
    asked = {"role": "assistant", "tool_calls": [call()]}
    result = items(USER, asked, {"role": "tool", "tool_call_id": "call_1", "content": parts})[-1]
    assert [part["type"] for part in result["output"]] == ["input_text", "input_image"]


@pytest.mark.parametrize(
    ("said", "left"),
    [
        # The API refuses reasoning that nothing follows, and knows no other model's.
        ({"content": "", "reasoning_details": [SEALED]}, [{"role": "assistant", "content": ""}]),
        (
            {"content": "y", "reasoning_details": [{**SEALED, "format": "anthropic-claude-v1"}]},
            [{"role": "assistant", "content": "y"}],
        ),
        (
            {"content": None, "refusal": "No."},
            [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}],
        ),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}]},
            [
                {
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
                }
            ],
        ),
    ],
)
def test_what_the_model_said(said: dict[str, Any], left: list[Any]) -> None:
    body = {"model": "m", "messages": [USER, {"role": "assistant", **said}]}
    assert to_request(body, FAMILY)["input"][1:] == left


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"reasoning_effort": 5}, "reasoning_effort"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
        ({"tools": [{"type": "custom"}]}, "tools.0.custom.name"),
        ({"response_format": {"type": "grammar"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"messages": [{"role": "function", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.tool_call_id"),
        (
            {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
            "messages.0.content.0",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "image_url", "image_url": "u"}]}]},
            "messages.0.content.0",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]},
            "messages.0.content.0.file.file_data",
        ),
        ({"messages": [{"role": "assistant", "reasoning_details": "x"}]}, "messages.0.reasoning_details"),
    ],
)
def test_what_the_api_can_not_express_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(Refusal) as refused:
        made(**fields)
    assert (refused.value.code, refused.value.param) == ("validation_failed", param)


def test_a_request_goes_below_the_path_of_its_provider_and_names_what_it_lacks() -> None:
    provider = Provider("V", "https://v.example/v1", "openai", (), responses_path="/r?v=1")
    prices = Prices(0, 0, 0)
    one = Model("slug", provider, "m", FAMILY, prices, prices, 100, byok_only=False, active=True)
    target = Target(one.over_responses, "payg", SecretStr("key"))
    named = {"role": "user", "content": "x", "name": "n"}
    body = {"model": "m", "messages": [named], "stop": ["a"], "seed": 1, "n": 1, "logprobs": False}
    request = dialect.request(
        target, body | {"response_format": {"type": "text"}, "max_completion_tokens": 5}
    )
    assert request.url == "https://v.example/v1/r?v=1"
    assert request.unsent_fields == ("stop", "seed", "messages.name")
    assert dict(request.headers)["authorization"] == "Bearer key"
