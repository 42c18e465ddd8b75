"""Each sample agrees with a ledger that was made for it, by day, model and key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.reconciled import (
    FLASH,
    HAIKU,
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
from rig.vendor_exports import MAPPINGS, SAMPLES_READ, read, sample

from addon.reconcile.causes import (
    END_OF_DAY,
    MISSING,
    OUTSIDE,
    ROUNDING,
    STALE_PRICE,
    TOOLS,
)
from addon.reconcile.export_line import Export, ExportError, ExportLine, Tokens
from addon.reconcile.formats import read_export
from addon.reconcile.ledger_call import (
    ModelPrices,
)


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


def test_searches_that_the_ledger_charged_are_compared_with_lines_without_a_model() -> None:
    searched = SONNET._replace(wholesale_nanousd=SONNET.wholesale_nanousd + 100_000_000, searches=10)
    prices = {SONNET.model_slug: ModelPrices(PRICES["claude-sonnet-5-5"], search_picousd=10_000_000_000)}
    for more in ((), (read("anthropic_usage_messages.json"),)):
        comparison = compared([searched, HAIKU], read("anthropic_cost_report.json"), *more, prices=prices)
        # The vendor has twelve searches of a cent, the ledger ten.
        assert without_rounding(comparison) == {TOOLS: 20_000_000}


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
