"""Whether a call may be made for the money and the calls that are left, and how much is held for it meanwhile.

``place_hold`` is the rule; a store runs it in the same atomic step that writes the hold. ``addon/store/hold.lua`` says
the same for Redis, and a property test holds the two to each other.
Source: contract, "402 situations"; design of holds: docs/limits.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from policies.facts import Prices
from policies.limits import Counter, Limit, LimitKind
from policies.money import dearest_input_microusd_per_mtok
from policies.refusal import Refusal, RefusalCode

PICOUSD_PER_NANOUSD = 1_000

MAX_HOLD_NANOUSD = 10**15
"""A million USD: the most that is held for a call that no limit bounds. Nobody misses what is beyond it."""

DenialReason = LimitKind | Literal["budget", "budget_of_prompt"]


@dataclass(frozen=True, slots=True)
class Used:
    """What a counter stands at, and what the calls in flight hold of it."""

    spent_nanousd: int = 0
    requests: int = 0
    held_nanousd: int = 0
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class Want:
    """The most that a call may cost: its prompt, and ``token_picousd`` for each of ``cap_tokens`` (of all its choices).

    What no cap bounds stands with the prompt.

    ``is_protected``: overage protection may lower the cap to what is left, and refuses what does not fit.
    """

    prompt_nanousd: int
    token_picousd: int
    cap_tokens: int
    is_protected: bool


@dataclass(frozen=True, slots=True)
class Hold:
    """What is held for a call, and how many tokens each of its choices may then have."""

    amount_nanousd: int
    cap_tokens: int


@dataclass(frozen=True, slots=True)
class Denial:
    """The first limit that a call does not fit under."""

    reason: DenialReason


NOT_METERED = Want(0, 0, 1, is_protected=False)
"""What a call wants that is not metered."""


def wanted(
    prices: Prices,
    prompt_tokens: int,
    cap_tokens: int,
    choices: int,
    *,
    is_protected: bool,
    uncapped_tokens: int = 0,
) -> Want:
    """Return what a metered call of ``choices`` answers may cost at retail ``prices``, rounded up.

    ``uncapped_tokens`` are what the model's family may generate for each choice beyond its cap.
    """
    token_picousd = prices.output_microusd_per_mtok * choices
    prompt_picousd = prompt_tokens * dearest_input_microusd_per_mtok(prices)
    sure_picousd = prompt_picousd + uncapped_tokens * token_picousd
    return Want(_divide_up(sure_picousd, PICOUSD_PER_NANOUSD), token_picousd, cap_tokens, is_protected)


def place_hold(want: Want, limits: Sequence[Limit], used: Mapping[Counter, Used]) -> Hold | Denial:
    """Return the hold for ``want``, or the first of ``limits`` that forbids it.

    Without overage protection a limit that is reached refuses, counting the prompts of the calls in flight, and
    nothing is lowered: only the prompt is held. With it, the whole cost is held, so that calls in flight together can't
    pass a limit.
    """
    for limit in limits:
        if _is_reached(limit, used.get(limit.counter, _UNUSED), want.is_protected):
            return Denial(limit.kind)
    if not want.is_protected:
        return Hold(want.prompt_nanousd, want.cap_tokens)
    left = [_left_nanousd(limit, used) for limit in limits if limit.kind != "request_cap"]
    if not left:
        whole = _hold(want, want.cap_tokens)
        return Hold(min(whole.amount_nanousd, MAX_HOLD_NANOUSD), whole.cap_tokens)
    room_nanousd = min(left) - want.prompt_nanousd
    if room_nanousd < 0:
        return Denial("budget_of_prompt")
    if want.token_picousd == 0:
        return _hold(want, want.cap_tokens)
    budget_tokens = room_nanousd * PICOUSD_PER_NANOUSD // want.token_picousd
    return _hold(want, min(want.cap_tokens, budget_tokens)) if budget_tokens >= 1 else Denial("budget")


def refusal_of(denial: Denial) -> Refusal:
    """Return what a client is told of ``denial``."""
    code, message = _SAID[denial.reason]
    return Refusal(code, message)


_UNUSED = Used()

_SAID: Mapping[DenialReason, tuple[RefusalCode, str]] = MappingProxyType(
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
        "budget": ("payment_required", "Insufficient budget for this completion request."),
        "budget_of_prompt": (
            "payment_required",
            "Insufficient budget for this completion request: the estimated prompt cost exceeds the remaining cap.",
        ),
    }
)


def _is_reached(limit: Limit, used: Used, is_protected: bool) -> bool:
    if limit.kind == "request_cap":
        return used.requests + used.in_flight >= limit.most
    return used.spent_nanousd + (0 if is_protected else used.held_nanousd) >= limit.most


def _left_nanousd(limit: Limit, used: Mapping[Counter, Used]) -> int:
    counter = used.get(limit.counter, _UNUSED)
    return limit.most - counter.spent_nanousd - counter.held_nanousd


def _hold(want: Want, cap_tokens: int) -> Hold:
    completion_nanousd = _divide_up(cap_tokens * want.token_picousd, PICOUSD_PER_NANOUSD)
    return Hold(want.prompt_nanousd + completion_nanousd, cap_tokens)


def _divide_up(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
