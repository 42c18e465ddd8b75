"""Each sample agrees with a ledger that was made for it. Each difference is found by its name and its amount."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.reconcile.causes import (
    END_OF_DAY,
    MISSING,
    OTHER_KIND,
    OUTSIDE,
    ROUNDING,
    STALE_PRICE,
    TOOLS,
    UNKNOWN,
    WRONG_TIER,
    explain_group,
    value_of,
)
from addon.reconcile.comparison import Comparison, compare
from addon.reconcile.export_line import KINDS, Export, ExportError, ExportLine, Tokens
from addon.reconcile.formats import read_export
from addon.reconcile.ledger_call import (
    ESTIMATED,
    FAILED,
    RESENT,
    WAS_INTERRUPTED,
    ZERO,
    CallSums,
    LedgerCall,
    ModelPrices,
    tokens_of,
)
from addon.reconcile.plan import make_plan
from addon.reconcile.vendor_sums import VendorSums, compute_nanousd
from unit.reconcile.test_formats import MAPPINGS, SAMPLES_READ, read, sample

# The prices that the samples are made with, in micro-USD per million tokens.
PRICES = {
    "gpt-5.6-terra": Tokens(2_000_000, 200_000, 2_500_000, 12_000_000),
    "gpt-5.4": Tokens(2_500_000, 250_000, 2_500_000, 15_000_000),
    "claude-sonnet-5-5": Tokens(2_000_000, 100_000, 2_500_000, 10_000_000),
    "claude-haiku-5-5": Tokens(100_000, 10_000, 125_000, 500_000),
    "gemini-3.8-flash": Tokens(750_000, 75_000, 750_000, 3_750_000),
    "nousresearch/hermes-4-405b": Tokens(1_000_000, 200_000, 1_000_000, 3_000_000),
    "deepseek-flash": Tokens(300_000, 6_000, 300_000, 1_200_000),
}
OPENAI = ("gpt-5.6-terra", "gpt-5.4")


def call(model: str, tokens: Tokens, cost_nanousd: int | None = None, **changes: Any) -> LedgerCall:
    """Return a call of 2026-10-14 at the prices of its model."""
    facts: dict[str, Any] = {
        "created_at": "2026-10-14T17:00:00.000+00:00",
        "duration_ms": 1_000,
        "model_slug": f"our-{model}",
        "upstream_model_id": model,
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.output,
        "cached_tokens": tokens.cached_input,
        "cache_write_tokens": tokens.cache_write,
        "reasoning_tokens": None,
        "usage_source": "provider",
        "status": 200,
        "error_code": None,
        "resends": 0,
        "wholesale_nanousd": compute_nanousd(tokens, PRICES[model]) if cost_nanousd is None else cost_nanousd,
    }
    return LedgerCall(**facts | changes)


def unbilled(model: str, **changes: Any) -> LedgerCall:
    """Return a call without counts."""
    nothing = dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens"))
    return call(model, Tokens(), **nothing | {"usage_source": "none"} | changes)


TERRA_A = call("gpt-5.6-terra", Tokens(1_200_000, 800_000, 200_000, 150_000))
TERRA_B = call("gpt-5.6-terra", Tokens(50_000, 0, 0, 10_000), 440_000_000)
LONG = call("gpt-5.4", Tokens(300_000, 0, 0, 1_000), 1_522_500_000)
SONNET = call("claude-sonnet-5-5", Tokens(1_500_000, 2_000_000, 400_000, 200_000), 6_350_000_000)
HAIKU = call("claude-haiku-5-5", Tokens(150_000, 0, 0, 2_000), 80_000_000)
FLASH = [
    call("gemini-3.8-flash", Tokens(1_000_000, 400_000, 0, 120_000)),
    call("gemini-3.8-flash", Tokens(0, 0, 0, 8_000), 15_000_000),
]
HERMES = [
    call("nousresearch/hermes-4-405b", Tokens(1_000, 0, 0, 200)),
    call("nousresearch/hermes-4-405b", Tokens(400, 500, 0, 0)),
]
DEEPSEEK = [call("deepseek-flash", Tokens(2_000, 1_000, 0, 500))]

_VENDORS: Mapping[str, Sequence[LedgerCall]] = {
    "openai": [TERRA_A, TERRA_B, LONG],
    "anthropic": [SONNET, HAIKU],
    "google": FLASH,
    "openrouter": HERMES,
    "deepseek": DEEPSEEK,
}
LEDGERS = {name: _VENDORS[name.partition("_")[0]] for name in SAMPLES_READ}


def compared(
    calls: Sequence[LedgerCall],
    *exports: Export,
    month: str | None = None,
    keys: Sequence[str] = (),
    **more: Any,
) -> Comparison:
    prices = {f"our-{model}": ModelPrices(base) for model, base in PRICES.items()} | more.get("prices", {})
    places = {model: f"our-{model}" for model in PRICES}
    plan = make_plan(exports, month, keys)
    return compare(exports, calls, plan, prices, places, more.get("aliases", {}))


def causes_of(comparison: Comparison) -> dict[str, int]:
    return {cause: amount for cause, (amount, _) in comparison.sum_causes().items()}


def without_rounding(comparison: Comparison) -> dict[str, int]:
    return {cause: amount for cause, amount in causes_of(comparison).items() if cause != ROUNDING}


@pytest.mark.parametrize("name", SAMPLES_READ)
def test_a_sample_agrees_with_the_ledger_that_was_made_for_it(name: str) -> None:
    comparison = compared(LEDGERS[name], read(name))
    expected = {TOOLS: 120_000_000} if name == "anthropic_cost_report.json" else {}
    assert without_rounding(comparison) == expected
    assert sum(group.ledger_calls for group in comparison.groups) == len(LEDGERS[name])
    if "cost.csv" not in name or "anthropic" not in name:
        assert causes_of(comparison) == expected


def test_cents_of_each_row_are_rounding() -> None:
    comparison = compared([SONNET, HAIKU], read("anthropic_cost.csv"))
    assert causes_of(comparison) == {ROUNDING: 10_000_000}
    assert comparison.unsettled_nanousd == 0


def without_counts_of_calls(export: Export) -> Export:
    lines = [replace(line, requests=None) for line in export.lines]
    return replace(export, lines=lines)


def halves(one: LedgerCall) -> tuple[LedgerCall, LedgerCall]:
    """Return a call as two. The samples have even counts."""
    counts = {name: getattr(one, name) // 2 for name in COUNTS}
    half = one._replace(**counts, wholesale_nanousd=one.wholesale_nanousd // 2)
    return half, half


COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
NO_COUNTS: dict[str, Any] = {**dict.fromkeys(COUNTS), "usage_source": "none", "wholesale_nanousd": 0}
# What becomes of the second half of a call, and of the first one.
CALLS_THAT_DIFFER: dict[str, tuple[dict[str, Any] | None, dict[str, Any]]] = {
    RESENT: (None, {"resends": 1}),
    WAS_INTERRUPTED: (NO_COUNTS | {"status": 499, "error_code": "interrupted"}, {}),
    ZERO: (NO_COUNTS, {}),
    FAILED: (NO_COUNTS | {"status": 504, "error_code": "timeout"}, {}),
    OUTSIDE: (None, {}),
}
ONLY_COSTS = {"anthropic_cost.csv", "anthropic_cost_report.json", "deepseek_cost.csv"}


@pytest.mark.parametrize("cause", CALLS_THAT_DIFFER)
@pytest.mark.parametrize("name", SAMPLES_READ)
def test_calls_that_a_vendor_counted_otherwise_are_found_by_name(name: str, cause: str) -> None:
    first, *others = LEDGERS[name]
    kept, gone = halves(first)
    second, changes = CALLS_THAT_DIFFER[cause]
    calls = [kept._replace(**changes), *others] + ([gone._replace(**second)] if second is not None else [])
    found = without_rounding(compared(calls, without_counts_of_calls(read(name))))
    found.pop(TOOLS, None)
    # A cost alone does not prove that calls are missing.
    expected = UNKNOWN if cause == OUTSIDE and name in ONLY_COSTS else cause
    # Without a cost, tokens are valued at the base price.
    prices = PRICES[first.upstream_model_id]
    amount = gone.wholesale_nanousd if read_costs(name) else compute_nanousd(tokens_of(gone, False), prices)
    assert list(found) == [expected]
    assert found[expected] == pytest.approx(amount, abs=30_000_000 if name == "anthropic_cost.csv" else 0)


def read_costs(name: str) -> int:
    return SAMPLES_READ[name][1]


@pytest.mark.parametrize("name", sorted(set(SAMPLES_READ) - ONLY_COSTS))
def test_a_stream_that_was_left_and_estimated_is_found_by_name(name: str) -> None:
    first, *others = LEDGERS[name]
    kept, left = halves(first)
    for factor in (0.8, 1.25):
        output = int((left.completion_tokens or 0) * factor)
        price = PRICES[first.upstream_model_id].output
        cost = (output - (left.completion_tokens or 0)) * price // 1000
        estimated = left._replace(
            completion_tokens=output,
            usage_source="estimated",
            wholesale_nanousd=left.wholesale_nanousd + cost,
        )
        found = compared([kept, *others, estimated], without_counts_of_calls(read(name)))
        assert causes_of(found) == {ESTIMATED: -cost}


def test_the_vendors_count_of_calls_bounds_what_was_resent_and_proves_what_passed_by() -> None:
    both = read("openrouter_activity.json")
    assert without_rounding(compared([HERMES[1]], both)) == {OUTSIDE: 1_600_000}
    bigger = replace(
        both, lines=[replace(both.lines[0], cost_nanousd=3_700_000, tokens=Tokens(2_900, 0, 0, 400))]
    )
    resent = [HERMES[0]._replace(resends=1), HERMES[1]]
    assert without_rounding(compared(resent, bigger)) == {UNKNOWN: 1_600_000}
    counted = replace(bigger, lines=[replace(bigger.lines[0], requests=3)])
    assert without_rounding(compared(resent, counted)) == {RESENT: 1_600_000}


WRONG_TIERS = {
    "openai_costs.json": ([TERRA_A, TERRA_B, LONG._replace(wholesale_nanousd=765_000_000)], 757_500_000),
    "openai_cost.csv": ([TERRA_A, TERRA_B, LONG._replace(wholesale_nanousd=765_000_000)], 757_500_000),
    "anthropic_cost_report.json": ([SONNET._replace(wholesale_nanousd=6_200_000_000), HAIKU], 150_000_000),
    "google_reports.csv": ([FLASH[0], FLASH[1]._replace(wholesale_nanousd=30_000_000)], -15_000_000),
    "google_cost_table.csv": ([FLASH[0], FLASH[1]._replace(wholesale_nanousd=30_000_000)], -15_000_000),
}


@pytest.mark.parametrize("name", WRONG_TIERS)
def test_a_tier_that_the_ledger_did_not_price_is_found_by_name(name: str) -> None:
    calls, amount = WRONG_TIERS[name]
    found = without_rounding(compared(calls, read(name)))
    found.pop(TOOLS, None)
    assert found == {WRONG_TIER: amount}


def test_a_service_tier_of_the_usage_names_the_cost_of_a_line_without_a_tier() -> None:
    base = TERRA_B._replace(wholesale_nanousd=220_000_000)
    costs, usage = read("openai_costs.json"), read("openai_usage_completions.json")
    assert without_rounding(compared([TERRA_A, base, LONG], costs, usage)) == {WRONG_TIER: 220_000_000}
    assert without_rounding(compared([TERRA_A, base, LONG], costs)) == {STALE_PRICE: 220_000_000}


def test_a_unit_price_of_a_known_tier_is_found_without_its_name() -> None:
    calls = [SONNET, HAIKU._replace(wholesale_nanousd=16_000_000)]
    tier = ModelPrices(PRICES["claude-haiku-5-5"], others=[Tokens(500_000, 50_000, 625_000, 2_500_000)])
    both = read("anthropic_cost_report.json"), read("anthropic_usage_messages.json")
    known = without_rounding(compared(calls, *both, prices={"our-claude-haiku-5-5": tier}))
    assert known == {WRONG_TIER: 64_000_000, TOOLS: 120_000_000}
    assert without_rounding(compared(calls, *both)) == {STALE_PRICE: 64_000_000, TOOLS: 120_000_000}


def test_a_tier_without_a_name_is_found_among_calls_of_both_tiers() -> None:
    """The vendor has one line for a short call and a long one, which the ledger priced as a short one."""
    short = call("claude-haiku-5-5", Tokens(50_000, 0, 0, 2_000))
    long = call("claude-haiku-5-5", Tokens(150_000, 0, 0, 2_000))
    tiers = ModelPrices(
        PRICES["claude-haiku-5-5"],
        others=[Tokens(500_000, 50_000, 625_000, 2_500_000)],
        long_prompt_tokens=100_000,
    )
    lines = [
        ExportLine("2026-10-14", "claude-haiku-5-5", tokens=Tokens(200_000, 0, 0, 4_000)),
        ExportLine("2026-10-14", "claude-haiku-5-5", kind="input", cost_nanousd=80_000_000),
        ExportLine("2026-10-14", "claude-haiku-5-5", kind="output", cost_nanousd=6_000_000),
    ]
    export = Export("x", lines, frozenset({"2026-10-14"}))
    known = {"our-claude-haiku-5-5": tiers}
    assert causes_of(compared([short, long], export, prices=known)) == {WRONG_TIER: 64_000_000}
    # Without a long prompt, it is a price.
    shorts = [short, *halves(short._replace(prompt_tokens=150_000, wholesale_nanousd=16_000_000))]
    assert causes_of(compared(shorts, export, prices=known)) == {STALE_PRICE: 64_000_000}


def test_a_stale_price_of_a_kind_that_also_has_a_tier_is_found_by_name() -> None:
    lines = [
        ExportLine("2026-10-14", "claude-sonnet-5-5", tokens=Tokens(0, 0, 1_000_000, 0)),
        ExportLine("2026-10-14", "claude-sonnet-5-5", tier="1h cache", tokens=Tokens(0, 0, 500_000, 0)),
        ExportLine("2026-10-14", "claude-sonnet-5-5", kind="cache_write", cost_nanousd=2_600_000_000),
        ExportLine(
            "2026-10-14", "claude-sonnet-5-5", None, "1h cache", "cache_write", cost_nanousd=2_000_000_000
        ),
    ]
    written = call("claude-sonnet-5-5", Tokens(0, 0, 1_500_000, 0))
    found = causes_of(compared([written], Export("x", lines, frozenset({"2026-10-14"}))))
    assert found == {STALE_PRICE: 100_000_000, WRONG_TIER: 750_000_000}


WITH_COSTS = sorted(name for name in SAMPLES_READ if read_costs(name) and name not in ONLY_COSTS)


@pytest.mark.parametrize("name", WITH_COSTS)
def test_a_stale_price_is_found_by_name(name: str) -> None:
    """The catalog and the ledger have a price that is a tenth too high, of a call without a tier."""
    first, *others = LEDGERS[name]
    model = first.upstream_model_id
    dear = Tokens(*(price * 11 // 10 for price in PRICES[model]))
    same = [one for one in others if one.upstream_model_id == model]
    tiers = [
        one for one in same if one.wholesale_nanousd != compute_nanousd(tokens_of(one, False), PRICES[model])
    ]
    calls = [
        one if one in tiers else one._replace(wholesale_nanousd=one.wholesale_nanousd * 11 // 10)
        for one in [first, *same]
    ]
    rest = [one for one in others if one not in same]
    found = without_rounding(compared(calls + rest, read(name), prices={first.model_slug: ModelPrices(dear)}))
    too_much = sum(one.wholesale_nanousd for one in calls) - sum(
        one.wholesale_nanousd for one in [first, *same]
    )
    assert sum(found.values()) == -too_much
    assert set(found) <= {STALE_PRICE, WRONG_TIER}
    assert STALE_PRICE in found


@pytest.mark.parametrize("name", SAMPLES_READ)
def test_a_call_that_the_vendor_does_not_have_is_found_by_name(name: str) -> None:
    other = "gpt-5.4" if "openai" not in name else "deepseek-flash"
    extra = call(other, Tokens(1_000, 0, 0, 100))
    found = without_rounding(compared([*LEDGERS[name], extra], read(name)))
    assert found.pop(MISSING) == -extra.wholesale_nanousd
    assert set(found) <= {TOOLS}


def test_a_call_across_midnight_is_found_by_name() -> None:
    late = call(
        "gpt-5.6-terra",
        Tokens(1_000, 0, 0, 100),
        created_at="2026-10-14T23:59:59.000+00:00",
        duration_ms=2_000,
    )
    comparison = compared([*LEDGERS["openai_costs.json"], late], read("openai_costs.json"))
    assert causes_of(comparison) == {END_OF_DAY: -late.wholesale_nanousd}
    before = TERRA_B._replace(created_at="2026-10-13T23:59:59.000+00:00", duration_ms=2_000)
    comparison = compared([TERRA_A, before, LONG], read("openai_costs.json"))
    assert causes_of(comparison) == {END_OF_DAY: 220_000_000, STALE_PRICE: 220_000_000}


def test_tokens_of_another_kind_are_found_by_name() -> None:
    uncached = TERRA_A._replace(cached_tokens=0)
    amount = 800_000 * 1_800_000 // 1000
    costly = uncached._replace(wholesale_nanousd=TERRA_A.wholesale_nanousd + amount)
    assert causes_of(compared([costly, TERRA_B, LONG], read("openai_costs.json"))) == {OTHER_KIND: -amount}


def test_lines_of_other_keys_did_not_pass_the_gateway() -> None:
    export = read("openai_costs.json")
    comparison = compared([TERRA_A], export, keys=["key_a1"])
    assert causes_of(comparison) == {OUTSIDE: 440_000_000 + 1_522_500_000}
    assert {group.key for group in comparison.groups if group.causes} == {"key_b2"}


def test_a_day_of_google_is_a_day_of_the_pacific() -> None:
    late = FLASH[1]._replace(created_at="2026-10-15T06:59:59.999+00:00")
    assert causes_of(compared([FLASH[0], late], read("google_reports.csv"))) == {}
    later = FLASH[1]._replace(created_at="2026-10-15T07:00:00.000+00:00")
    assert OUTSIDE in causes_of(compared([FLASH[0], later], read("google_reports.csv")))


def test_a_model_may_have_another_name() -> None:
    renamed = [one._replace(upstream_model_id="terra") for one in (TERRA_A, TERRA_B)]
    export = read("openai_costs.json")
    assert set(causes_of(compared([*renamed, LONG], export))) == {OUTSIDE, MISSING}
    assert causes_of(compared([*renamed, LONG], export, aliases={"gpt-5.6-terra": "terra"})) == {}


def test_tokens_without_a_cost_and_without_a_price_are_not_valued() -> None:
    line = ExportLine("2026-10-14", "never-heard-of", tokens=Tokens(1, 0, 0, 0))
    [group] = compared([], Export("x", [line], frozenset({"2026-10-14"}))).groups
    assert not group.is_valued


def test_costs_that_the_provider_reported_call_by_call_prove_a_wrong_price() -> None:
    """Also without any tokens, and where calls of the ledger could explain the difference otherwise."""
    line = ExportLine("2026-10-14", HERMES[0].upstream_model_id, cost_nanousd=2_500_000)
    export = Export("x", [line], frozenset({"2026-10-14"}))
    reported = [
        HERMES[0]._replace(reported_nanousd=2_000_000, resends=1),
        HERMES[1]._replace(reported_nanousd=500_000),
    ]
    assert causes_of(compared(reported, export)) == {STALE_PRICE: 400_000}
    assert causes_of(compared([reported[0], HERMES[1]], export)) == {RESENT: 400_000}


def test_searches_that_the_ledger_charged_are_compared_with_lines_without_a_model() -> None:
    searched = SONNET._replace(wholesale_nanousd=SONNET.wholesale_nanousd + 100_000_000, searches=10)
    prices = {SONNET.model_slug: ModelPrices(PRICES["claude-sonnet-5-5"], search_picousd=10_000_000_000)}
    for more in ((), (read("anthropic_usage_messages.json"),)):
        comparison = compared([searched, HAIKU], read("anthropic_cost_report.json"), *more, prices=prices)
        # The vendor has twelve searches of a cent, the ledger ten.
        assert without_rounding(comparison) == {TOOLS: 20_000_000}


def test_a_service_tier_of_the_ledger_names_a_mixed_price() -> None:
    fast = Tokens(4_000_000, 400_000, 5_000_000, 24_000_000)
    priced = {TERRA_A.model_slug: ModelPrices(PRICES["gpt-5.6-terra"], others=[fast])}
    counted = Tokens(100_000, 0, 0, 0)
    line = ExportLine("2026-10-14", "gpt-5.6-terra", kind="input", tokens=counted, cost_nanousd=300_000_000)
    export = Export("x", [line], frozenset({"2026-10-14"}))
    calls = [call("gpt-5.6-terra", Tokens(50_000, 0, 0, 0)) for _ in range(2)]
    assert set(causes_of(compared(calls, export, prices=priced))) == {STALE_PRICE}
    named = [calls[0], calls[1]._replace(service_tier="priority")]
    assert causes_of(compared(named, export, prices=priced)) == {WRONG_TIER: 100_000_000}


AMOUNTS = st.integers(-(10**12), 10**12)
COUNT = st.integers(0, 10**9)
TOKENS = st.builds(Tokens, COUNT, COUNT, COUNT, COUNT)
LINES = st.builds(
    ExportLine,
    st.just("2026-10-14"),
    tier=st.sampled_from([None, "flex", "long context"]),
    kind=st.sampled_from([None, *KINDS]),
    tokens=st.none() | TOKENS,
    cost_nanousd=st.none() | AMOUNTS,
    requests=st.none() | st.integers(0, 50),
    rounding_nanousd=st.sampled_from([1, 500, 5_000_000]),
    is_tool=st.booleans(),
    splits_input=st.booleans(),
)
CALLS = st.builds(
    call,
    st.just("gpt-5.4"),
    TOKENS,
    st.integers(0, 10**12),
    usage_source=st.sampled_from(["provider", "estimated", "none"]),
    error_code=st.sampled_from([None, "interrupted", "timeout"]),
    status=st.sampled_from([200, 499, 504]),
    resends=st.integers(0, 1),
    reported_nanousd=st.none() | st.integers(0, 10**12),
)
PRICED = st.builds(ModelPrices, TOKENS, others=st.lists(TOKENS, max_size=2))


@given(st.lists(LINES, max_size=5), st.lists(CALLS, max_size=4), st.none() | PRICED, st.integers(0, 10**12))
def test_the_causes_sum_to_the_difference(
    lines: list[ExportLine], calls: list[LedgerCall], prices: ModelPrices | None, largest: int
) -> None:
    theirs, ours = VendorSums(list(lines)), CallSums()
    for one in calls:
        ours.add(one, prices)
    ours.crossing_nanousd, ours.arriving_nanousd = largest // 2, largest // 3
    causes = explain_group(theirs, ours, prices, largest)
    assert sum(causes.values()) == value_of(theirs, ours, prices) - ours.cost_nanousd
    assert 0 not in causes.values()
    slack = theirs.rounding_nanousd + 4 * (len(lines) + len(calls) + 1)
    assert abs(causes.get(ROUNDING, 0)) <= slack * (len(lines) + 1)


@given(
    st.sampled_from(sorted(SAMPLES_READ)),
    st.floats(0, 1),
    st.integers(0, 30),
    st.text(st.sampled_from('0123456789-.,"{}[]\n\r\\:eE\x00≤ nulltrue'), max_size=12),
    st.booleans(),
)
def test_a_damaged_sample_is_refused_or_compared_to_the_nano_dollar(
    name: str, place: float, length: int, damage: str, by_month: bool
) -> None:
    text = sample(name)
    at = int(len(text) * place)
    try:
        export = read_export(text[:at] + damage + text[at + length :], MAPPINGS.get(name))
        comparison = compared(LEDGERS[name], export, month="2026-10" if by_month else None)
    except ExportError:
        return
    for group in comparison.groups:
        assert sum(group.causes.values()) == group.difference_nanousd
    totals = [
        sum(getattr(group, side) for group in comparison.groups)
        for side in ("export_nanousd", "ledger_nanousd")
    ]
    assert sum(causes_of(comparison).values()) == totals[0] - totals[1]
