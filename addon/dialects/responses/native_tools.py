"""The tools of a native request: those that its provider runs and charges for go only if they are allowed. Pure.

Source: OpenAI, "Using tools"; docs/limits.md, "Hosted tools".
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from addon.answers.normalize.edits import keep_if_same
from addon.dialects.responses.native_fields import CLIENT_TOOLS
from policies.hosted_tools import find_search_bound, hosted_tool_of

type Body = dict[str, Any]

NO_TOOLS: Final[frozenset[str]] = frozenset()
_PLAIN_CHOICES: Final = ("auto", "none")


def fit_tools(body: Body, hosted_tools: frozenset[str], max_searches: int, unsent: list[str]) -> None:
    """Leave out the tools of ``body`` that may not run, and what names them; add their names to ``unsent``.

    Searches get a bound, for which money is held.
    """
    tools = body.get("tools")
    if not isinstance(tools, list):
        return
    kept = allowed_tools(tools, hosted_tools, unsent)
    if any(hosted_tool_of(tool) for tool in kept):
        body["max_tool_calls"] = find_search_bound(body, hosted_tools, max_searches)
    if kept is not tools:
        body["tools"] = kept
    if len(kept) < len(tools):
        _fit_choice(body, kept, unsent)


def allowed_tools(tools: list[Any], hosted_tools: frozenset[str], unsent: list[str]) -> list[Any]:
    """Return the tools that may run: the same list when all may.

    The names of the others, such as ``tools.mcp``, are added to ``unsent``.
    """
    kept: list[Any] = []
    for tool in tools:
        if _is_clients(tool):
            kept.append(_with_allowed(tool, unsent))
        elif (hosted := hosted_tool_of(tool)) is not None and hosted in hosted_tools:
            kept.append(tool)
        else:
            unsent.append(f"tools.{_kind(tool)}")
    return keep_if_same(tools, kept)


def _with_allowed(tool: Any, unsent: list[str]) -> Any:
    """Return a tool without those that are inside it and may not run."""
    inner = tool.get("tools")
    if tool["type"] != "namespace" or not isinstance(inner, list):
        return tool
    kept = allowed_tools(inner, NO_TOOLS, unsent)
    return tool if kept is inner else {**tool, "tools": kept}


def _is_clients(tool: object) -> bool:
    kind = _kind(tool)
    if kind == "shell" and isinstance(tool, Mapping):
        environment = tool.get("environment")
        return isinstance(environment, Mapping) and environment.get("type") == "local"
    return kind in CLIENT_TOOLS


def _kind(tool: object) -> str:
    kind = tool.get("type") if isinstance(tool, Mapping) else None
    return kind if isinstance(kind, str) else "other"


def _fit_choice(body: Body, kept: Sequence[Any], unsent: list[str]) -> None:
    """Leave out a choice that names a tool which is not sent, or any choice where none is."""
    if not kept:
        del body["tools"]
    choice = body.get("tool_choice")
    if choice is None or (kept and not isinstance(choice, Mapping)):
        return
    made = _fitting(choice, kept) if kept and isinstance(choice, Mapping) else None
    if made is None:
        del body["tool_choice"]
    else:
        body["tool_choice"] = made
    if made != choice and choice not in _PLAIN_CHOICES:
        unsent.append("tool_choice")


def _fitting(choice: Mapping[str, Any], kept: Sequence[Any]) -> Mapping[str, Any] | None:
    """Return the choice without tools that are not sent, None where nothing is left of it."""
    if choice.get("type") == "allowed_tools" and isinstance(listed := choice.get("tools"), list):
        left = [one for one in listed if _is_kept(one, kept)]
        return {**choice, "tools": left} if left else None
    return choice if _is_kept(choice, kept) else None


def _is_kept(named: object, kept: Sequence[Any]) -> bool:
    """Return whether a tool that is named by its type alone is sent. One with a name is the client's."""
    kind = _kind(named)
    return kind in ("function", "custom") or kind in [_kind(tool) for tool in kept]
