"""The tools of a Responses request that chat models call as functions, and the way from such a call back. Pure.

A chat request has only functions. So a tool with free text becomes a function with one text, a tool that the client
runs by itself becomes a function with the members of its action, and a function of a namespace has both names in one.
Source: OpenAI, "Create a model response", tools and input items; openai-python, ``types.responses``.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from addon.text.json_decode import decode_object
from addon.text.json_encode import encode_json
from policies.large_text import whole_text, whole_value
from policies.refusal import Refusal

type GivenTool = tuple[str, str | None, Mapping[str, Any]]

INPUT: Final = "input"
"""The only member of the arguments of a custom tool's function: its free text."""
MAX_NAME_CHARS: Final = 64
"""The longest name of a function. Source: OpenAI, "Create chat completion", tools."""

_DIGEST_CHARS: Final = 8


class Tool(Struct, frozen=True):
    """A tool as the client knows it. ``call_type`` is the type of the item that calls it."""

    call_type: str
    name: str
    namespace: str | None = None


class ClientTool(Struct, frozen=True):
    """A tool without a name, which the client runs. ``member`` is the item's member that has the arguments."""

    call_type: str
    output_type: str
    member: str
    parameters: Mapping[str, Any]
    description: str
    make: Callable[[dict[str, Any]], dict[str, Any] | None]


def tools_by_chat_name(body: Mapping[str, Any]) -> dict[str, Tool]:
    """Return the tools of a request by the names of their functions in the chat request.

    A call of any other name is one of a plain function with that name.
    """
    found: dict[str, Tool] = {}
    for _, namespace, tool in given_tools(body):
        kind, name = tool.get("type"), tool.get("name")
        if kind in ("function", "custom") and isinstance(name, str):
            call_type = "function_call" if kind == "function" else "custom_tool_call"
            found.setdefault(chat_name(name, namespace), Tool(call_type, name, namespace))
        elif (client_tool := find_client_tool(tool)) is not None:
            found.setdefault(str(kind), Tool(client_tool.call_type, str(kind)))
    return found


def given_tools(body: Mapping[str, Any]) -> Iterator[GivenTool]:
    """Yield the path, the namespace and the tool for each of a request, those too that items of its input bring."""
    yield from _unpacked(body.get("tools"), "tools")
    items = body.get("input")
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, Mapping) and item.get("type") in ("additional_tools", "tool_search_output"):
            yield from _unpacked(item.get("tools"), f"input.{index}.tools")


def _unpacked(tools: object, place: str, namespace: str | None = None) -> Iterator[GivenTool]:
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        if not isinstance(tool, Mapping):
            continue
        if tool.get("type") == "namespace" and namespace is None:
            yield from _unpacked(tool.get("tools"), f"{place}.{index}.tools", str(tool.get("name")))
        else:
            yield f"{place}.{index}", namespace, tool


def chat_name(name: str, namespace: object = None) -> str:
    """Return the name of a tool's function in the chat request.

    A function that a search has loaded has its own name as its namespace.
    """
    if not isinstance(namespace, str) or namespace in ("", name):
        return name
    joined = f"{namespace}__{name}"
    if len(joined) <= MAX_NAME_CHARS:
        return joined
    digest = hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{joined[: MAX_NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"


def find_client_tool(tool: Mapping[str, Any]) -> ClientTool | None:
    """Return the entry of ``CLIENT_TOOLS`` for a tool; None for one that has a name, or that a provider runs."""
    kind = tool.get("type")
    found = CLIENT_TOOLS.get(kind) if isinstance(kind, str) else None
    if kind == "tool_search" and tool.get("execution") != "client":
        return None
    environment = tool.get("environment")
    if kind == "shell" and isinstance(environment, Mapping) and environment.get("type") != "local":
        return None
    return found


# --- calls -------------------------------------------------------------------------------------------------------


def custom_arguments(text: str) -> str:
    """Return the arguments of a function for the free text of a custom tool's call."""
    return encode_json({INPUT: whole_text(text)}).decode()


def custom_input(arguments: str) -> str:
    """Return the free text in the arguments of a custom tool's function; other arguments as they are."""
    found = _object(arguments)
    if found is not None and isinstance(text := found.get(INPUT), str):
        return text
    return arguments


def call_members(tool: Tool, arguments: str) -> dict[str, Any]:
    """Return the item of a call with all members but ``id``, ``call_id`` and ``status``.

    Arguments that don't fit the tool make a ``function_call``: only the client can say what is wrong with them.
    """
    if tool.call_type == "custom_tool_call":
        return {"type": tool.call_type, "name": tool.name, "input": custom_input(arguments)}
    client_tool = CLIENT_TOOLS.get(tool.name) if tool.call_type != "function_call" else None
    given = _object(arguments) if client_tool is not None else None
    if client_tool is not None and given is not None and (made := client_tool.make(given)) is not None:
        return {"type": tool.call_type, client_tool.member: made} | (
            {"execution": "client"} if tool.call_type == "tool_search_call" else {}
        )
    item = {"type": "function_call", "name": tool.name, "arguments": arguments}
    return item if tool.namespace is None else {**item, "namespace": tool.namespace}


def client_call_arguments(item: Mapping[str, Any]) -> str:
    """Return the arguments of the function for an item that calls a tool of ``CLIENT_TOOLS``."""
    kind = str(item["type"]).removesuffix("_call")
    given = item.get(CLIENT_TOOLS[kind].member)
    if not isinstance(given, Mapping):
        return "{}"
    # Of a command of the local shell, the type is always the same.
    arguments = {name: value for name, value in given.items() if kind != "local_shell" or name != "type"}
    return encode_json(whole_value(arguments)).decode()


def _object(text: str) -> dict[str, Any] | None:
    try:
        return decode_object(whole_text(text).encode())
    except (Refusal, UnicodeEncodeError):
        return None


# --- tools that the client runs ----------------------------------------------------------------------------------


def _schema(required: str, **properties: Any) -> Mapping[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required.split()}
    return {**schema, "additionalProperties": False}


def _texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _local_shell_action(given: dict[str, Any]) -> dict[str, Any] | None:
    return {"type": "exec", "env": {}, **given} if _texts(given.get("command")) else None


def _shell_action(given: dict[str, Any]) -> dict[str, Any] | None:
    return {"timeout_ms": None, "max_output_length": None, **given} if _texts(given.get("commands")) else None


def _operation(given: dict[str, Any]) -> dict[str, Any] | None:
    return given if isinstance(given.get("type"), str) and isinstance(given.get("path"), str) else None


def _search(given: dict[str, Any]) -> dict[str, Any] | None:
    return given


_STRING: Final[Mapping[str, Any]] = {"type": "string"}
_STRINGS: Final[Mapping[str, Any]] = {"type": "array", "items": _STRING}
_INTEGER: Final[Mapping[str, Any]] = {"type": "integer"}

CLIENT_TOOLS: Final[Mapping[str, ClientTool]] = MappingProxyType(
    {
        "local_shell": ClientTool(
            "local_shell_call",
            "local_shell_call_output",
            "action",
            _schema("command", command=_STRINGS, working_directory=_STRING, timeout_ms=_INTEGER),
            "Run a command on the user's computer. `command` is the program and its arguments.",
            _local_shell_action,
        ),
        "shell": ClientTool(
            "shell_call",
            "shell_call_output",
            "action",
            _schema("commands", commands=_STRINGS, timeout_ms=_INTEGER, max_output_length=_INTEGER),
            "Run commands of a shell on the user's computer, each a whole line.",
            _shell_action,
        ),
        "apply_patch": ClientTool(
            "apply_patch_call",
            "apply_patch_call_output",
            "operation",
            _schema(
                "type path",
                type={"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
                path=_STRING,
                diff={"type": "string", "description": "A V4A diff. Left out to delete a file."},
            ),
            "Create, change or delete one file.",
            _operation,
        ),
        "tool_search": ClientTool(
            "tool_search_call",
            "tool_search_output",
            "arguments",
            _schema("query", query=_STRING),
            "Search for further tools, and load those that are found.",
            _search,
        ),
    }
)
"""The tools by their type, which is also the name of their function."""
CLIENT_CALLS: Final = frozenset(tool.call_type for tool in CLIENT_TOOLS.values())
CLIENT_OUTPUTS: Final = frozenset(tool.output_type for tool in CLIENT_TOOLS.values())
