"""The tools of a request become functions, and the choice among them one of functions. Pure.

A tool that the provider runs is left out and named. Tools that wait for a search are all offered from the beginning.
Source: OpenAI, "Create a model response" (tools, tool_choice), "Function calling", "Custom tools".
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from addon.apis.chat_body import Losses
from addon.apis.responses.custom_tools import CLIENT_TOOLS, INPUT, chat_name, find_client_tool, given_tools
from addon.apis.strict_schema import is_strict

type Function = dict[str, Any]

_CARRIED: Final = frozenset({"type", "name", "description", "parameters", "strict", "format", "function"})
_FUNCTION_MEMBERS: Final = ("name", "description", "parameters", "strict")
_NO_TOOL: Final = "The model has no tool of this name."
_HOSTED: Final = "The model has no such tool: the provider of another model runs it."


def make_tools(body: Mapping[str, Any], losses: Losses) -> dict[str, Any]:
    """Return the chat fields of the tools, and of the choice among them."""
    made: dict[str, Function] = {}
    places: dict[str, str] = {}
    for place, namespace, tool in given_tools(body):
        function = _function(tool, namespace)
        if function is None:
            losses.drop(f"tools.{tool.get('type')}")
        elif function["name"] not in made:
            if function.get("strict") and not is_strict(function.get("parameters", {})):
                # OpenAI completes the schema then, but only of this API. Elsewhere it refuses the tool.
                del function["strict"]
                losses.drop("tools.strict")
            made[function["name"]] = {"type": "function", "function": function}
            places[function["name"]] = place
            for name in tool.keys() - _CARRIED:
                if tool[name] is not None and tool.get("type") in ("function", "custom"):
                    losses.drop(f"tools.{name}")
    choice = _Choice(made, losses)
    fields = choice.fields(body.get("tool_choice"))
    losses.sources["tools"] += [places[name] for name in choice.tools]
    return ({"tools": list(choice.tools.values())} if choice.tools else {}) | fields


def _function(tool: Mapping[str, Any], namespace: str | None) -> Function | None:
    """Return the function that stands for a tool, None for one that the provider runs."""
    kind = tool.get("type")
    if kind == "function":
        # Some clients describe the function inside, as chat completions want it.
        inner = tool.get("function")
        given = {**(inner if isinstance(inner, Mapping) else {}), **tool}
        made = {name: given[name] for name in _FUNCTION_MEMBERS if given.get(name) is not None}
        return {**made, "name": chat_name(tool["name"], namespace)}
    if kind == "custom":
        return {"name": chat_name(tool["name"], namespace), **_free_text(tool)}
    if (client_tool := find_client_tool(tool)) is None:
        return None
    given = {name: tool.get(name) for name in ("description", "parameters")}
    description, parameters = given["description"], given["parameters"]
    return {
        "name": str(kind),
        "description": description if isinstance(description, str) else client_tool.description,
        "parameters": parameters if isinstance(parameters, dict) else dict(client_tool.parameters),
    }


def _free_text(tool: Mapping[str, Any]) -> Function:
    """Return the description and the parameters of a custom tool's function: one text."""
    form = tool.get("format") or {}
    words = ["Write the input as free text."]
    if isinstance(definition := form.get("definition"), str):
        words = [
            f"The input must match this {form.get('syntax') or ''} grammar:".replace("  ", " "),
            definition,
        ]
    text = {"type": "string", "description": "\n".join(words)}
    parameters = {"type": "object", "properties": {INPUT: text}, "required": [INPUT]}
    made: Function = {"parameters": {**parameters, "additionalProperties": False}}
    return made if tool.get("description") is None else {"description": tool["description"], **made}


class _Choice:
    """The choice among ``tools``, which are those that the model may use."""

    def __init__(self, tools: dict[str, Function], losses: Losses) -> None:
        self.tools = tools
        self._losses = losses

    def fields(self, choice: str | Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the chat field of the choice."""
        if choice is None:
            return {}
        if isinstance(choice, str):
            return self._mode(choice)
        kind = choice["type"]
        if kind == "allowed_tools":
            self._allow(choice["tools"])
            return self._mode(choice["mode"])
        if (name := _named(choice)) not in self.tools:
            self._losses.refuse("tool_choice", _NO_TOOL if kind in ("function", "custom") else _HOSTED)
            return {}
        return {"tool_choice": {"type": "function", "function": {"name": name}}}

    def _mode(self, mode: str) -> dict[str, Any]:
        if mode == "required" and not self.tools:
            self._losses.refuse("tool_choice", "The model has no tool that it could be required to use.")
        return {"tool_choice": mode} if self.tools else {}

    def _allow(self, allowed: Sequence[Mapping[str, Any]]) -> None:
        names = {_named(one) for one in allowed}
        for one in allowed:
            if _named(one) not in self.tools:
                self._losses.drop(f"tool_choice.{one['type']}")
        self.tools = {name: tool for name, tool in self.tools.items() if name in names}


def _named(choice: Mapping[str, Any]) -> str:
    """Return the name of the function that a choice means."""
    kind = str(choice["type"])
    return chat_name(str(choice.get("name")), choice.get("namespace")) if kind not in CLIENT_TOOLS else kind
