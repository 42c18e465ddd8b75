"""Reports have the same rows on SQLite and on PostgreSQL, for odd names and for moments at the edge of an hour."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from rig.filled_ledgers import BUDGETED, KEYS, MODELS, MOMENTS, NOW, ODD, WORKSPACES, fill_both
from rig.postgres_server import PostgresServer

from addon.store.money.ledger import Ledger
from addon.store.money.postgres.ledger import PostgresPlace
from addon.store.money.reports.archived_calls import find_missing_in_sums
from addon.store.money.reports.budgets import find_budgets, find_reached
from addon.store.money.reports.call_counts import count_calls
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.call_pages import (
    CallPosition,
    SearchBounds,
    count_written,
    find_last_written,
    find_page,
)
from addon.store.money.reports.calls_by_id import find_call, find_client_calls
from addon.store.money.reports.figures import STEPS_S, read_figures, read_key_uses
from addon.store.money.reports.last_use import find_last_hours
from addon.store.money.reports.model_calls import select_model_calls
from addon.store.money.reports.names import (
    find_names,
    find_recorded_workspaces,
    find_wallets,
    is_recorded_workspace,
)
from addon.store.money.reports.price_sets import find_price_set, read_price_sets
from addon.store.money.reports.provider_calls import (
    select_failed_attempts,
    select_fallbacks,
    select_provider_calls,
)
from addon.store.money.reports.report import (
    count_holds,
    count_rows,
    find_balances,
    find_entries,
    find_entry,
    find_recent,
    find_refusals,
    find_totals,
    ledger_counters,
)
from addon.store.money.reports.sizes import find_sizes
from addon.store.money.reports.totals import GROUPS
from addon.store.money.reports.wallet_credits import find_last_credits
from addon.store.money.sqlite.place import SqlitePlace
from policies.budgets import budget_limits
from policies.model import Budget

type Both = tuple[Ledger, Ledger]

NAMED = ("workspace", "key", "model", "provider")
COLUMNS = ("id", "created_at", "prompt_tokens", "no_such_column")
DAYS = timedelta(days=40)
REPORTS: dict[str, Callable[[Ledger], Any]] = {
    "rows": count_rows,
    "workspaces": find_recorded_workspaces,
    "wallets": find_wallets,
    "names": lambda ledger: [sorted(find_names(ledger, by, "Beta")) for by in GROUPS if by in NAMED],
    "known": lambda ledger: [is_recorded_workspace(ledger, name) for name in (*ODD, "only-a-wallet")],
    "entries": lambda ledger: [find_entries(ledger, name, 30).rows for name in WORKSPACES],
    "older entries": lambda ledger: find_entries(ledger, "acme", 9, find_entry(ledger, "credit-0")).rows,
    "entry": lambda ledger: find_entry(ledger, "credit-5"),
    "credits": lambda ledger: find_last_credits(ledger, [*WORKSPACES, "none"]),
    "balances": lambda ledger: find_balances(ledger_counters(ledger), WORKSPACES).rows,
    "price sets": lambda ledger: sorted(read_price_sets(ledger)),
    "price set": lambda ledger: [find_price_set(ledger, one.hash) for one in sorted(read_price_sets(ledger))],
    "last hours": lambda ledger: [find_last_hours(ledger, name) for name in WORKSPACES],
    "key uses": lambda ledger: sorted(read_key_uses(ledger, MOMENTS[3]).items()),
    "key uses of one": lambda ledger: sorted(read_key_uses(ledger, MOMENTS[1], ODD[0]).items()),
    "models": lambda ledger: sorted(select_model_calls(ledger, ["_x", ODD[2]], MOMENTS[0], COLUMNS)),
    "provider": lambda ledger: sorted(select_provider_calls(ledger, "TESTER", NOW - DAYS, NOW, COLUMNS)),
    "failed attempts": lambda ledger: sorted(
        select_failed_attempts(ledger, "TESTER", NOW - DAYS, NOW), key=str
    ),
    "fallbacks": lambda ledger: sorted(select_fallbacks(ledger, NOW - DAYS, NOW)),
    "holds": lambda ledger: [count_holds(ledger, one) for one in (Filter(), Filter("acme", "tester-large"))],
    "last written": find_last_written,
    "client's id": lambda ledger: [find_client_calls(ledger, name, 4) for name in ODD],
    "missing": lambda ledger: find_missing_in_sums(ledger, Filter(since=MOMENTS[1])),
    "budgets": lambda ledger: [find_budgets(ledger, [BUDGETED], NOW, most).rows for most in (3, None)],
    "reached budgets": lambda ledger: find_reached(
        ledger, replace(BUDGETED, budgets=(Budget("user", 90),)), NOW
    ),
    "limits of a budget": lambda ledger: [
        (one, ledger_counters(ledger)(one, "acme", ""))
        for one in ledger_counters(ledger).choose(budget_limits(BUDGETED, ODD[0], None, NOW))
    ],
    "sizes": lambda ledger: find_sizes(ledger, 160),
}
TIMES = st.sampled_from([None, *MOMENTS, "2026-02-14", "2026-03-02T09:00"])
FILTERS = st.builds(
    Filter,
    workspace=st.sampled_from([None, None, *WORKSPACES]),
    model=st.sampled_from([None, None, *(model for model, _ in MODELS)]),
    since=TIMES,
    until=TIMES,
    key=st.sampled_from([None, None, *KEYS]),
    provider=st.sampled_from([None, None, "TESTER", "Zed"]),
    status=st.sampled_from([None, None, "200", "4xx", "429", "error"]),
    mode=st.sampled_from([None, None, "byok"]),
    end_user=st.sampled_from([None, None, "ann", ODD[0], ODD[1]]),
    error_code=st.sampled_from([None, None, "interrupted", ODD[2]]),
    deployment=st.sampled_from([None, None, None, "Zed/a", ODD[0]]),
    api=st.sampled_from([None, None, None, "chat", "messages"]),
)
LIMITS = st.sampled_from([1, 7, 1_000])
NAMES = (*GROUPS, "tag:team", "tag:a b")
BY = st.sampled_from([*NAMES, *(f"{one},{two}" for one in NAMES for two in NAMES if one != two)])


@pytest.fixture(scope="module")
def both(_shared_postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """The same calls in both, each as one view."""
    path, database = Path(tmp_path_factory.mktemp("ledger"), "ledger.db"), _shared_postgres.create_database()
    url = _shared_postgres.url_of(database)
    fill_both(path, url)
    with SqlitePlace(path).read() as sqlite, PostgresPlace(SecretStr(url)).read() as postgres:
        yield sqlite, postgres
    _shared_postgres.drop_database(database)


def agree(both: Both, report: Callable[[Ledger], Any]) -> Any:
    """Return what a report finds in SQLite. It finds the same, with the same types, in PostgreSQL."""
    sqlite, postgres = (report(ledger) for ledger in both)
    assert repr(postgres) == repr(sqlite)
    return sqlite


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_has_the_same_content(both: Both, name: str) -> None:
    assert agree(both, REPORTS[name])


@given(FILTERS, BY, LIMITS)
def test_totals_are_the_same(both: Both, wanted: Filter, by: str, limit: int) -> None:
    agree(both, lambda ledger: find_totals(ledger, by, wanted, limit))
    agree(both, lambda ledger: find_totals(ledger, by, wanted, None))


@given(FILTERS, LIMITS)
def test_the_newest_calls_refusals_and_counts_are_the_same(both: Both, wanted: Filter, limit: int) -> None:
    agree(both, lambda ledger: find_recent(ledger, wanted, limit))
    agree(both, lambda ledger: find_refusals(ledger, wanted, limit))
    agree(both, lambda ledger: find_refusals(ledger, wanted, None))
    agree(both, lambda ledger: count_calls(ledger, wanted, limit))
    agree(both, lambda ledger: count_written(ledger, wanted, find_last_written(ledger) - limit))


@given(FILTERS, st.sampled_from([None, *STEPS_S]), st.booleans())
def test_figures_are_the_same(both: Both, wanted: Filter, step: Any, has_distributions: bool) -> None:
    for names in (
        [],
        ["model_slug", "provider"],
        ["workspace", "key_id"],
        ["status_class"],
        ["end_user", "tag:team"],
    ):
        agree(
            both,
            lambda ledger, names=names: sorted(
                (name, one.sums, one.percentiles())
                for name, one in read_figures(
                    ledger, names, wanted, step, has_distributions=has_distributions
                ).items()
            ),
        )


@given(FILTERS, st.sampled_from([3, 50]), st.sampled_from([SearchBounds(), SearchBounds(4, 9)]))
def test_pages_of_calls_are_the_same_in_both_directions(
    both: Both, wanted: Filter, limit: int, bounds: SearchBounds
) -> None:
    older: CallPosition | None = None
    for _ in range(4):
        page = agree(
            both, lambda ledger, at=older: find_page(ledger, wanted, limit, before=at, bounds=bounds)
        )
        older = page.older
        if older is None:
            break
    if older:
        agree(both, lambda ledger: find_page(ledger, wanted, limit, after=older, bounds=bounds))


def test_a_call_is_found_by_its_id(both: Both) -> None:
    [call_id] = {row[0] for row in find_recent(both[0], Filter(), 1).rows}
    assert agree(both, lambda ledger: find_call(ledger, call_id))
    assert agree(both, lambda ledger: find_call(ledger, "no such call")) is None


def test_calls_of_one_moment_are_in_the_order_of_their_ids(both: Both) -> None:
    at = Filter(since=MOMENTS[4], until=f"{MOMENTS[4]}~")
    ids = [row[0] for row in agree(both, lambda ledger: find_recent(ledger, at, 100)).rows]
    assert len(ids) > 1
    assert ids == sorted(ids, reverse=True)
