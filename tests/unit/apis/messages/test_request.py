"""The fields of a Messages request as chat has them, and the names of those that it can't have."""

from typing import Any

import pytest
from rig.messages_requests import HELLO, TOOL, WEATHER, ask, result, talk, tool_use, translate

from addon.apis.strict_schema import is_strict

STRICT = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTION = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}


def fields(**given: Any) -> dict[str, Any]:
    """Return the chat fields besides those of every request, and the names of what was left out."""
    made = translate(ask(**given))
    body = {name: value for name, value in made.body.items() if name not in ask()}
    return body | ({"untranslated": made.untranslated} if made.untranslated else {})


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, {}),
        ({"temperature": 0.5, "top_p": 0.9, "top_k": 7}, {"temperature": 0.5, "top_p": 0.9, "top_k": 7}),
        ({"stream": True, "service_tier": "auto"}, {"stream": True, "service_tier": "auto"}),
        ({"stop_sequences": ["A", "B"]}, {"stop": ["A", "B"]}),
        ({"stop_sequences": []}, {}),
        ({"metadata": {"user_id": "u-7"}}, {"user": "u-7"}),
        ({"metadata": {"user_id": None}}, {}),
        ({"metadata": {"user_id": "u", "team": "a"}}, {"user": "u", "metadata": {"team": "a"}}),
        ({"metadata": {"team": "a", "of": 7}}, {"untranslated": ("metadata.team", "metadata.of")}),
        ({"thinking": {"type": "disabled"}}, {"reasoning_effort": "none"}),
        ({"thinking": {"type": "adaptive"}}, {"reasoning_effort": "medium"}),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, {"reasoning_effort": "low"}),
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, {"reasoning_effort": "medium"}),
        ({"thinking": {"type": "enabled", "budget_tokens": 10_000}}, {"reasoning_effort": "high"}),
        ({"thinking": {"type": "enabled", "budget_tokens": 31_999}}, {"reasoning_effort": "xhigh"}),
        ({"thinking": {"type": "between_tools"}}, {"untranslated": ("thinking",)}),
        ({"output_config": {"effort": "max"}}, {"reasoning_effort": "max"}),
        (
            {"output_config": {"effort": "low"}, "thinking": {"type": "enabled", "budget_tokens": 9_000}},
            {"reasoning_effort": "low"},
        ),
        (
            {"output_config": {"effort": "low"}, "thinking": {"type": "disabled"}},
            {"reasoning_effort": "none"},
        ),
        (
            {"output_config": {"effort": None, "task_budget": {"total": 9}}},
            {"untranslated": ("output_config.task_budget",)},
        ),
        (
            {"context_management": {"edits": []}, "container": "c", "mcp_servers": [], "other": 1},
            {"untranslated": ("context_management", "container", "mcp_servers", "other")},
        ),
        ({"container": None, "system": None, "tools": None}, {}),
    ],
)
def test_fields(given: dict[str, Any], made: dict[str, Any]):
    assert fields(**given) == made


@pytest.mark.parametrize("name", ["output_config", "output_format"])
@pytest.mark.parametrize(("schema", "strict"), [(STRICT, True), (WEATHER, False)])
def test_a_format_is_enforced_where_openai_can(name: str, schema: dict[str, Any], strict: bool):
    wanted = {"type": "json_schema", "schema": schema}
    given = {"format": wanted} if name == "output_config" else wanted
    described = {"name": "answer", "schema": schema, "strict": strict}
    assert fields(**{name: given}) == {"response_format": {"type": "json_schema", "json_schema": described}}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "string"}, True),
        ({"anyOf": [STRICT, {"type": "null"}]}, True),
        ({"type": "object"}, False),
        ({"type": "object", "additionalProperties": False}, True),
        (STRICT | {"required": []}, False),
        (STRICT | {"required": "city"}, False),
        (STRICT | {"additionalProperties": {"type": "string"}}, False),
        (STRICT | {"$defs": {"a": WEATHER}}, False),
        (STRICT | {"properties": {"city": {"type": "array", "items": WEATHER}}}, False),
    ],
)
def test_schemas_that_openai_can_enforce(schema: dict[str, Any], strict: bool):
    assert is_strict(schema) == strict


def test_an_unknown_format_is_an_obstacle():
    made = translate(ask(output_config={"format": {"type": "grammar"}}))
    assert made.obstacle and made.obstacle[0] == "output_config.format.type"


@pytest.mark.parametrize(
    ("tool", "function", "lost"),
    [
        (TOOL, FUNCTION, ()),
        (TOOL | {"type": "custom", "cache_control": None, "strict": None}, FUNCTION, ()),
        (
            TOOL | {"description": "Tells", "strict": True, "cache_control": {"type": "ephemeral"}},
            {
                "type": "function",
                "function": {
                    "name": "weather",
                    "parameters": WEATHER,
                    "description": "Tells",
                    "strict": True,
                },
                "cache_control": {"type": "ephemeral"},
            },
            (),
        ),
        (TOOL | {"input_examples": [{}]}, FUNCTION, ("tools.input_examples",)),
    ],
)
def test_a_tool_of_the_client_is_a_function(tool: dict[str, Any], function: dict[str, Any], lost: Any):
    made = translate(ask(tools=[tool]))
    assert (made.body["tools"], made.untranslated) == ([function], lost)


def test_tools_that_the_provider_knows_or_runs_are_named():
    tools = [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20260318", "name": "web_search"},
        TOOL,
    ]
    made = translate(ask(tools=tools))
    assert made.body["tools"] == [FUNCTION]
    assert made.untranslated == ("tools.bash_20250124", "tools.web_search_20260318")
    assert "tools" not in translate(ask(tools=tools[:2])).body


@pytest.mark.parametrize(
    ("choice", "made"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        (
            {"type": "tool", "name": "weather"},
            {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
        ),
        (
            {"type": "auto", "disable_parallel_tool_use": True},
            {"tool_choice": "auto", "parallel_tool_calls": False},
        ),
        ({"type": "any", "disable_parallel_tool_use": False}, {"tool_choice": "required"}),
    ],
)
def test_choices(choice: dict[str, Any], made: dict[str, Any]):
    assert fields(tools=[TOOL], tool_choice=choice) == {"tools": [FUNCTION], **made}


def test_a_forced_tool_that_is_left_out_is_an_obstacle():
    tools = [TOOL, {"type": "web_search_20260318", "name": "web_search"}]
    made = translate(ask(tools=tools, tool_choice={"type": "tool", "name": "web_search"}))
    assert made.obstacle == ("tool_choice.name", "The model has no tool of this name.")
    assert "tool_choice" not in made.body


SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search"}
FOUND = talk([tool_use()], result([{"type": "tool_reference", "tool_name": "weather"}]))


@pytest.mark.parametrize(
    ("tools", "messages", "offered"),
    [([], HELLO, []), ([], FOUND, [FUNCTION]), ([SEARCH], HELLO, [FUNCTION])],
    ids=["not loaded", "loaded by the client", "searched by the provider"],
)
def test_a_deferred_tool_is_offered_once_the_model_could_know_it(tools: Any, messages: Any, offered: Any):
    made = translate(ask(messages, tools=[TOOL | {"defer_loading": True}, *tools]))
    assert made.body.get("tools", []) == offered
    assert ("tools.defer_loading" in made.untranslated) == (not offered)


def test_the_effort_of_the_last_turn_counts():
    later = [
        {"role": "system", "content": "Now", "output_config": {"effort": "low"}},
        {"role": "system", "output_config": {"effort": None}},
    ]
    made = translate(ask([*HELLO, *later], output_config={"effort": "high"}))
    assert made.body["reasoning_effort"] == "low"
    assert made.body["messages"] == [*HELLO, {"role": "system", "content": "Now"}]
