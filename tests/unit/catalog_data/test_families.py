"""The shipped families: they name existing fields, and the gateway applies each vendor's rules."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError
from rig.sent import sent, shipped_families

from addon.apis.chat.request import parse_chat_request
from addon.settings.catalog_schema import FAMILIES_FILE
from policies.family import Family
from policies.refusal import Refusal

FAMILIES = sorted(shipped_families())
NATIVE = {"claude": "anthropic", "gemini": "gemini"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
NAMED = {"type": "function", "function": {"name": "f"}}
SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}
ENABLED, DISABLED = {"type": "enabled"}, {"type": "disabled"}
CONTRACT = {
    "messages": [{"role": "user", "content": "Hello"}],
    "temperature": 0.5,
    "top_p": 0.5,
    "n": 1,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "seed": 1,
    "stop": ["a", "b"],
    "logprobs": True,
    "top_logprobs": 1,
    "tools": TOOLS,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "response_format": {"type": "json_object"},
    "logit_bias": {"1": 1},
    "user": "u",
    "max_tokens": 9,
}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "42"}


def dialect_of(family: str) -> str:
    return next((dialect for vendor, dialect in NATIVE.items() if family.startswith(vendor)), "openai")


def body_of(family: str, **fields: Any) -> dict[str, Any]:
    request = {"messages": CONTRACT["messages"]} | fields
    return sent(request, shipped_families()[family], dialect_of(family))[0]


@pytest.mark.parametrize("there", [False, True], ids=["", "over Responses"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_names_only_fields_that_it_can_be_sent(name: str, there: bool) -> None:
    family = shipped_families()[name].over_responses if there else shipped_families()[name]
    contract = parse_chat_request(json.dumps(CONTRACT).encode()).fields.keys()
    sendable = (contract | family.extra) - family.drops
    excluded = {field for fields in family.conflicts.values() for field in fields}
    implied = {field for fields in family.implies.values() for field in fields}
    assert family.drops <= contract | {"dimensions"}  # of embeddings
    assert family.clamps.keys() | family.renames.keys() | family.values.keys() <= sendable
    assert family.conflicts.keys() | excluded | family.implies.keys() | implied <= sendable
    assert not family.extra & contract


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_accepts_the_most_common_form_of_each_field(name: str) -> None:
    family = shipped_families()[name]
    chat = {**CONTRACT, "messages": [*CONTRACT["messages"], CALLED, RESULT]}
    if "refused" in map(family.response_formats.get, ("json_object", "with_tools")):
        del chat["response_format"]
    body = sent(chat, family, dialect_of(name))[0]
    assert body["tools"]
    assert len(body.get("messages") or body["contents"]) == 3


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("choice", ["auto", "none", "required", NAMED])
def test_each_form_of_tool_choice_is_sent_or_refused(name: str, choice: Any) -> None:
    form = choice if isinstance(choice, str) else "named"
    if shipped_families()[name].tool_choices.get(form) == "refused":
        with pytest.raises(Refusal, match=r"^tool_choice: .*use 'auto'"):
            body_of(name, tools=TOOLS, tool_choice=choice)
    else:
        body = body_of(name, tools=TOOLS, tool_choice=choice)
        assert body.get("tool_choice") or body["toolConfig"]


@pytest.mark.parametrize(
    ("family", "fields", "expected"),
    [
        ("openai-reasoning-or-tools", {"tools": TOOLS}, {"reasoning_effort": "none"}),
        (
            "openai-reasoning-or-tools",
            {"tools": TOOLS, "reasoning_effort": "high"},
            {"reasoning_effort": "none"},
        ),
        ("openai-reasoning-or-tools", {"reasoning_effort": "minimal"}, {"reasoning_effort": "low"}),
        ("openai-reasoning", {"tools": TOOLS, "reasoning_effort": "high"}, {"reasoning_effort": "high"}),
        ("openai-optional-reasoning", {"temperature": 1, "reasoning_effort": "low"}, {"temperature": None}),
        ("openai-optional-reasoning", {"temperature": 1, "reasoning_effort": "none"}, {"temperature": 1}),
        ("openai-optional-reasoning-or-tools", {"temperature": 1, "tools": TOOLS}, {"temperature": 1}),
        ("claude-sampling", {"temperature": 0.5, "top_p": 0.5}, {"temperature": 0.5, "top_p": None}),
        (
            "claude-sampling",
            {"temperature": 0.5, "reasoning_effort": "low"},
            {"temperature": None, "thinking": {"type": "enabled", "budget_tokens": 1_024}},
        ),
        (
            "claude-sampling",
            {"tools": TOOLS, "tool_choice": NAMED, "thinking": ENABLED | {"budget_tokens": 1_024}},
            {"thinking": None, "tool_choice": {"type": "tool", "name": "f"}},
        ),
        ("claude-4-6", {"reasoning_effort": "xhigh"}, {"output_config": {"effort": "high"}}),
        ("claude", {"temperature": 0.5, "top_p": 0.5}, {"temperature": None, "top_p": None}),
        (
            "deepseek",
            {"tools": TOOLS, "tool_choice": "required"},
            {"thinking": DISABLED, "tool_choice": "required"},
        ),
        ("deepseek", {"tools": TOOLS, "tool_choice": "auto", "thinking": ENABLED}, {"thinking": ENABLED}),
        ("kimi", {"tools": TOOLS, "tool_choice": NAMED}, {"thinking": DISABLED, "tool_choice": NAMED}),
        ("kimi-k3", {"reasoning_effort": "xhigh"}, {"reasoning_effort": "max"}),
        ("kimi-k3", {"thinking": ENABLED}, {"thinking": None}),
        ("mistral", {"tools": TOOLS, "tool_choice": "required"}, {"tool_choice": "any"}),
        (
            "mistral-reasoning",
            {"reasoning_effort": "medium", "seed": 7},
            {"reasoning_effort": "high", "random_seed": 7},
        ),
    ],
)
def test_the_rule_of_a_vendor_is_applied(
    family: str, fields: dict[str, Any], expected: Mapping[str, Any]
) -> None:
    body = body_of(family, **fields)
    assert {name: body.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("glm", {"tools": TOOLS, "tool_choice": "required"}),
        ("claude-fable", {"tools": TOOLS, "tool_choice": NAMED}),
        ("kimi-code", {"tools": TOOLS, "tool_choice": "required"}),
        ("kimi-k3", {"tools": TOOLS, "tool_choice": NAMED}),
        ("azure-foundry", {"tools": TOOLS, "tool_choice": NAMED}),
        ("perplexity", {"response_format": {"type": "json_object"}}),
    ],
)
def test_a_field_that_a_vendor_refuses_is_refused_by_name_if_nothing_replaces_it(
    family: str, fields: dict[str, Any]
) -> None:
    with pytest.raises(Refusal) as refused:
        body_of(family, **fields)
    assert refused.value.param in ("tool_choice", "response_format")


THOUGHT = CALLED | {
    "reasoning_content": "Hm.",
    "reasoning_details": [],
    "cache_control": {"type": "ephemeral"},
}


@pytest.mark.parametrize(
    ("family", "reasoning"),
    [
        ("openai-chat", {}),
        ("groq", {}),
        ("cerebras", {"reasoning": "Hm."}),
        ("deepseek", {"reasoning_content": "Hm."}),
        ("kimi", {"reasoning_content": "Hm."}),
        ("glm", {"reasoning_content": "Hm."}),
        ("grok", {"reasoning_content": "Hm."}),
        (
            "openrouter",
            {"reasoning_content": "Hm.", "reasoning_details": [], "cache_control": {"type": "ephemeral"}},
        ),
    ],
)
def test_reasoning_is_sent_back_to_families_that_accept_it(family: str, reasoning: dict[str, Any]) -> None:
    assert (
        body_of(family, messages=[CONTRACT["messages"][0], THOUGHT, RESULT])["messages"][1]
        == CALLED | reasoning
    )


@pytest.mark.parametrize("family", ["deepseek", "kimi", "kimi-code", "kimi-k3"])
def test_a_tool_call_without_required_reasoning_gets_an_empty_one(
    family: str,
) -> None:
    messages = body_of(family, messages=[CONTRACT["messages"][0], CALLED, RESULT])["messages"]
    assert [message.get("reasoning_content") for message in messages] == [None, "", None]


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ({"tool_choices": {"some": "auto"}}, "tool_choices"),
        ({"tool_choices": {"auto": "dropped"}}, "tool_choices"),
        ({"response_formats": {"json_schema": "text"}}, "response_formats"),
        ({"tool_call_id_chars": 3}, "tool_call_id_chars"),
        ({"conflicts": {"thinking": "temperature"}}, "conflicts"),
        ({"implies": {"tools": "none"}}, "implies"),
        ({"effort_budgets": {"low": -1}}, "effort_budgets"),
        ({"cached_tokens_at": ["usage..cached"]}, "cached_tokens_at"),
        ({"late_system_role": ""}, "late_system_role"),
        ({"think_tags": "yes"}, "think_tags"),
        ({"message_extras": []}, "message_extras"),
    ],
)
def test_an_invalid_family_does_not_load(table: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(where)):
        FAMILIES_FILE.validate_python({"wrong": table})


def test_an_empty_family_is_the_documented_default() -> None:
    table = FAMILIES_FILE.validate_python({"plain": {}})["plain"]
    family = Family("plain")
    for key in type(table).model_fields.keys() - {"estimator", "responses"}:
        assert getattr(table, key) == getattr(family, key), key


@pytest.mark.parametrize("family", ["deepseek", "glm"])
def test_a_vendor_without_schemas_gets_the_schema_in_the_prompt(family: str) -> None:
    asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    body = body_of(family, response_format=asked)
    assert body["response_format"] == {"type": "json_object"}
    assert body["messages"][0]["role"] == "system"
    assert json.dumps(SCHEMA, separators=(",", ":")) in body["messages"][0]["content"]
