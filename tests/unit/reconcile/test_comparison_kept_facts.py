"""Calls are compared at the prices that they had, and by the platform keys that they had."""

from collections.abc import Mapping

import pytest
from rig.reconciled import call, causes_of, compared

from addon.reconcile.causes import OTHER_KIND, OUTSIDE, STALE_PRICE, UNKNOWN
from addon.reconcile.comparison import Comparison
from addon.reconcile.export_line import Export, ExportLine, Tokens
from addon.reconcile.ledger_call import LedgerCall, ModelPrices

TERRA = "gpt-5.6-terra"
OLD, TODAY = (
    Tokens(2_000_000, 200_000, 2_500_000, 12_000_000),
    Tokens(4_000_000, 400_000, 5_000_000, 24_000_000),
)
SETS = {"old": ModelPrices(OLD), "new": ModelPrices(TODAY)}
TODAYS_CATALOG = {f"our-{TERRA}": ModelPrices(TODAY)}
COUNTS = Tokens(1_000_000, 0, 0, 100_000)
# 1,000,000 × $2 and 100,000 × $12 a million.
AS_KEPT = call(TERRA, COUNTS, 3_200_000_000, price_set="old")


def export(*lines: ExportLine) -> Export:
    return Export("made", lines, frozenset(line.day for line in lines))


def line(cost_nanousd: int | None, tokens: Tokens = COUNTS, key: str | None = None) -> ExportLine:
    return ExportLine("2026-10-14", TERRA, key, tokens=tokens, cost_nanousd=cost_nanousd)


def of_kept(calls: list[LedgerCall], *lines: ExportLine) -> dict[str, int]:
    return causes_of(compared(calls, export(*lines), prices=TODAYS_CATALOG, sets=SETS))


def test_a_later_change_of_the_catalog_explains_nothing() -> None:
    assert of_kept([AS_KEPT], line(3_200_000_000)) == {}


def test_a_vendor_that_charged_the_prices_of_today_shows_a_stale_price() -> None:
    assert of_kept([AS_KEPT], line(6_400_000_000)) == {STALE_PRICE: 3_200_000_000}


def test_a_price_that_changed_within_a_day_is_no_difference() -> None:
    later = call(TERRA, COUNTS, 6_400_000_000, price_set="new")
    assert of_kept([AS_KEPT, AS_KEPT, later], line(12_800_000_000, Tokens(3_000_000, 0, 0, 300_000))) == {}


def test_tokens_without_a_cost_are_valued_at_the_price_that_the_calls_had() -> None:
    """1,000 more from the cache, and so fewer others: each at $2 before, and at $0.20 now."""
    moved = Tokens(999_000, 1_000, 0, 100_000)
    assert of_kept([AS_KEPT], line(None, moved)) == {OTHER_KIND: -1_800_000}


def test_a_call_whose_prices_were_not_kept_has_those_of_today() -> None:
    unkept = AS_KEPT._replace(price_set="not kept", wholesale_nanousd=6_400_000_000)
    moved = Tokens(999_000, 1_000, 0, 100_000)
    assert of_kept([unkept], line(None, moved)) == {OTHER_KIND: -3_600_000}


@pytest.mark.parametrize(("today", "is_corrected"), [(TODAY, True), (OLD, False)])
def test_a_stale_price_says_whether_the_catalog_has_another_one_today(
    today: Tokens, is_corrected: bool
) -> None:
    found = compared(
        [AS_KEPT], export(line(6_400_000_000)), prices={f"our-{TERRA}": ModelPrices(today)}, sets=SETS
    )
    assert found.sum_stale_prices() == {(TERRA, not is_corrected): 3_200_000_000}


ONE, TWO = AS_KEPT._replace(platform_key=1), AS_KEPT._replace(platform_key=2)


def by_key(calls: list[LedgerCall], keys: Mapping[str, int | None], *lines: ExportLine) -> Comparison:
    return compared(calls, export(*lines), prices=TODAYS_CATALOG, sets=SETS, keys=keys)


def test_numbered_keys_are_compared_each_by_itself() -> None:
    lines = [
        line(3_200_000_000, key="front"),
        line(6_400_000_000, Tokens(2_000_000, 0, 0, 200_000), key="back"),
    ]
    sound = by_key([ONE, TWO, TWO], {"front": 1, "back": 2}, *lines)
    assert [(group.key, group.ledger_calls, group.causes) for group in sound.groups] == [
        ("back", 2, {}),
        ("front", 1, {}),
    ]
    swapped = by_key([ONE, ONE, TWO], {"front": 1, "back": 2}, *lines)
    assert {group.key: group.causes for group in swapped.groups} == {
        "back": {OUTSIDE: 3_200_000_000},
        "front": {UNKNOWN: -3_200_000_000},
    }


def test_the_names_of_one_number_are_one_key_and_others_are_the_rest() -> None:
    lines = [
        line(3_200_000_000, key="front"),
        line(3_200_000_000, key="front, rotated"),
        line(3_200_000_000, key="more"),
        line(100, Tokens(50, 0, 0, 0), key="someone's"),
    ]
    keys = {"front": 1, "front, rotated": 1, "more": None}
    found = by_key([ONE, ONE, TWO], keys, *lines)
    assert {group.key: (group.ledger_calls, dict(group.causes)) for group in found.groups} == {
        "": (1, {}),
        "front": (2, {}),
        "someone's": (0, {OUTSIDE: 100}),
    }
