"""The tools of a request become functions. Pure.

A tool that the provider itself knows or runs (a type with a date) has no schema that another model could be given, so
it is left out and named. Source: Anthropic, "Tool reference", "Tool search tool"; its Python SDK 2.12.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from addon.apis.chat_body import Losses
from addon.apis.messages.blocks import with_mark

type Tool = Mapping[str, Any]

CUSTOM: Final = (None, "custom")
"""The types of a tool that the client describes and runs."""

_CARRIED: Final = frozenset({"type", "name", "description", "input_schema", "strict", "cache_control"})
_SEARCH: Final = "tool_search_tool"
_CHOICES: Final = MappingProxyType({"auto": "auto", "any": "required", "none": "none"})


def make_tools(body: Mapping[str, Any], losses: Losses) -> dict[str, Any]:
    """Return the chat fields of the tools, and of the choice among them."""
    tools: Sequence[Tool] = body.get("tools", ())
    loaded = _loaded_names(body, tools)
    made = []
    for index, tool in enumerate(tools):
        if tool.get("type") not in CUSTOM:
            losses.drop(f"tools.{tool['type']}")
        elif tool.get("defer_loading") and loaded is not None and tool["name"] not in loaded:
            losses.drop("tools.defer_loading")
        else:
            made.append(_function(tool, losses))
            losses.sources["tools"].append(f"tools.{index}")
    fields: dict[str, Any] = {"tools": made} if made else {}
    return fields | _choice(body.get("tool_choice"), made, losses)


def _function(tool: Tool, losses: Losses) -> dict[str, Any]:
    for name in tool.keys() - _CARRIED:
        if tool[name] is not None and name != "defer_loading":
            losses.drop(f"tools.{name}")
    function = {"name": tool["name"], "parameters": tool["input_schema"]}
    function |= {name: tool[name] for name in ("description", "strict") if tool.get(name) is not None}
    return with_mark({"type": "function", "function": function}, tool)


def _choice(choice: Tool | None, tools: list[dict[str, Any]], losses: Losses) -> dict[str, Any]:
    if choice is None:
        return {}
    made: dict[str, Any] = {}
    if choice["type"] == "tool":
        if choice["name"] not in {tool["function"]["name"] for tool in tools}:
            losses.refuse("tool_choice.name", "The model has no tool of this name.")
            return {}
        made["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
    else:
        made["tool_choice"] = _CHOICES[choice["type"]]
    if choice.get("disable_parallel_tool_use"):
        made["parallel_tool_calls"] = False
    return made


def _loaded_names(body: Mapping[str, Any], tools: Sequence[Tool]) -> frozenset[str] | None:
    """Return the names of the deferred tools that the conversation has loaded, None where all are to be offered.

    A model can't ask for the others without the provider's own search for tools.
    """
    if not any(tool.get("defer_loading") for tool in tools):
        return None
    if any(str(tool.get("type")).startswith(_SEARCH) for tool in tools):
        return None
    return frozenset(_referenced(body["messages"]))


def _referenced(turns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the names that results of tools refer to, for clients that search tools themselves."""
    for turn in turns:
        for block in _blocks(turn.get("content")):
            for inner in _blocks(block.get("content")) if block["type"] == "tool_result" else ():
                if inner["type"] == "tool_reference" and isinstance(name := inner.get("tool_name"), str):
                    yield name


def _blocks(content: object) -> Sequence[Mapping[str, Any]]:
    return content if isinstance(content, list) else ()
