"""Each difference between a vendor's export and the ledger is found by its name and its amount."""

from dataclasses import replace
from typing import Any

import pytest
from rig.reconciled import (
    FLASH,
    HAIKU,
    HERMES,
    LEDGERS,
    LONG,
    PRICES,
    SONNET,
    TERRA_A,
    TERRA_B,
    call,
    causes_of,
    compared,
    without_rounding,
)
from rig.vendor_exports import SAMPLES_READ, read

from addon.reconcile.causes import (
    OTHER_KIND,
    OUTSIDE,
    STALE_PRICE,
    TOOLS,
    UNKNOWN,
    WRONG_TIER,
)
from addon.reconcile.export_line import Export, ExportLine, Tokens
from addon.reconcile.ledger_call import (
    ESTIMATED,
    FAILED,
    FAILED_ATTEMPT,
    RESENT,
    WAS_INTERRUPTED,
    ZERO,
    FailedAttempt,
    LedgerCall,
    ModelPrices,
    tokens_of,
)
from addon.reconcile.vendor_sums import compute_nanousd


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


def test_a_first_attempt_that_the_vendor_charged_is_found_by_name() -> None:
    model = "nousresearch/hermes-4-405b"
    one = call(model, Tokens(1_000, 0, 0, 100))
    attempt = FailedAttempt(one.created_at, model)
    earlier = attempt._replace(created_at="2026-10-13T17:00:00.000+00:00")

    def causes(calls: list[LedgerCall], charged: int, *attempts: FailedAttempt) -> dict[str, int]:
        tokens = Tokens(1_000 * charged, 0, 0, 100 * charged)
        line = ExportLine("2026-10-14", model, tokens=tokens, cost_nanousd=1_300_000 * charged)
        export = Export("x", [line], frozenset({"2026-10-14"}))
        return causes_of(compared(calls, export, attempts=attempts))

    assert causes([one], 2, attempt) == {FAILED_ATTEMPT: 1_300_000}
    assert causes([], 1, attempt) == {FAILED_ATTEMPT: 1_300_000}
    assert causes([one], 1, attempt) == {}
    assert causes([one], 2, earlier) == {OUTSIDE: 1_300_000}
    # It is worth no more than the largest call.
    assert causes([one], 3, attempt) == {FAILED_ATTEMPT: 1_300_000, OUTSIDE: 1_300_000}


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


def test_tokens_of_another_kind_are_found_by_name() -> None:
    uncached = TERRA_A._replace(cached_tokens=0)
    amount = 800_000 * 1_800_000 // 1000
    costly = uncached._replace(wholesale_nanousd=TERRA_A.wholesale_nanousd + amount)
    assert causes_of(compared([costly, TERRA_B, LONG], read("openai_costs.json"))) == {OTHER_KIND: -amount}


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
