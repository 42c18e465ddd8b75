"""The hold that the next attempt of a call needs: its money, its tokens a minute, and the limits that apply. No I/O."""

from addon.calls.call_state import Call
from addon.calls.native_request import find_max_searches
from addon.store.protocol import HoldRequest
from policies.budgets import budget_limits
from policies.call_stages import Stage
from policies.completion_cap import find_completion_cap
from policies.field_rules import count_choices
from policies.ledger_row import make_interrupted_row
from policies.limits import limits_of
from policies.model import Model
from policies.money import RARE_KINDS
from policies.request_facts import RequestFacts, find_native_rare_kinds
from policies.route import Target
from policies.spend import NOT_METERED, MaxCost, compute_max_cost
from policies.token_limits import TokenRequest, find_budget_rates, find_likely_tokens, find_token_limits


def make_hold_request(call: Call, cap_tokens: int | None, typical_tokens: int | None = None) -> HoldRequest:
    """Return the hold that the next attempt of a call needs, and the limits that apply to it.

    ``typical_tokens`` is how long the answers of its model usually are, None where that is not known.
    """
    exchange, target, created_at = call.exchange, call.exchange.next_target, call.exchange.created_at
    workspace, key = exchange.workspace, exchange.key
    limits = limits_of(workspace, key, target.mode, created_at)
    if workspace.budgets and target.mode == "payg":
        limits += budget_limits(workspace, exchange.end_user, exchange.tags, created_at)
    return HoldRequest(
        id=exchange.id,
        created_at=created_at,
        workspace=workspace.id,
        key_id=key.id,
        max_cost=_max_cost(call, target, cap_tokens, is_protected=workspace.overage_protection),
        limits=limits,
        interrupted_row=make_interrupted_row(exchange),
        tokens=_find_tokens(call, target, cap_tokens, typical_tokens)
        if workspace.tpm or key.tpm or workspace.budgets
        else None,
    )


def _find_tokens(
    call: Call, target: Target, cap_tokens: int | None, typical_tokens: int | None
) -> TokenRequest | None:
    """Return what a call takes of limits a minute, once: with its first hold, for the model of that attempt."""
    exchange = call.exchange
    if exchange.stage is not Stage.ROUTED:
        return None
    limits = find_token_limits(exchange.workspace, exchange.key)
    if exchange.workspace.budgets:
        limits += find_budget_rates(exchange.workspace, exchange.end_user, exchange.tags)
    if not limits:
        return None
    counts_tokens = any(one.unit == "tokens" for one in limits)
    tokens = estimate_tokens(call, target.model, cap_tokens, typical_tokens) if counts_tokens else 0
    return TokenRequest(tokens, limits)


def estimate_tokens(call: Call, model: Model, cap_tokens: int | None, typical_tokens: int | None) -> int:
    """Return how many tokens a call likely uses with ``model``, prompt and answer together."""
    chat = call.chat
    cap = find_completion_cap(cap_tokens, model.max_completion_tokens)
    likely_tokens = find_likely_tokens(cap, chat.choices(model.family), typical_tokens)
    return chat.prompt_tokens(model.family) + likely_tokens


def _max_cost(call: Call, target: Target, cap_tokens: int | None, *, is_protected: bool) -> MaxCost:
    model, chat = target.model, call.chat
    if target.mode != "payg":
        return NOT_METERED
    if model.max_completion_tokens is None:
        raise RuntimeError(f"call {call.exchange.id}: a metered model is one of the catalog")
    # Only these may have other prices, and to look for them takes time.
    rare_kinds = RARE_KINDS & model.retail.own_kinds
    if rare_kinds:
        facts = RequestFacts(chat.model, chat.fields)
        rare_kinds &= find_native_rare_kinds(chat.native.body) if chat.native else facts.rare_kinds
    return compute_max_cost(
        model.retail,
        prompt_tokens=chat.prompt_tokens(model.family),
        cap_tokens=find_completion_cap(cap_tokens, model.max_completion_tokens),
        choices=count_choices(chat.fields, model.family),
        is_protected=is_protected,
        names_cap=chat.requested_cap is not None,
        uncapped_tokens=model.family.uncapped_completion_tokens,
        service_tier=chat.service_tier(target),
        rare_kinds=rare_kinds,
        max_searches=find_max_searches(call, model) if model.hosted_tools else model.max_searches,
    )
