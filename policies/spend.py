"""Holds: whether the limits have room for a call, and how much money is held while it is in flight.

``place_hold`` is the rule. A store runs it in the same atomic step that writes the hold.
``addon/store/redis/lua/hold.lua`` is the same rule for Redis, and a property test compares the two.
Source: contract, "402 situations"; docs/limits.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct

from policies.budgets import describe_value, parse_scope
from policies.limits import Counter, Limit, LimitKind, seconds_to_reset
from policies.money import PICOUSD_PER_NANOUSD, RARE_KINDS, find_dearest, format_nanousd
from policies.prices import MAX_SEARCHES, Prices
from policies.refusal import Refusal, RefusalCode

MAX_HOLD_NANOUSD = 10**15
"""A million USD: the most that is held for a call without limits. More would serve no purpose."""

MAX_ROOM_NANOUSD: Final = 2**53
"""Nine million USD: the most that counts as left of a limit, because Redis counts exactly up to there."""

MIN_SHARE_TOKENS: Final = 4_096
"""The least that a call without a cap may use, if so much is left, even where a quarter of the rest is less."""

DenialReason = LimitKind | Literal["budget", "budget_of_prompt"]


class CounterUse(Struct, frozen=True, gc=False):
    """The value of a counter, and what the calls in flight hold of it."""

    spent_nanousd: int = 0
    requests: int = 0
    held_nanousd: int = 0
    in_flight: int = 0


class MaxCost(Struct, frozen=True, gc=False):
    """The most that a call may cost: ``prompt_nanousd``, and ``token_picousd`` for each of ``cap_tokens``.

    ``token_picousd`` is the price of one token in each choice. Tokens that no cap bounds are part of
    ``prompt_nanousd``. ``is_protected``: overage protection may lower the cap to what is left, and refuses a call that
    does not fit. ``names_cap``: the client set a cap; else a share of what is left is enough.
    """

    prompt_nanousd: int
    token_picousd: int
    cap_tokens: int
    is_protected: bool
    names_cap: bool = True


class Hold(Struct, frozen=True, gc=False):
    """The amount that is held for a call, and the tokens that each of its choices may have.

    ``budgets`` has the scopes of the budgets that pay for it, as ``budgets.encode_scopes``; None for none.
    """

    amount_nanousd: int
    cap_tokens: int
    budgets: str | None = None


class Denial(Struct, frozen=True, gc=False):
    """The first limit that has no room for a call.

    Where only the calls in flight leave no room, ``in_flight`` is their number, and ``held_nanousd`` is what they hold
    of this limit. Else both are 0.
    """

    reason: DenialReason
    limit: Limit
    in_flight: int = 0
    held_nanousd: int = 0


NOT_METERED = MaxCost(0, 0, 1, is_protected=False)
"""For a call that is not metered."""


def compute_max_cost(
    prices: Prices,
    prompt_tokens: int,
    cap_tokens: int,
    choices: int,
    *,
    is_protected: bool,
    names_cap: bool = True,
    uncapped_tokens: int = 0,
    service_tier: str | None = None,
    rare_kinds: Iterable[str] = RARE_KINDS,
    max_searches: int = MAX_SEARCHES,
) -> MaxCost:
    """Return the most that a metered call of ``choices`` answers may cost at retail ``prices``, rounded up.

    ``names_cap`` is as in ``MaxCost``. ``uncapped_tokens`` are those that each choice may have beyond its cap.
    ``service_tier``, ``rare_kinds`` and ``max_searches`` are as for ``find_dearest``.
    """
    dearest = find_dearest(prices, prompt_tokens, service_tier, rare_kinds, max_searches)
    token_picousd = dearest.output_microusd_per_mtok * choices
    prompt_picousd = prompt_tokens * dearest.input_microusd_per_mtok + dearest.call_microusd_per_m
    uncapped_picousd = prompt_picousd + uncapped_tokens * token_picousd
    prompt_nanousd = -(-uncapped_picousd // PICOUSD_PER_NANOUSD)  # rounded up
    return MaxCost(prompt_nanousd, token_picousd, cap_tokens, is_protected, names_cap)


def place_hold(
    max_cost: MaxCost, limits: Sequence[Limit], used: Mapping[Counter, CounterUse]
) -> Hold | Denial:
    """Return the hold for ``max_cost``, or the denial of the first of ``limits`` that has no room.

    | overage protection | refuses a call | holds | the cap |
    |---|---|---|---|
    | off | where a limit is reached, with the prompts of the calls in flight counted | the prompt | stays |
    | on | where a limit is reached, or not even one token fits | the whole cost | is lowered to what is left |

    With protection, calls in flight together can't exceed a limit. A call without a cap gets a quarter of what is left,
    or ``MIN_SHARE_TOKENS``, so that later calls have room, too.
    """
    room_nanousd, tightest = 0, None  # The limit with the least left bounds the cap.
    for limit in limits:
        use = used.get(limit.counter, _UNUSED)
        if limit.kind == "request_cap":
            if use.requests + use.in_flight >= limit.maximum:
                return Denial(limit.kind, limit)
            continue
        unspent_nanousd = limit.maximum - use.spent_nanousd
        if unspent_nanousd <= 0:
            return Denial(limit.kind, limit)
        if not max_cost.is_protected and unspent_nanousd <= use.held_nanousd:
            return Denial(limit.kind, limit, use.in_flight, use.held_nanousd)
        left_nanousd = min(unspent_nanousd, MAX_ROOM_NANOUSD) - use.held_nanousd
        if tightest is None or left_nanousd < room_nanousd:
            room_nanousd, tightest = left_nanousd, limit
    if tightest is None or not max_cost.is_protected:
        return _hold_in_full(max_cost)
    if reason := _find_shortage(max_cost, room_nanousd):
        return _deny(max_cost, reason, limits, tightest, used)
    return _hold(max_cost, _cap_within(max_cost, room_nanousd))


def make_denial_refusal(denial: Denial, now: datetime, *, note: str = "") -> Refusal:
    """Return the refusal for ``denial`` at ``now`` (UTC), with a ``note`` and the time of a retry."""
    code, message = _MESSAGES[denial.reason]
    if denial.limit.kind == "budget_cap":
        budget = _describe_budget(denial.limit)
        message = message.format(budget) if denial.reason == "budget_cap" else f"{message} It is {budget}."
    message = f"{message.removesuffix('.')}; {note}." if note else message
    if denial.in_flight:
        calls = "1 call" if denial.in_flight == 1 else f"{denial.in_flight} calls"
        held = f"{calls} in flight hold{'s' * (denial.in_flight == 1)} ${_cents(denial.held_nanousd)}"
        return Refusal(code, f"{message} {held}.", retry_after_s=1, should_retry=True)
    reset_s = seconds_to_reset(denial.limit.counter.period, now)
    return Refusal(code, message, retry_after_s=reset_s, should_retry=None if reset_s else False)


_UNUSED = CounterUse()

_MESSAGES: Mapping[DenialReason, tuple[RefusalCode, str]] = MappingProxyType(
    {
        "request_cap": (
            "rate_limit_exceeded",
            "API key request cap reached; raise the cap or wait for the reset cycle.",
        ),
        "spend_cap": (
            "payment_required",
            "API key credit limit reached; increase the limit or wait for the reset cycle.",
        ),
        "wallet": ("payment_required", "Insufficient API credits; top up the workspace's wallet."),
        "monthly_spend_cap": ("payment_required", "Monthly spend limit reached."),
        "budget_cap": (
            "payment_required",
            "Spend limit reached: {} is used up; raise its spend_cap_usd or wait for the reset cycle.",
        ),
        "budget": ("payment_required", "Insufficient budget for this completion request."),
        "budget_of_prompt": (
            "payment_required",
            "Insufficient budget for this completion request: the estimated prompt cost exceeds the remaining cap.",
        ),
    }
)


def _describe_budget(limit: Limit) -> str:
    """Return a budget and its value in words: ``the budget of user "ann"``."""
    _, budget, _, value = parse_scope(limit.counter.scope)
    return f"the budget of {describe_value(budget, value)}"


def _hold_in_full(max_cost: MaxCost) -> Hold:
    """Return the hold of a call that keeps its cap: it has no limit on money, or no overage protection."""
    if not max_cost.is_protected:
        return Hold(max_cost.prompt_nanousd, max_cost.cap_tokens)
    whole = _hold(max_cost, max_cost.cap_tokens)
    return Hold(min(whole.amount_nanousd, MAX_HOLD_NANOUSD), whole.cap_tokens)


def _find_shortage(max_cost: MaxCost, room_nanousd: int) -> DenialReason | None:
    """Return why ``room_nanousd`` is too little for a call, None where it is enough: the prompt and one token fit."""
    if room_nanousd < max_cost.prompt_nanousd:
        return "budget_of_prompt"
    room_picousd = (room_nanousd - max_cost.prompt_nanousd) * PICOUSD_PER_NANOUSD
    return "budget" if room_picousd < max_cost.token_picousd else None


def _deny(
    max_cost: MaxCost,
    reason: DenialReason,
    limits: Sequence[Limit],
    tightest: Limit,
    used: Mapping[Counter, CounterUse],
) -> Denial:
    """Return the denial for missing money: because of the calls in flight, or of the limit with the least left."""
    unspent_nanousd = {
        limit: min(limit.maximum - used.get(limit.counter, _UNUSED).spent_nanousd, MAX_ROOM_NANOUSD)
        for limit in limits
        if limit.kind != "request_cap"
    }
    scarcest = min(unspent_nanousd, key=unspent_nanousd.__getitem__)
    if _find_shortage(max_cost, unspent_nanousd[scarcest]):
        return Denial(reason, scarcest)
    use = used.get(tightest.counter, _UNUSED)
    return Denial(reason, tightest, use.in_flight, use.held_nanousd)


def _cap_within(max_cost: MaxCost, room_nanousd: int) -> int:
    """Return the cap with which the call fits into ``room_nanousd``. The prompt and one token do fit."""
    prompt_nanousd, token_picousd = max_cost.prompt_nanousd, max_cost.token_picousd
    if token_picousd == 0:
        return max_cost.cap_tokens
    most_tokens = (room_nanousd - prompt_nanousd) * PICOUSD_PER_NANOUSD // token_picousd
    if not max_cost.names_cap:
        share_tokens = (room_nanousd // 4 - prompt_nanousd) * PICOUSD_PER_NANOUSD // token_picousd
        most_tokens = min(most_tokens, max(share_tokens, MIN_SHARE_TOKENS))
    return min(max_cost.cap_tokens, most_tokens)


def _hold(max_cost: MaxCost, cap_tokens: int) -> Hold:
    completion_picousd = cap_tokens * max_cost.token_picousd
    completion_nanousd = -(-completion_picousd // PICOUSD_PER_NANOUSD)  # rounded up
    return Hold(max_cost.prompt_nanousd + completion_nanousd, cap_tokens)


def _cents(amount_nanousd: int) -> str:
    """Return an amount in USD with two decimals, rounded up. An amount below one cent stays exact."""
    cent_nanousd = 10**7
    if amount_nanousd < cent_nanousd:
        return format_nanousd(amount_nanousd)
    return format_nanousd(-(-amount_nanousd // cent_nanousd) * cent_nanousd)
