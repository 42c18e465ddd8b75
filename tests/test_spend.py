"""Holds: which limit refuses a call, how far overage protection lowers its cap, and how much is held for it."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.facts import Prices, Usage
from policies.limits import Counter, Limit, LimitKind
from policies.money import cost_nanousd
from policies.spend import Denial, Hold, Used, Want, place_hold, refusal_of, wanted

USD = 10**9
COUNTERS: dict[LimitKind, Counter] = {
    "request_cap": Counter("key:acme/ci", "2026-11-21"),
    "spend_cap": Counter("key:acme/ci", "2026-11"),
    "wallet": Counter("wallet:acme", "ever"),
    "monthly_spend_cap": Counter("workspace:acme", "2026-11"),
}


def limit(kind: LimitKind, most: int) -> Limit:
    return Limit(kind, COUNTERS[kind], most)


def decide(want: Want, *limits: tuple[Limit, Used]) -> Hold | Denial:
    return place_hold(want, [one for one, _ in limits], {one.counter: used for one, used in limits})


WANT = Want(prompt_nanousd=1_000, token_picousd=624_000, cap_tokens=100, is_protected=True)
"""A prompt of 1,000 nano-USD, and 624 a token: 63,400 at most."""
LOOSE = Want(1_000, 624_000, 100, is_protected=False)
KEY, WALLET, MONTH = limit("spend_cap", 50_000), limit("wallet", 0), limit("monthly_spend_cap", 50_000)


@pytest.mark.parametrize(
    ("want", "limits", "decided"),
    [
        # Nothing limits: all that the call may cost is held.
        (WANT, [], Hold(63_400, 100)),
        (LOOSE, [], Hold(1_000, 100)),
        # Enough is left.
        (WANT, [(KEY, Used())], Hold(49_672, 78)),
        (WANT, [(limit("spend_cap", 63_400), Used())], Hold(63_400, 100)),
        (WANT, [(limit("spend_cap", 63_399), Used())], Hold(62_776, 99)),
        # The smallest rest decides, whichever it is.
        (WANT, [(KEY, Used()), (MONTH, Used(48_000))], Hold(1_624, 1)),
        (WANT, [(WALLET, Used(-1_700)), (MONTH, Used())], Hold(1_624, 1)),
        # Calls in flight count.
        (WANT, [(KEY, Used(0, 0, 47_000, 1))], Hold(2_872, 3)),
        (WANT, [(KEY, Used(0, 0, 48_400, 1))], Denial("budget")),
        # One token is the least that is worth a call.
        (WANT, [(limit("spend_cap", 1_624), Used())], Hold(1_624, 1)),
        (WANT, [(limit("spend_cap", 1_623), Used())], Denial("budget")),
        (WANT, [(limit("spend_cap", 1_000), Used())], Denial("budget")),
        (WANT, [(limit("spend_cap", 999), Used())], Denial("budget_of_prompt")),
        # Reached is reached, in the order of the checks.
        (WANT, [(KEY, Used(50_000))], Denial("spend_cap")),
        (WANT, [(KEY, Used(50_001))], Denial("spend_cap")),
        (WANT, [(KEY, Used(50_000)), (WALLET, Used())], Denial("spend_cap")),
        (WANT, [(KEY, Used()), (WALLET, Used()), (MONTH, Used(50_000))], Denial("wallet")),
        (WANT, [(WALLET, Used(-1)), (MONTH, Used(50_000))], Denial("monthly_spend_cap")),
        (WANT, [(limit("spend_cap", 0), Used())], Denial("spend_cap")),
        # Without overage protection nothing is lowered, and only prompts are held.
        (LOOSE, [(KEY, Used(49_999))], Hold(1_000, 100)),
        (LOOSE, [(KEY, Used(49_000, 0, 999, 1))], Hold(1_000, 100)),
        (LOOSE, [(KEY, Used(49_000, 0, 1_000, 1))], Denial("spend_cap")),
        (LOOSE, [(WALLET, Used(0))], Denial("wallet")),
        # Requests are counted with those in flight; money has nothing to do with them.
        (WANT, [(limit("request_cap", 3), Used(0, 1, 0, 1))], Hold(63_400, 100)),
        (WANT, [(limit("request_cap", 3), Used(0, 1, 0, 2))], Denial("request_cap")),
        (LOOSE, [(limit("request_cap", 0), Used())], Denial("request_cap")),
        # What costs nothing is not lowered.
        (Want(0, 0, 100, is_protected=True), [(KEY, Used(49_999))], Hold(0, 100)),
        (Want(0, 0, 100, is_protected=True), [(WALLET, Used(0))], Denial("wallet")),
    ],
)
def test_a_call_is_held_or_refused(
    want: Want, limits: list[tuple[Limit, Used]], decided: Hold | Denial
) -> None:
    assert decide(want, *limits) == decided


@pytest.mark.parametrize(
    ("reason", "code", "gist"),
    [
        ("request_cap", "rate_limit_exceeded", "request cap reached"),
        (
            "spend_cap",
            "payment_required",
            "API key credit limit reached; increase the limit or wait for the reset",
        ),
        ("wallet", "payment_required", "Insufficient API credits; top up"),
        ("monthly_spend_cap", "payment_required", "Monthly spend limit reached."),
        ("budget", "payment_required", "Insufficient budget for this completion request."),
        ("budget_of_prompt", "payment_required", "the estimated prompt cost exceeds the remaining cap"),
    ],
)
def test_a_refusal_says_what_the_contract_wants_said(reason: str, code: str, gist: str) -> None:
    refusal = refusal_of(Denial(reason))  # type: ignore[arg-type]
    assert refusal.code == code
    assert gist in refusal.message


def test_what_no_cap_bounds_is_held_with_the_prompt() -> None:
    prices = Prices(1_000_000, 1_000_000, 2_000_000)
    want = wanted(prices, 10, 100, 3, is_protected=True, uncapped_tokens=50)
    assert want == Want(10 * 1_000 + 50 * 3 * 2_000, 3 * 2_000_000, 100, is_protected=True)
    assert decide(want, (limit("wallet", 0), Used(-309_999))) == Denial("budget_of_prompt")


PRICES = st.builds(Prices, *[st.integers(0, 10**9)] * 3)


@given(PRICES, st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 8), st.data())
def test_no_answer_within_its_cap_costs_more_than_was_held(
    prices: Prices, prompt: int, cap: int, choices: int, data: st.DataObject
) -> None:
    hold = decide(wanted(prices, prompt, cap, choices, is_protected=True))
    assert isinstance(hold, Hold)
    usage = Usage(
        prompt_tokens=data.draw(st.integers(0, prompt)),
        completion_tokens=data.draw(st.integers(0, cap * choices)),
        cached_tokens=data.draw(st.integers(0, prompt)),
    )
    assert cost_nanousd(usage, prices, reasoning_beside=False) <= hold.amount_nanousd


WANTS = st.builds(
    Want,
    prompt_nanousd=st.integers(0, 10**12),
    token_picousd=st.integers(0, 10**12),
    cap_tokens=st.integers(1, 10**6),
    is_protected=st.just(True),
)
USED = st.builds(Used, *[st.integers(0, 10**13)] * 2, st.integers(0, 10**13), st.integers(0, 100))


@given(WANTS, st.lists(st.tuples(st.integers(0, 10**13), USED), max_size=3))
def test_with_overage_protection_what_is_held_fits_into_what_is_left(
    want: Want, rows: Sequence[tuple[int, Used]]
) -> None:
    kinds: list[LimitKind] = ["spend_cap", "wallet", "monthly_spend_cap"]
    limits = [(limit(kind, most), used) for kind, (most, used) in zip(kinds, rows, strict=False)]
    decided = decide(want, *limits)
    rest = [one.most - used.spent_nanousd - used.held_nanousd for one, used in limits]
    if isinstance(decided, Hold):
        assert all(decided.amount_nanousd <= left for left in rest)
        assert 1 <= decided.cap_tokens <= want.cap_tokens
        if decided.cap_tokens < want.cap_tokens:  # One token more would not have fitted.
            more = want.prompt_nanousd + Fraction((decided.cap_tokens + 1) * want.token_picousd, 1000)
            assert more > min(rest)
    else:
        least = want.prompt_nanousd + Fraction(want.token_picousd, 1000)
        reached = any(used.spent_nanousd >= one.most for one, used in limits)
        assert reached or least > min(rest)
