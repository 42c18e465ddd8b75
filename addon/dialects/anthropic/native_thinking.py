"""Thinking, effort and sampling of a request of the Messages API, as the family of its model takes them. Pure.

Clients write a request for one model, and the gateway may send it to another, with a smaller cap. The rules are those
of ``policies/sanitize`` for the fields of chat. Source: as ``request``; tests/rig/vendors/anthropic.py.
"""

from collections.abc import Mapping
from typing import Any, Final

from addon.dialects.anthropic.messages import thinks_first
from addon.dialects.anthropic.native_messages import with_blocks
from addon.dialects.anthropic.parts import refuse
from addon.dialects.anthropic.request import MIN_BUDGET_TOKENS
from policies.family import EFFORT, Family
from policies.field_rules import clamp_value

type Body = dict[str, Any]

DEFAULT_EFFORT: Final = "high"
"""Source: Anthropic, "Effort"."""

_EFFORT: Final = "effort"
_SAMPLING: Final = ("temperature", "top_p", "top_k")
_NEEDS_THINKING: Final = "clear_thinking_"
_FORCED: Final = {"any": "required", "tool": "named"}


def fit_thinking(body: Body, family: Family, asked_tokens: int | None, unsent: list[str]) -> None:
    """Give ``body`` a ``thinking`` that the model takes with the cap in it, or none.

    ``asked_tokens`` is the client's own cap. Where ours is lower, a budget falls with it.
    """
    given, effort = body.get("thinking"), _effort(body)
    if isinstance(given, dict):
        known = _of_known_type(given, family, effort, body)
        if known is None:
            drop_thinking(body, unsent)
        else:
            body["thinking"] = known
            fit_budget(body, asked_tokens, unsent)
    if effort is not None:
        is_used = isinstance(given, dict) and given.get("type") == "adaptive"
        _fit_effort(body, effort, family, [] if is_used else unsent)


def fit_budget(body: Body, asked_tokens: int | None, unsent: list[str]) -> None:
    """Lower a budget with the cap in ``body``, and leave out ``thinking`` where none fits; see ``fit_thinking``."""
    given = body.get("thinking")
    if isinstance(given, dict):
        made = _within_cap(given, body["max_tokens"], asked_tokens)
        if made is None:
            drop_thinking(body, unsent)
        else:
            body["thinking"] = made


def drop_closed_thinking(body: Body, unsent: list[str]) -> None:
    """Leave out a budget for thinking in a turn that has begun without it, which the API refuses."""
    turns = with_blocks(body["messages"])
    if _is_budget(body.get("thinking")) and turns and not thinks_first(turns):
        drop_thinking(body, unsent)


def drop_thinking(body: Body, unsent: list[str]) -> None:
    """Leave out ``thinking``, and the edits of the context that need it."""
    del body["thinking"]
    unsent.append("thinking")
    managed = body.get("context_management")
    if not isinstance(managed, dict) or not isinstance(edits := managed.get("edits"), list):
        return
    kept = [edit for edit in edits if not str(edit.get("type")).startswith(_NEEDS_THINKING)]
    if len(kept) < len(edits):
        body["context_management"] = {**managed, "edits": kept}
        unsent.append("context_management")


def fit_sampling(body: Body, family: Family, unsent: list[str]) -> None:
    """Leave out the sampling parameters that the model does not take. A temperature of 1 is what all take."""
    thinks = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    excluded = family.conflicts.get("thinking", frozenset()) if thinks else frozenset()
    for name in _SAMPLING:
        value = body.get(name)
        if value is None or (name == "temperature" and value == 1):
            continue
        lacks = name in family.drops or (name == "top_k" and name not in family.extra)
        beside = name == "top_p" and body.get("temperature") is not None
        if lacks or name in excluded or (beside and name in family.conflicts.get("temperature", ())):
            del body[name]
            unsent.append(name)
        else:
            body[name] = clamp_value(name, value, family)


def check_tool_choice(body: Mapping[str, Any], family: Family, slug: str) -> None:
    """Raise Refusal ``validation_failed`` for a choice that can't be forced on the model."""
    kind = str((body.get("tool_choice") or {}).get("type"))
    if family.tool_choices.get(_FORCED.get(kind, "")) == "refused":
        refuse("tool_choice.type", f"{slug} does not take '{kind}'; use 'auto' or 'none'.")


def _of_known_type(given: Body, family: Family, effort: str | None, body: Body) -> Body | None:
    """Return ``thinking`` in a form that the model takes, None where there is none."""
    kind, types = given.get("type"), family.thinking_types
    if not types or kind in types:
        return given
    if kind == "enabled" and "adaptive" in types:
        return {"type": "adaptive", **{name: given[name] for name in ("display",) if name in given}}
    forced = (body.get("tool_choice") or {}).get("type") in _FORCED
    turns = with_blocks(body["messages"])
    if kind != "adaptive" or "enabled" not in types or forced or (turns and not thinks_first(turns)):
        return None
    budgets = family.effort_budgets
    budget = budgets.get(effort or DEFAULT_EFFORT) or budgets.get(DEFAULT_EFFORT, MIN_BUDGET_TOKENS)
    budget = min(budget, body["max_tokens"] // 2)
    return {"type": "enabled", "budget_tokens": budget} if budget >= MIN_BUDGET_TOKENS else None


def _within_cap(thinking: Body, cap_tokens: int, asked_tokens: int | None) -> Body | None:
    """Return ``thinking`` with a budget that fits below a lowered cap, None where none does."""
    budget = thinking.get("budget_tokens")
    if not _is_budget(thinking) or not isinstance(budget, int):
        return thinking
    if asked_tokens is not None and cap_tokens < asked_tokens and cap_tokens <= budget < asked_tokens:
        budget = max(budget * cap_tokens // asked_tokens, MIN_BUDGET_TOKENS)
        return {**thinking, "budget_tokens": budget} if budget < cap_tokens else None
    return thinking


def _fit_effort(body: Body, effort: str, family: Family, unsent: list[str]) -> None:
    """Leave out an effort where the family has budgets in its place, else give it the family's name."""
    config = {name: value for name, value in body["output_config"].items() if name != _EFFORT}
    if not family.effort_budgets:
        config[_EFFORT] = clamp_value(EFFORT, effort, family)
    else:
        unsent.append("output_config.effort")
    if config:
        body["output_config"] = config
    else:
        del body["output_config"]


def _is_budget(thinking: object) -> bool:
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


def _effort(body: Mapping[str, Any]) -> str | None:
    config = body.get("output_config")
    effort = config.get(_EFFORT) if isinstance(config, dict) else None
    return effort if isinstance(effort, str) else None
