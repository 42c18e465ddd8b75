"""Each threshold is alerted once a period, whoever looks and however often; keys are alerted before they end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from policies.alert_rules import (
    KEY_LEAD_S,
    PREVIOUS_LEAD_S,
    Budget,
    Mark,
    find_crossed,
    find_key_ends,
    limits_to_watch,
    make_budget,
)
from policies.limits import Counter, Limit
from policies.model import Key, Workspace

BUDGET = Budget("acme", None, "monthly_spend_cap", "2026-11", 0, 1000)
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def look(
    percents: list[int], used: int, mark: Mark | None, maximum: int = 1000
) -> tuple[list[int], Mark | None]:
    found, after = find_crossed(percents, structs.replace(BUDGET, used=used, maximum=maximum), mark)
    return list(found), after


PERCENTS = st.lists(st.integers(1, 100), unique=True, max_size=5).map(sorted)


@given(PERCENTS, st.lists(st.integers(0, 1_500), max_size=20))
def test_each_threshold_that_is_reached_is_alerted_once_in_ascending_order(
    percents: list[int], amounts: list[int]
) -> None:
    mark, alerted = None, []
    for used in amounts:  # A counter that Redis has lost for a moment may even fall.
        crossed, mark = look(percents, used, mark)
        alerted += crossed
    highest = max(amounts, default=0)
    assert alerted == [percent for percent in percents if highest * 100 >= percent * 1000]


@given(PERCENTS, st.integers(0, 1_500))
def test_a_look_that_was_not_written_is_found_again(percents: list[int], used: int) -> None:
    assert look(percents, used, None) == look(percents, used, None)
    crossed, mark = look(percents, used, None)
    assert look(percents, used, mark)[0] == []
    assert (mark is None) == (crossed == [])


# used, maximum, mark of 2026-11 (percent, maximum), crossed, percent of the mark after
CASES = {
    "nothing is reached": (799, 1000, None, [], None),
    "a threshold is reached exactly": (800, 1000, None, [80], 80),
    "a jump over two": (990, 1000, None, [80, 95], 95),
    "more than all": (5000, 1000, (80, 1000), [95, 100], 100),
    "a limit of nothing": (0, 0, None, [], None),
    "a limit of one": (1, 1, None, [80, 95, 100], 100),
    "the limit was raised": (1000, 2000, (100, 1000), [], 0),
    "it is reached again after that": (1600, 2000, (0, 2000), [80], 80),
    "the limit was raised a little": (1000, 1100, (100, 1000), [], 80),
    "the limit was lowered": (500, 500, (0, 1000), [80, 95, 100], 100),
    "a lost counter": (0, 1000, (95, 1000), [], 95),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_crossed_follows_from_the_mark(case: str) -> None:
    used, maximum, known, crossed, percent = CASES[case]
    mark = Mark("2026-11", known[1], known[0]) if known else None
    found, after = look([80, 95, 100], used, mark, maximum)
    assert found == crossed
    assert (after.percent if after else None) == percent


def test_a_budget_counts_calls_or_money_and_a_wallet_what_is_gone_of_its_last_credit() -> None:
    month, wallet, calls = (
        Limit(kind, Counter("scope", "2026-11"), 10)
        for kind in ("monthly_spend_cap", "wallet", "request_cap")
    )
    assert make_budget("acme", None, month, 7, 3, None) == Budget(
        "acme", None, "monthly_spend_cap", "2026-11", 7, 10
    )
    assert make_budget("acme", "ci", calls, 7, 3, None) == Budget(
        "acme", "ci", "request_cap", "2026-11", 3, 10
    )
    assert make_budget("acme", None, wallet, -2, 3, None) is None
    assert make_budget("acme", None, wallet, -2, 3, ("c1", 5)) == Budget("acme", None, "wallet", "c1", 3, 5)
    assert make_budget("acme", None, wallet, -9, 3, ("c1", 5)) == Budget("acme", None, "wallet", "c1", 0, 5)


def test_the_mark_of_a_budget_has_one_name_in_all_periods() -> None:
    assert BUDGET.name == "budget acme monthly_spend_cap"
    assert structs.replace(BUDGET, key_id="ci", period="2026-12").name == "budget acme monthly_spend_cap ci"


def test_a_new_period_begins_again() -> None:
    assert look([80], 900, Mark("2026-10", 1000, 80))[0] == [80]


def test_no_thresholds_mean_no_alert() -> None:
    assert look([], 2000, None) == ([], None)


def key(**changes: Any) -> Key:
    return Key("ci", "0" * 64, **changes)


# field, time left, lead times that are found
ENDS = {
    "long before": ("expires_at", timedelta(days=8), []),
    "a week": ("expires_at", timedelta(days=7), [KEY_LEAD_S[1]]),
    "a day": ("expires_at", timedelta(days=1), [KEY_LEAD_S[0]]),
    "it has ended": ("expires_at", timedelta(0), []),
    "the earlier secret has a day": ("previous_until", timedelta(days=1), []),
    "the earlier secret has half a day": ("previous_until", timedelta(hours=12), [PREVIOUS_LEAD_S[1]]),
    "the earlier secret has a minute": ("previous_until", timedelta(minutes=1), [PREVIOUS_LEAD_S[0]]),
}


@pytest.mark.parametrize("case", ENDS)
def test_a_key_is_found_once_its_lead_time_has_begun(case: str) -> None:
    field, left, leads = ENDS[case]
    assert [end.lead_s for end in find_key_ends(key(**{field: NOW + left}), NOW)] == leads


def test_an_inactive_key_ends_without_an_alert() -> None:
    assert list(find_key_ends(key(active=False, expires_at=NOW + timedelta(hours=1)), NOW)) == []


def test_the_limits_of_a_workspace_are_watched_once_and_those_of_its_active_keys() -> None:
    keys = (
        Key("ci", "0" * 64, spend_cap_nanousd=1, request_cap=2),
        Key("other", "1" * 64, request_cap=3),
        Key("revoked", "2" * 64, active=False, request_cap=4),
    )
    workspace = Workspace("acme", "Acme", "standard", keys, monthly_spend_cap_nanousd=5)
    assert [(key_id, limit.kind, limit.maximum) for key_id, limit in limits_to_watch(workspace, NOW)] == [
        (None, "wallet", 0),
        (None, "monthly_spend_cap", 5),
        ("ci", "request_cap", 2),
        ("ci", "spend_cap", 1),
        ("other", "request_cap", 3),
    ]
