"""The header of dropped fields: its names, and that it has all fields that a dialect leaves out."""

from typing import Any

import pytest
from pydantic import SecretStr

from addon.calls.dropped_fields import MAX_NAMES, dropped_header, dropped_in
from addon.dialects import DIALECTS
from addon.explain.field_diff import diff_fields
from policies.family import Family
from policies.field_change import FieldChange
from policies.model import Attempt, Model, Prices, Provider


def change(field: str, action: Any) -> FieldChange:
    return FieldChange(field, action, "", "")


def test_unknown_dropped_and_left_out_fields_are_named_once_and_in_order() -> None:
    given = ["messages", "seed", "user", "metadata", "n"]
    changes = [change("seed", "dropped"), change("user", "kept"), change("messages.name", "dropped")]
    header = dropped_header(given, ["messages", "seed", "user", "n"], dropped_in(changes), ["seed", "n"])
    assert header == "messages.name, metadata, n, seed"
    assert dropped_header(given, given) is None


def test_fields_that_a_rule_set_or_the_gateway_applied_are_not_named() -> None:
    heard = ["stream", "stream_options", "model", "max_tokens", "max_completion_tokens"]
    assert dropped_header(heard, [], heard, ["reasoning_effort", "random_seed"]) is None


def test_names_are_bounded_and_those_that_do_not_fit_a_header_are_counted() -> None:
    many = [f"field_{number:02}" for number in range(MAX_NAMES + 5)]
    assert dropped_header(many, []) == ", ".join([*many[:MAX_NAMES], "+5"])
    odd = ["ok", "a b", "x" * 65, "naïve", "a\r\nset-cookie: b", "", "tg_" + "a" * 40]
    assert dropped_header(odd, []) == f"ok, +{len(odd) - 1}"


# --- the native dialects ---------------------------------------------------------------------------------------

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
    {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
    {"tools": TOOLS, "tool_choice": "none", "parallel_tool_calls": True},
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
    attempt = Attempt(model, "payg", SecretStr("key"))
    body = {"model": "up", "messages": MESSAGES, "max_tokens": 9_000, **fields}
    found = DIALECTS[dialect].request(attempt, dict(body)).unsent_fields
    no_difference = {change.field for change in diff_fields(attempt, body) if change.action == "dropped"}
    # One dialect has the wish for a stream in the URL. Both fields are never named.
    assert set(found) - {"stream", "stream_options"} == no_difference - {"stream", "stream_options"}
