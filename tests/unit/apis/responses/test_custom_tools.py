"""Tools that chat models call as functions, and the items that their calls become."""

import json
from typing import Any

import pytest

from addon.apis.responses.custom_tools import (
    MAX_NAME_CHARS,
    Tool,
    call_members,
    chat_name,
    client_call_arguments,
    custom_arguments,
    custom_input,
    tools_by_chat_name,
)

GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}
PATCH = {"type": "custom", "name": "apply_patch", "format": GRAMMAR}
SPAWN = {"type": "function", "name": "spawn", "parameters": {"type": "object"}}


def test_tools_by_chat_name_finds_all_that_a_chat_model_may_call() -> None:
    body = {
        "tools": [
            PATCH,
            {"type": "namespace", "name": "agents", "tools": [SPAWN]},
            {"type": "local_shell"},
            {"type": "web_search"},
            {"type": "tool_search", "execution": "client"},
        ],
        "input": [
            {"type": "additional_tools", "tools": [{"type": "custom", "name": "note"}]},
            {"type": "tool_search_output", "tools": [{"type": "function", "name": "later"}]},
        ],
    }
    assert tools_by_chat_name(body) == {
        "apply_patch": Tool("custom_tool_call", "apply_patch"),
        "agents__spawn": Tool("function_call", "spawn", "agents"),
        "local_shell": Tool("local_shell_call", "local_shell"),
        "tool_search": Tool("tool_search_call", "tool_search"),
        "note": Tool("custom_tool_call", "note"),
        "later": Tool("function_call", "later"),
    }


def test_the_first_of_two_tools_with_one_name_counts() -> None:
    body = {"tools": [PATCH, {"type": "apply_patch"}]}
    assert tools_by_chat_name(body) == {"apply_patch": Tool("custom_tool_call", "apply_patch")}


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "tool_search"},
        {"type": "tool_search", "execution": "server"},
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "code_interpreter"},
        {"type": ["shell"]},
    ],
)
def test_a_tool_that_a_provider_runs_is_none_of_them(tool: dict[str, Any]) -> None:
    assert tools_by_chat_name({"tools": [tool]}) == {}


def test_chat_name_joins_a_namespace_and_stays_short() -> None:
    assert chat_name("get", None) == chat_name("get", "get") == "get"
    assert chat_name("create", "mcp__github") == "mcp__github__create"
    long = chat_name("n" * 60, "s" * 60)
    assert len(long) == MAX_NAME_CHARS
    assert long != chat_name("n" * 61, "s" * 60)


def test_free_text_becomes_arguments_and_text_again() -> None:
    text = '*** Begin Patch\n+"ä"\n'
    assert json.loads(custom_arguments(text)) == {"input": text}
    assert custom_input(custom_arguments(text)) == text


@pytest.mark.parametrize("arguments", ["", "plain", "[1]", '{"other": "x"}', '{"input": 1}'])
def test_arguments_of_another_form_are_the_text(arguments: str) -> None:
    assert custom_input(arguments) == arguments


@pytest.mark.parametrize(
    ("tool", "arguments", "item"),
    [
        (Tool("custom_tool_call", "p"), '{"input": "x"}', {"name": "p", "input": "x"}),
        (Tool("function_call", "f", "ns"), "{}", {"name": "f", "arguments": "{}", "namespace": "ns"}),
        (
            Tool("local_shell_call", "local_shell"),
            '{"command": ["ls"]}',
            {"action": {"type": "exec", "command": ["ls"], "env": {}}},
        ),
        (
            Tool("shell_call", "shell"),
            '{"commands": ["ls"], "timeout_ms": 5}',
            {"action": {"commands": ["ls"], "timeout_ms": 5, "max_output_length": None}},
        ),
        (
            Tool("apply_patch_call", "apply_patch"),
            '{"type": "delete_file", "path": "a"}',
            {"operation": {"type": "delete_file", "path": "a"}},
        ),
        (
            Tool("tool_search_call", "tool_search"),
            '{"query": "x"}',
            {"arguments": {"query": "x"}, "execution": "client"},
        ),
    ],
)
def test_call_members(tool: Tool, arguments: str, item: dict[str, Any]) -> None:
    assert call_members(tool, arguments) == {"type": tool.call_type, **item}


@pytest.mark.parametrize("arguments", ["", "[]", '{"command": "ls"}', '{"command": []}'])
def test_arguments_that_do_not_fit_make_a_function_call(arguments: str) -> None:
    made = call_members(Tool("local_shell_call", "local_shell"), arguments)
    assert made == {"type": "function_call", "name": "local_shell", "arguments": arguments}


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("local_shell", '{"env":{},"command":["ls"]}'),
        ("apply_patch", '{"type":"delete_file","path":"a"}'),
        ("tool_search", '{"query":"x"}'),
    ],
)
def test_client_call_arguments_are_those_of_the_call(kind: str, arguments: str) -> None:
    item = call_members(Tool(f"{kind}_call", kind), arguments)
    assert json.loads(client_call_arguments(item)) == json.loads(arguments)
