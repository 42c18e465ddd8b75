"""Checks of the input items and tools of the Responses API, for ``Rule.refuses``."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rig.vendors.rules import Asked, Check, Values, at

type Item = Mapping[str, Any]

ROLES = ("assistant", "system", "developer", "user")
ITEMS = (
    *("code_interpreter_call", "computer_call", "computer_call_output", "custom_tool_call"),
    *("custom_tool_call_output", "file_search_call", "function_call", "function_call_output"),
    *("image_generation_call", "item_reference", "local_shell_call", "local_shell_call_output"),
    *("message", "reasoning", "web_search_call", "compaction", "additional_tools"),
    *("mcp_call", "mcp_list_tools", "tool_search_call", "tool_search_output"),
)
PARTS = (
    *("input_text", "input_image", "output_text", "refusal", "input_file", "computer_screenshot"),
    "summary_text",
)
OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
}


def items(asked: Asked) -> Sequence[Item]:
    given = asked.body.get("input")
    return given if isinstance(given, list) else ()


def kind_of(item: Item) -> str:
    """Return the type of an item. One with a role and no type is a message."""
    return str(item.get("type") or ("message" if "role" in item else ""))


def missing(place: str) -> Check:
    return lambda asked: {"field": place} if at(asked.body, place) is None else None


def wrong_role(asked: Asked) -> Values | None:
    return next(
        (
            {"value": item.get("role"), "taken": _listed(ROLES), "param": f"input[{index}]"}
            for index, item in enumerate(items(asked))
            if kind_of(item) == "message" and item.get("role") not in ROLES
        ),
        None,
    )


def wrong_item(asked: Asked) -> Values | None:
    return next(
        (
            {"value": kind_of(item), "taken": _listed(ITEMS), "param": f"input[{index}]"}
            for index, item in enumerate(items(asked))
            if kind_of(item) not in ITEMS
        ),
        None,
    )


def _parts(asked: Asked) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield each part of a message or an output, with its place and the role of its item."""
    for index, item in enumerate(items(asked)):
        for name in ("content", "output"):
            if kind_of(item) != "reasoning" and isinstance(held := item.get(name), list):
                role = str(item.get("role", "tool"))
                yield from ((f"input[{index}].{name}[{n}]", role, part) for n, part in enumerate(held))


def wrong_part(asked: Asked) -> Values | None:
    for place, role, part in _parts(asked):
        kind = part.get("type")
        is_said = kind in ("output_text", "refusal")
        if kind not in PARTS or is_said != (role == "assistant"):
            return {"value": kind, "taken": _listed(PARTS), "param": f"{place}.type"}
    return None


def bad_file(asked: Asked) -> Values | None:
    """Refuse file data that is no data URL, or has no name."""
    for place, _, part in _parts(asked):
        if (data := part.get("file_data")) is not None:
            if not str(data).startswith("data:"):
                return {"place": f"{place}.file_data", "param": f"{place}.file_data"}
            if not part.get("filename"):
                return {"place": f"{place}.filename", "param": f"{place}.filename"}
    return None


def reasoning_alone(asked: Asked) -> Values | None:
    """Refuse reasoning that no output of the model follows."""
    given = items(asked)
    for index, item in enumerate(given):
        if kind_of(item) == "reasoning":
            after = given[index + 1] if index + 1 < len(given) else {}
            is_output = kind_of(after) == "reasoning" or kind_of(after).endswith("_call")
            if not (is_output or after.get("role") == "assistant"):
                return {"id": item.get("id", "rs_1")}
    return None


def unanswered(asked: Asked) -> Values | None:
    given = items(asked)
    for index, item in enumerate(given):
        if output := OUTPUTS.get(kind_of(item)):
            later = given[index + 1 :]
            if not any(kind_of(one) == output and one.get("call_id") == item["call_id"] for one in later):
                return {"id": item["call_id"]}
    return None


def answered_twice_or_never_asked(asked: Asked) -> Values | None:
    known: set[tuple[str, str]] = set()
    for item in items(asked):
        kind = kind_of(item)
        if kind in OUTPUTS:
            known.add((OUTPUTS[kind], item["call_id"]))
        elif kind in OUTPUTS.values() and (kind, item.get("call_id", "")) not in known:
            return {"id": item.get("call_id")}
    return None


def kept_item(asked: Asked) -> Values | None:
    """Refuse what only a stored item would have: a reference, or reasoning without its encrypted content."""
    for item in items(asked):
        is_bare = kind_of(item) == "reasoning" and not item.get("encrypted_content") and "id" in item
        if kind_of(item) == "item_reference" or is_bare:
            return {"id": item.get("id")}
    return None


def wrong_call_id(asked: Asked) -> Values | None:
    return next(
        (
            {"index": index, "length": len(item["call_id"]), "param": f"input[{index}].call_id"}
            for index, item in enumerate(items(asked))
            if len(item.get("call_id") or "") > 64
        ),
        None,
    )


def each_tool(refuses: Any) -> Check:
    """Refuse a function or a custom tool of this kind."""
    return lambda asked: next(
        (
            {"index": index, "name": tool.get("name"), "param": f"tools[{index}].parameters"}
            for index, tool in enumerate(asked.body.get("tools") or ())
            if refuses(tool)
        ),
        None,
    )


def unnamed_tool(asked: Asked) -> Values | None:
    return next(
        (
            {"param": f"tools[{index}].name"}
            for index, tool in enumerate(asked.body.get("tools") or ())
            if tool.get("type") in ("function", "custom") and not tool.get("name")
        ),
        None,
    )


def nested_tool(asked: Asked) -> Values | None:
    """Refuse a tool in the shape of chat completions."""
    return next(
        (
            {"param": f"tools[{index}].{kind}"}
            for index, tool in enumerate(asked.body.get("tools") or ())
            for kind in ("function", "custom")
            if kind in tool
        ),
        None,
    )


def no_tool_of_choice(asked: Asked) -> Values | None:
    choice = asked.body.get("tool_choice")
    if choice is None or isinstance(choice, str):
        return {} if choice == "required" and not asked.body.get("tools") else None
    if choice.get("type") not in ("function", "custom"):
        return None
    named = {(tool.get("type"), tool.get("name")) for tool in asked.body.get("tools") or ()}
    return None if (choice.get("type"), choice.get("name")) in named else {}


def word_missing(asked: Asked) -> Values | None:
    """Refuse JSON mode where the word is not in the input."""
    if at(asked.body, "text.format.type") != "json_object":
        return None
    said = f"{asked.body.get('instructions')} {asked.body.get('input')}"
    return None if re.search("json", said, re.IGNORECASE) else {}


def _listed(names: Sequence[str]) -> str:
    *some, last = (f"'{name}'" for name in names)
    return f"{', '.join(some)}, and {last}"
