"""Holds: the limit that refuses a call, the cap under overage protection, and the amount that is held."""

from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from policies.limits import Counter, Limit, LimitKind
from policies.money import compute_costs_nanousd
from policies.prices import Prices
from policies.spend import (
    MIN_SHARE_TOKENS,
    CounterUse,
    Denial,
    DenialReason,
    Hold,
    MaxCost,
    compute_max_cost,
    make_denial_refusal,
    place_hold,
)
from policies.usage import Usage

USD = 10**9
COUNTERS: dict[LimitKind, Counter] = {
    "request_cap": Counter("key:acme/ci", "2026-11-21"),
    "spend_cap": Counter("key:acme/ci", "2026-11"),
    "wallet": Counter("wallet:acme", "ever"),
    "monthly_spend_cap": Counter("workspace:acme", "2026-11"),
}


def limit(kind: LimitKind, most: int) -> Limit:
    return Limit(kind, COUNTERS[kind], most)


def decide(max_cost: MaxCost, *limits: tuple[Limit, CounterUse]) -> Hold | Denial:
    return place_hold(max_cost, [one for one, _ in limits], {one.counter: used for one, used in limits})


MAX_COST = MaxCost(prompt_nanousd=1_000, token_picousd=624_000, cap_tokens=100, is_protected=True)
"""A prompt of 1,000 nano-USD, and 624 a token: 63,400 at most."""
LOOSE = MaxCost(1_000, 624_000, 100, is_protected=False)
KEY, WALLET, MONTH = limit("spend_cap", 50_000), limit("wallet", 0), limit("monthly_spend_cap", 50_000)


@pytest.mark.parametrize(
    ("max_cost", "limits", "decided"),
    [
        # Without a limit, all that the call may cost is held.
        (MAX_COST, [], Hold(63_400, 100)),
        (LOOSE, [], Hold(1_000, 100)),
        # Enough is left.
        (MAX_COST, [(KEY, CounterUse())], Hold(49_672, 78)),
        (MAX_COST, [(limit("spend_cap", 63_400), CounterUse())], Hold(63_400, 100)),
        (MAX_COST, [(limit("spend_cap", 63_399), CounterUse())], Hold(62_776, 99)),
        # The limit with the smallest rest decides.
        (MAX_COST, [(KEY, CounterUse()), (MONTH, CounterUse(48_000))], Hold(1_624, 1)),
        (MAX_COST, [(WALLET, CounterUse(-1_700)), (MONTH, CounterUse())], Hold(1_624, 1)),
        # Calls in flight count.
        (MAX_COST, [(KEY, CounterUse(0, 0, 47_000, 1))], Hold(2_872, 3)),
        (MAX_COST, [(KEY, CounterUse(0, 0, 48_400, 1))], "budget"),
        # A call needs at least one token.
        (MAX_COST, [(limit("spend_cap", 1_624), CounterUse())], Hold(1_624, 1)),
        (MAX_COST, [(limit("spend_cap", 1_623), CounterUse())], "budget"),
        (MAX_COST, [(limit("spend_cap", 1_000), CounterUse())], "budget"),
        (MAX_COST, [(limit("spend_cap", 999), CounterUse())], "budget_of_prompt"),
        # A limit that is reached refuses, in the order of the checks.
        (MAX_COST, [(KEY, CounterUse(50_000))], "spend_cap"),
        (MAX_COST, [(KEY, CounterUse(50_001))], "spend_cap"),
        (MAX_COST, [(KEY, CounterUse(50_000)), (WALLET, CounterUse())], "spend_cap"),
        (MAX_COST, [(KEY, CounterUse()), (WALLET, CounterUse()), (MONTH, CounterUse(50_000))], "wallet"),
        (MAX_COST, [(WALLET, CounterUse(-1)), (MONTH, CounterUse(50_000))], "monthly_spend_cap"),
        (MAX_COST, [(limit("spend_cap", 0), CounterUse())], "spend_cap"),
        # Without overage protection nothing is lowered, and only prompts are held.
        (LOOSE, [(KEY, CounterUse(49_999))], Hold(1_000, 100)),
        (LOOSE, [(KEY, CounterUse(49_000, 0, 999, 1))], Hold(1_000, 100)),
        (LOOSE, [(KEY, CounterUse(49_000, 0, 1_000, 1))], "spend_cap"),
        (LOOSE, [(WALLET, CounterUse(0))], "wallet"),
        # Requests include those in flight, and do not depend on money.
        (MAX_COST, [(limit("request_cap", 3), CounterUse(0, 1, 0, 1))], Hold(63_400, 100)),
        (MAX_COST, [(limit("request_cap", 3), CounterUse(0, 1, 0, 2))], "request_cap"),
        (LOOSE, [(limit("request_cap", 0), CounterUse())], "request_cap"),
        # A free call is not lowered.
        (MaxCost(0, 0, 100, is_protected=True), [(KEY, CounterUse(49_999))], Hold(0, 100)),
        (MaxCost(0, 0, 100, is_protected=True), [(WALLET, CounterUse(0))], "wallet"),
    ],
)
def test_a_call_is_held_or_refused(
    max_cost: MaxCost, limits: list[tuple[Limit, CounterUse]], decided: Hold | str
) -> None:
    found = decide(max_cost, *limits)
    assert (found.reason if isinstance(found, Denial) else found) == decided


NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY_S = 86_400


@pytest.mark.parametrize(
    ("reason", "of", "code", "gist", "after_s", "should_retry"),
    [
        ("request_cap", limit("request_cap", 1), "rate_limit_exceeded", "request cap reached", 1, None),
        (
            "spend_cap",
            KEY,
            "payment_required",
            "API key credit limit reached; increase the limit or wait for the reset",
            DAY_S // 2,
            None,
        ),
        (
            "spend_cap",
            Limit("spend_cap", Counter("key:acme/ci", "ever"), 1),
            "payment_required",
            "API key credit limit reached; increase the limit or wait for the reset",
            None,
            False,
        ),
        ("wallet", WALLET, "payment_required", "Insufficient API credits; top up", None, False),
        ("monthly_spend_cap", MONTH, "payment_required", "Monthly spend limit reached.", DAY_S // 2, None),
        (
            "budget",
            WALLET,
            "payment_required",
            "Insufficient budget for this completion request.",
            None,
            False,
        ),
        (
            "budget_of_prompt",
            MONTH,
            "payment_required",
            "the estimated prompt cost exceeds the remaining cap",
            DAY_S // 2,
            None,
        ),
    ],
)
def test_a_refusal_has_the_words_of_the_contract_and_the_time_of_a_retry(
    reason: DenialReason, of: Limit, code: str, gist: str, after_s: int | None, should_retry: bool | None
) -> None:
    refusal = make_denial_refusal(Denial(reason, of), NOON)
    assert refusal.code == code
    assert gist in refusal.message
    assert (refusal.retry_after_s, refusal.should_retry) == (after_s, should_retry)


@pytest.mark.parametrize(
    ("in_flight", "held_nanousd", "said"),
    [
        (12, 9_599_000_001, "12 calls in flight hold $9.60."),
        (1, 2 * USD, "1 call in flight holds $2.00."),
        (2, 1_234_500, "2 calls in flight hold $0.0012345."),
        (2, 9_999_999, "2 calls in flight hold $0.009999999."),
        (2, 10_000_000, "2 calls in flight hold $0.01."),
        (2, 10_000_001, "2 calls in flight hold $0.02."),
    ],
)
def test_a_refusal_for_the_calls_in_flight_says_so_and_allows_a_retry_after_a_second(
    in_flight: int, held_nanousd: int, said: str
) -> None:
    refusal = make_denial_refusal(Denial("budget", WALLET, in_flight, held_nanousd), NOON)
    assert refusal.message == f"Insufficient budget for this completion request. {said}"
    assert (refusal.retry_after_s, refusal.should_retry) == (1, True)


@pytest.mark.parametrize(
    ("max_cost", "limits", "denial"),
    [
        # Without the calls in flight there is enough, so they are the cause.
        (MAX_COST, [(KEY, CounterUse(0, 0, 48_400, 3))], Denial("budget", KEY, 3, 48_400)),
        (MAX_COST, [(KEY, CounterUse(0, 0, 49_500, 3))], Denial("budget_of_prompt", KEY, 3, 49_500)),
        (LOOSE, [(KEY, CounterUse(49_000, 0, 1_000, 2))], Denial("spend_cap", KEY, 2, 1_000)),
        # Also without them there is too little, so the spent amount is the cause.
        (MAX_COST, [(KEY, CounterUse(48_400, 0, 100, 3))], Denial("budget", KEY)),
        (LOOSE, [(KEY, CounterUse(50_000, 0, 1_000, 2))], Denial("spend_cap", KEY)),
        # Of several limits, the one without room.
        (
            MAX_COST,
            [(KEY, CounterUse()), (MONTH, CounterUse(0, 0, 49_000, 4))],
            Denial("budget", MONTH, 4, 49_000),
        ),
        # Of limits with equal rests, the first.
        (MAX_COST, [(KEY, CounterUse(49_000)), (MONTH, CounterUse(49_000))], Denial("budget", KEY)),
        (
            MAX_COST,
            [(KEY, CounterUse(0, 0, 49_999, 9)), (WALLET, CounterUse(-1_100))],
            Denial("budget_of_prompt", WALLET),
        ),
    ],
)
def test_a_denial_has_the_limit_without_room_and_the_calls_in_flight_that_cause_it(
    max_cost: MaxCost, limits: list[tuple[Limit, CounterUse]], denial: Denial
) -> None:
    assert decide(max_cost, *limits) == denial


OPEN = MaxCost(
    prompt_nanousd=1_000, token_picousd=1_000_000, cap_tokens=100_000, is_protected=True, names_cap=False
)
"""A thousand nano-USD a token, without a cap by the client."""


@pytest.mark.parametrize(
    ("left_nanousd", "cap_tokens"),
    [
        (10**9, 100_000),  # The catalog's maximum is less than a quarter.
        (80_004_000, 20_000),
        (20_000_000, 4_999),
        (16_388_000, 4_096),  # From here on a quarter pays for less than 4,096 tokens.
        (16_000_000, 4_096),
        (4_098_000, 4_096),
        (4_097_000, 4_096),
        (4_096_000, 4_095),
        (2_000, 1),
    ],
)
def test_a_call_that_names_no_cap_takes_a_quarter_of_what_is_left(left_nanousd: int, cap_tokens: int) -> None:
    decided = decide(OPEN, (WALLET, CounterUse(-left_nanousd)))
    assert isinstance(decided, Hold)
    assert decided.cap_tokens == cap_tokens
    named = decide(replace(OPEN, names_cap=True), (WALLET, CounterUse(-left_nanousd)))
    assert isinstance(named, Hold)
    assert named.cap_tokens == min(100_000, left_nanousd // 1_000 - 1)


def test_each_search_that_a_call_may_be_charged_for_is_held() -> None:
    prices = Prices(0, 0, 0, per_call_microusd_per_m=5_000_000, per_search_microusd_per_m=10_000_000_000)
    held = [
        compute_max_cost(prices, 10, 100, 1, is_protected=True, max_searches=searches).prompt_nanousd
        for searches in (0, 1, 7)
    ]
    assert held == [5_000, 10_005_000, 70_005_000]


def test_tokens_without_a_cap_are_held_with_the_prompt() -> None:
    prices = Prices(1_000_000, 1_000_000, 2_000_000)
    max_cost = compute_max_cost(prices, 10, 100, 3, is_protected=True, uncapped_tokens=50)
    assert max_cost == MaxCost(10 * 1_000 + 50 * 3 * 2_000, 3 * 2_000_000, 100, is_protected=True)
    found = decide(max_cost, (limit("wallet", 0), CounterUse(-309_999)))
    assert isinstance(found, Denial)
    assert found.reason == "budget_of_prompt"


PRICES = st.builds(Prices, *[st.integers(0, 10**9)] * 3)


@given(PRICES, st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 8), st.data())
def test_no_answer_within_its_cap_costs_more_than_its_hold(
    prices: Prices, prompt: int, cap: int, choices: int, data: st.DataObject
) -> None:
    hold = decide(compute_max_cost(prices, prompt, cap, choices, is_protected=True))
    assert isinstance(hold, Hold)
    usage = Usage(
        prompt_tokens=data.draw(st.integers(0, prompt)),
        completion_tokens=data.draw(st.integers(0, cap * choices)),
        cached_tokens=data.draw(st.integers(0, prompt)),
    )
    [cost_nanousd] = compute_costs_nanousd(usage, [prices], reasoning_beside=False)
    assert cost_nanousd <= hold.amount_nanousd


MAX_COSTS = st.builds(
    MaxCost,
    prompt_nanousd=st.integers(0, 10**12),
    token_picousd=st.integers(0, 10**12),
    cap_tokens=st.integers(1, 10**6),
    is_protected=st.just(True),
    names_cap=st.booleans(),
)
USED = st.builds(CounterUse, *[st.integers(0, 10**13)] * 2, st.integers(0, 10**13), st.integers(0, 100))


@given(MAX_COSTS, st.lists(st.tuples(st.integers(0, 10**13), USED), max_size=3))
def test_with_overage_protection_a_hold_fits_into_the_rest_of_a_limit(
    max_cost: MaxCost, rows: Sequence[tuple[int, CounterUse]]
) -> None:
    kinds: list[LimitKind] = ["spend_cap", "wallet", "monthly_spend_cap"]
    limits = [(limit(kind, most), used) for kind, (most, used) in zip(kinds, rows, strict=False)]
    decided = decide(max_cost, *limits)
    rest = [one.maximum - used.spent_nanousd - used.held_nanousd for one, used in limits]
    if isinstance(decided, Hold):
        assert all(decided.amount_nanousd <= left for left in rest)
        assert 1 <= decided.cap_tokens <= max_cost.cap_tokens
        is_share = not max_cost.names_cap and decided.cap_tokens >= MIN_SHARE_TOKENS
        if is_share and decided.cap_tokens > MIN_SHARE_TOKENS:
            assert (
                decided.amount_nanousd <= -(-min(rest, default=0) // 4)
                or decided.cap_tokens == max_cost.cap_tokens
            )
        if decided.cap_tokens < max_cost.cap_tokens and not is_share:  # One token more would not have fitted.
            more = max_cost.prompt_nanousd + Fraction((decided.cap_tokens + 1) * max_cost.token_picousd, 1000)
            assert more > min(rest)
    else:
        least = max_cost.prompt_nanousd + Fraction(max_cost.token_picousd, 1000)
        reached = any(used.spent_nanousd >= one.maximum for one, used in limits)
        assert reached or least > min(rest)
