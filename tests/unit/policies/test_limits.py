"""The limits that apply to a call, the counters that it adds to, and the periods."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.limits import (
    Counter,
    counters_of,
    limits_of,
    pays_from_wallet,
    period_end,
    period_of,
    period_start,
    rpm_of,
    seconds_to_reset,
    wallet_counter,
)
from policies.model import Key, Mode, Plan, Reset, Workspace

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
KEY = Key("ci", "00", spend_cap_nanousd=20, spend_reset="weekly", request_cap=7, request_reset="daily")
WORKSPACE = Workspace("acme", "Acme", "standard", (KEY,), monthly_spend_cap_nanousd=250)
BARE = Workspace("acme", "Acme", "pro", ())


@pytest.mark.parametrize(
    ("day", "reset", "period"),
    [
        ("2026-11-21", "never", "ever"),
        ("2026-11-21", "daily", "2026-11-21"),
        ("2026-11-21", "monthly", "2026-11"),
        ("2026-11-16", "weekly", "2026-W47"),
        ("2026-11-22", "weekly", "2026-W47"),
        ("2026-11-23", "weekly", "2026-W48"),
        ("2027-01-01", "weekly", "2026-W53"),
        ("2024-12-30", "weekly", "2025-W01"),
    ],
)
def test_a_day_is_in_a_period(day: str, reset: Reset, period: str) -> None:
    assert period_of(date.fromisoformat(day), reset) == period


@given(st.dates(date(2020, 1, 1), date(2060, 1, 1)), st.sampled_from(["daily", "weekly", "monthly"]))
def test_a_period_begins_on_its_first_day(day: date, reset: Reset) -> None:
    first = date.fromisoformat(period_start(period_of(day, reset)))
    assert period_of(first, reset) == period_of(day, reset)
    assert period_of(first - timedelta(days=1), reset) != period_of(day, reset)
    assert first <= day < first + timedelta(days=31)


@given(st.dates(date(2020, 1, 1), date(2060, 1, 1)), st.sampled_from(["daily", "weekly", "monthly"]))
def test_a_period_ends_where_the_next_one_begins(day: date, reset: Reset) -> None:
    period = period_of(day, reset)
    after = date.fromisoformat(period_end(period))
    assert period_start(period_of(after, reset)) == period_end(period)
    assert period_of(after - timedelta(days=1), reset) == period


@pytest.mark.parametrize(
    ("period", "now", "seconds"),
    [
        ("2026-11-21", "2026-11-21T23:59:58.500+00:00", 2),
        ("2026-11-21", "2026-11-21T23:59:59.999+00:00", 1),
        ("2026-11-21", "2026-11-22T00:00:00+00:00", 1),
        ("2026-W47", "2026-11-22T23:00:00+00:00", 3_600),
        ("2026-11", "2026-11-29T23:59:59.001+00:00", 86_401),
        ("ever", "2026-11-21T12:00:00+00:00", None),
    ],
)
def test_the_wait_for_the_end_of_a_period_is_rounded_up(period: str, now: str, seconds: int | None) -> None:
    assert seconds_to_reset(period, datetime.fromisoformat(now)) == seconds


def test_a_period_that_never_ends_has_every_day() -> None:
    assert period_start("ever") < "0001-01-01"
    assert period_end("ever") > "9999-12-31"


def test_limits_are_in_the_order_of_their_checks() -> None:
    limits = limits_of(WORKSPACE, KEY, "payg", NOW)
    assert [(limit.kind, limit.counter, limit.maximum) for limit in limits] == [
        ("request_cap", Counter("key:acme/ci", "2026-11-21"), 7),
        ("spend_cap", Counter("key:acme/ci", "2026-W47"), 20),
        ("wallet", Counter("wallet:acme", "ever"), 0),
        ("monthly_spend_cap", Counter("workspace:acme", "2026-11"), 250),
    ]


@pytest.mark.parametrize(
    ("workspace", "key", "mode", "kinds"),
    [
        (BARE, Key("k", "00"), "payg", []),
        (replace(BARE, plan="standard"), Key("k", "00"), "payg", ["wallet"]),
        (replace(WORKSPACE, plan="pro"), KEY, "payg", ["request_cap", "spend_cap", "monthly_spend_cap"]),
        (WORKSPACE, KEY, "byok", ["request_cap"]),
        (BARE, Key("k", "00", spend_cap_nanousd=0), "payg", ["spend_cap"]),
        (BARE, Key("k", "00", request_cap=0), "payg", ["request_cap"]),
    ],
)
def test_only_limits_that_are_set_apply(workspace: Workspace, key: Key, mode: Mode, kinds: list[str]) -> None:
    assert [limit.kind for limit in limits_of(workspace, key, mode, NOW)] == kinds


@pytest.mark.parametrize(
    ("plan", "mode", "paid"),
    [("standard", "payg", True), ("pro", "payg", False), ("standard", "byok", False)],
)
def test_the_wallet_pays_for_metered_calls_without_pro(plan: Plan, mode: Mode, paid: bool) -> None:
    assert pays_from_wallet(plan, mode) is paid


def test_a_call_adds_to_every_counter_of_a_limit_except_the_wallets() -> None:
    counted = set(counters_of("acme", "ci", NOW.date()))
    for reset in ("never", "daily", "weekly", "monthly"):
        key = replace(KEY, spend_reset=reset, request_reset=reset)
        looked_at = {limit.counter for limit in limits_of(WORKSPACE, key, "payg", NOW)}
        assert looked_at - {wallet_counter("acme")} <= counted


@pytest.mark.parametrize(
    ("plan", "override", "rpm"),
    [("standard", None, 60), ("pro", None, 120), ("standard", 600, 600), ("pro", 1, 1), ("pro", 0, 1)],
)
def test_the_plan_sets_the_rate_and_an_override_replaces_it(
    plan: str, override: int | None, rpm: int
) -> None:
    workspace = replace(BARE, plan=plan, rpm_override=override)  # type: ignore[arg-type]
    assert rpm_of(workspace, standard_rpm=60, pro_rpm=120) == rpm
