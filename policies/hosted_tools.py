"""Tools that a provider runs itself during a call, and charges for: which may run, and how often.

Source: Anthropic, "Web search tool"; OpenAI, "Web search", "Using tools"; docs/limits.md, "Hosted tools".
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

HostedTool = Literal["web_search"]
HOSTED_TOOLS: Final[frozenset[str]] = frozenset(get_args(HostedTool))
"""Those that can pass. Their price is that of a search."""

_WEB_SEARCH: Final = "web_search"


def hosted_tool_of(tool: object) -> str | None:
    """Return the name in ``HOSTED_TOOLS`` of an element of ``tools``, None for every other tool.

    Each release of a tool has a type of its own: ``web_search_20250305``, ``web_search_preview``.
    """
    kind = tool.get("type") if isinstance(tool, Mapping) else None
    return _WEB_SEARCH if isinstance(kind, str) and kind.startswith(_WEB_SEARCH) else None


def find_search_bound(body: Mapping[str, Any], allowed: frozenset[str], most: int) -> int:
    """Return how many searches a native request may make: as many as its client wants, at most ``most``.

    The client's bound is ``max_tool_calls`` of a Responses request, and ``max_uses`` of each tool of a Messages
    request. ``allowed`` are the hosted tools that may run.
    """
    if _WEB_SEARCH not in allowed:
        return 0
    tools = body.get("tools")
    searching = [tool for tool in tools if hosted_tool_of(tool)] if isinstance(tools, list) else []
    if not searching:
        return 0
    wanted = min([sum([_bound_of(tool.get("max_uses"), most) for tool in searching]), most])
    return min(wanted, _bound_of(body.get("max_tool_calls"), most))


def _bound_of(value: object, most: int) -> int:
    return min(value, most) if type(value) is int and value >= 0 else most
