"""The fields that make no difference are those that the dialect reports as left out."""

from typing import Any

import pytest
from pydantic import SecretStr

from addon.dialects import DIALECTS
from addon.explain.field_diff import diff_fields
from policies.family import Family
from policies.field_change import LOSSES
from policies.model import Model
from policies.prices import Prices
from policies.provider import Provider
from policies.route import Target

HELLO = {"role": "user", "content": "hello", "name": "Ann"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "be brief"},
    HELLO,
    {"role": "assistant", "content": "x", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "1"},
]
TOOLS = [{"type": "function", "function": {"name": "f"}}]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
BODIES: list[dict[str, Any]] = [
    {
        "n": 2,
        "seed": 1,
        "presence_penalty": 1.0,
        "frequency_penalty": 1.0,
        "logit_bias": {"1": 1},
        "user": "u",
    },
    {"temperature": 0.5, "top_p": 0.5, "stop": ["a"], "logprobs": True, "top_logprobs": 2},
    {"stop": ["  "]},
    {"stop": ["  ", "a"]},
    {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
    {"tools": TOOLS, "tool_choice": "none", "parallel_tool_calls": True},
    {"tools": TOOLS, "tool_choice": "auto", "parallel_tool_calls": False},
    {"response_format": SCHEMA},
    {"response_format": {"type": "json_object"}, "reasoning_effort": "low"},
    {"response_format": {"type": "text"}, "reasoning_effort": "high"},
    {"top_k": 4, "stream": True, "stream_options": {"include_usage": True}},
]


@pytest.mark.parametrize("dialect", ["anthropic", "gemini", "openai"])
@pytest.mark.parametrize("fields", BODIES)
def test_the_fields_left_out_are_those_that_make_no_difference_to_the_request(
    dialect: str, fields: dict[str, Any]
) -> None:
    extra = frozenset({"reasoning_effort", "top_k"})
    provider = Provider("P", "https://p.test", dialect, ())
    model = Model(
        "m", provider, "up", Family("f", extra=extra), Prices(1, 1, 1), Prices(1, 1, 1), 99, False, True
    )
    target = Target(model, "payg", SecretStr("key"))
    body = {"model": "up", "messages": MESSAGES, "max_tokens": 9_000, **fields}
    found = DIALECTS[dialect].request(target, dict(body)).unsent_fields
    no_difference = {change.field for change in diff_fields(target, body) if change.action in LOSSES}
    # One dialect has the wish for a stream in the URL. Both fields are never named.
    assert set(found) - {"stream", "stream_options"} == no_difference - {"stream", "stream_options"}
