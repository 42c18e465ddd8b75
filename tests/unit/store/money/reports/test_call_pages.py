"""Pages of calls: each call once, whatever is written in between, and a bounded search for each page."""

import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.ledger import make_row
from rig.rollups import ROWS, open_ledger, write

from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.call_pages import (
    CallPosition,
    SearchBounds,
    count_written,
    find_last_written,
    find_page,
)

FILTERS = st.builds(
    Filter,
    workspace=st.sampled_from([None, None, "acme", "gone"]),
    model=st.sampled_from([None, None, "large"]),
    since=st.sampled_from([None, "2026-01-29T10:20:00.000+00:00"]),
    until=st.sampled_from([None, "2026-01-31T10:20:00.000+00:00"]),
    status=st.sampled_from([None, None, "429", "4xx", "error"]),
    mode=st.sampled_from([None, None, "byok"]),
    end_user=st.sampled_from([None, None, "ann"]),
    error_code=st.sampled_from([None, None, "interrupted"]),
)
CALLS = st.builds(
    lambda row, user, moment: row | {"end_user": user} | ({"created_at": moment} if moment else {}),
    ROWS,
    st.sampled_from([None, "ann", "bob"]),
    st.sampled_from([None, "2026-01-30T10:20:00.000+00:00"]),
)
"""Calls of which many have the same moment."""
BOUNDS = st.builds(SearchBounds, st.integers(1, 4), st.integers(1, 9))


def number(rows: list[dict[str, Any]], prefix: str) -> list[dict[str, Any]]:
    return [row | {"id": f"{prefix}-{place}"} for place, row in enumerate(rows)]


def select_ids(connection: sqlite3.Connection, wanted: Filter) -> list[str]:
    where, values = wanted.rows()
    sql = f"SELECT id FROM usage WHERE {where} ORDER BY created_at DESC, id DESC"
    return [row_id for (row_id,) in connection.execute(sql, values)]


def ids_of(page: Any) -> list[str]:
    return [record["id"] for record in page.calls.records()]


@settings(deadline=None)
@given(
    st.lists(CALLS, max_size=16),
    st.lists(CALLS, max_size=8),
    st.integers(0, 6),
    FILTERS,
    st.integers(1, 4),
    BOUNDS,
)
def test_a_walk_over_pages_shows_each_call_once_while_others_are_written(
    earlier: list[dict[str, Any]],
    later: list[dict[str, Any]],
    steps: int,
    wanted: Filter,
    limit: int,
    bounds: SearchBounds,
) -> None:
    with open_ledger(number(earlier, "old"), steps) as connection:
        expected = select_ids(connection, wanted)
        coming, shown, before = number(later, "new"), list[str](), None
        for _ in range(200):
            page = find_page(connection, wanted, limit, before=before, bounds=bounds)
            assert len(page.calls.rows) <= limit
            shown += ids_of(page)
            if page.older is None:
                break
            before = CallPosition.parse(str(page.older))
            if coming:
                write(connection, coming.pop())
        assert [row_id for row_id in shown if row_id.startswith("old")] == expected
        assert len(shown) == len(set(shown))


@settings(deadline=None)
@given(st.lists(CALLS, max_size=16), st.integers(0, 6), FILTERS, st.integers(1, 4), BOUNDS)
def test_the_way_back_shows_the_same_calls(
    rows: list[dict[str, Any]], steps: int, wanted: Filter, limit: int, bounds: SearchBounds
) -> None:
    with open_ledger(number(rows, "old"), steps) as connection:
        shown, after = list[str](), CallPosition("0001-01-01T00:00:00.000+00:00", "")
        for _ in range(200):
            page = find_page(connection, wanted, limit, after=after, bounds=bounds)
            shown = ids_of(page) + shown
            assert page.older is not None
            if page.newer is None:
                break
            after = page.newer
        assert shown == select_ids(connection, wanted)


@given(st.lists(CALLS, max_size=8), st.lists(CALLS, max_size=8), FILTERS)
def test_calls_written_later_are_counted_wherever_they_are_in_the_order(
    earlier: list[dict[str, Any]], later: list[dict[str, Any]], wanted: Filter
) -> None:
    with open_ledger() as connection:
        for row in number(earlier, "old"):
            write(connection, row)
        before, last = select_ids(connection, wanted), find_last_written(connection)
        for row in number(later, "new"):
            write(connection, row)
        assert count_written(connection, wanted, last) == (
            len(select_ids(connection, wanted)) - len(before),
            True,
        )


def test_a_page_links_back_to_the_calls_before_it() -> None:
    with open_ledger() as connection:
        for minute in range(5):
            write(connection, make_row(f"call-{minute}", created_at=f"2026-01-31T12:0{minute}:00.000+00:00"))
        newest = find_page(connection, Filter(), 2)
        assert (ids_of(newest), newest.newer) == (["call-4", "call-3"], None)
        older = find_page(connection, Filter(), 2, before=newest.older)
        assert ids_of(older) == ["call-2", "call-1"]
        assert ids_of(find_page(connection, Filter(), 2, after=older.newer)) == ["call-4", "call-3"]
        beyond = find_page(
            connection, Filter(), 2, before=CallPosition("2026-01-31T12:00:00.000+00:00", "call-0")
        )
        assert ids_of(beyond) == []
        assert ids_of(find_page(connection, Filter(), 2, after=beyond.newer)) == ["call-1", "call-0"]


def test_a_search_that_finds_nothing_ends_and_says_how_far_it_came() -> None:
    with open_ledger() as connection:
        for minute in range(9):
            write(connection, make_row(f"call-{minute}", created_at=f"2026-01-31T12:0{minute}:00.000+00:00"))
        page = find_page(connection, Filter(end_user="nobody"), 2, bounds=SearchBounds(2, 4))
        assert (ids_of(page), page.is_whole) == ([], False)
        assert str(page.older) == "2026-01-31T12:05:00.000Z_"


def test_the_way_back_from_a_page_without_calls_leads_to_those_before_it() -> None:
    moment = "2026-01-31T12:00:00.000"
    with open_ledger() as connection:
        write(connection, make_row("call", created_at=f"{moment}+00:00"))
        for call_id in ("call", ""):
            empty = find_page(connection, Filter(), 5, before=CallPosition(f"{moment}+00:00", call_id))
            assert (ids_of(empty), str(empty.newer)) == ([], f"{moment}Z_")
            assert ids_of(find_page(connection, Filter(), 5, after=empty.newer)) == ["call"]
        empty = find_page(connection, Filter(), 5, after=CallPosition(f"{moment}+00:00", "call"))
        assert (ids_of(empty), str(empty.older)) == ([], f"{moment}Z_~")
        assert ids_of(find_page(connection, Filter(), 5, before=empty.older)) == ["call"]


@pytest.mark.parametrize(
    "text", ["", "call-1", "2026-01-31", "2026-01-31T12:00:00.000Z", "2026-01-31T12:00:00.000Z_é", "x_1"]
)
def test_a_wrong_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a position such as 2026-01-31T12:00:00"):
        CallPosition.parse(text)
