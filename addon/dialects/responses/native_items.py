"""The input items of a native request: what only the gateway, or another provider, understands does not go. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from addon.answers.normalize.edits import keep_if_same
from addon.dialects.opaque_reasoning import is_sealed, unseal
from addon.dialects.responses.items import FORMAT
from addon.dialects.responses.native_tools import NO_TOOLS, allowed_tools

_WITH_TOOLS: Final = ("additional_tools", "tool_search_output")


def fit_items(items: list[Any], unsent: list[str], *, reads_encrypted: bool = True) -> list[Any]:
    """Return the items that the provider takes: the same list when nothing changes.

    Names of what is left out, such as ``input.reasoning``, are added to ``unsent``. Not ``reads_encrypted``: the
    provider could not decrypt the reasoning.
    """
    read = items if reads_encrypted else [one for one in items if not _is_encrypted(one)]
    if len(read) < len(items):
        unsent.append("input.reasoning")
    return keep_if_same(items, [fitted for item in read for fitted in _fitted(item, unsent)])


def _is_encrypted(item: Any) -> bool:
    is_reasoning = isinstance(item, Mapping) and item.get("type") == "reasoning"
    return is_reasoning and bool(item.get("encrypted_content"))


def _fitted(item: Any, unsent: list[str]) -> list[Any]:
    kind = item.get("type") if isinstance(item, Mapping) else None
    if kind == "reasoning":
        return _reasoning(item, unsent)
    if kind in _WITH_TOOLS and isinstance(tools := item.get("tools"), list):
        kept = allowed_tools(tools, NO_TOOLS, unsent)
        return [item if kept is tools else {**item, "tools": kept}]
    return [item]


def _reasoning(item: Mapping[str, Any], unsent: list[str]) -> list[Any]:
    """Return what the provider takes of one item of reasoning.

    A text of ours has the reasoning of a call that went through chat: what is in it of this API's own goes back. No one
    has stored what is not encrypted: its id would name nothing, so reasoning that is shown goes without, and an item
    that has nothing but a summary does not go.
    """
    sealed = item.get("encrypted_content")
    if isinstance(sealed, str) and is_sealed(sealed):
        own = [detail for detail in unseal(sealed) or () if _is_own(detail)]
        if not own:
            unsent.append("input.reasoning")
        return [{"type": "reasoning", "summary": [], "encrypted_content": detail["data"]} for detail in own]
    if sealed:
        return [item]
    if item.get("content"):
        return [{name: value for name, value in item.items() if name != "id"}]
    unsent.append("input.reasoning")
    return []


def _is_own(detail: Mapping[str, Any]) -> bool:
    return detail.get("format") == FORMAT and bool(detail.get("data"))
