"""The numbers of calls by each filter: those of the rows themselves."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.ledger import make_row
from rig.rollups import ROWS, open_ledger, write

from addon.store.money.reports import call_counts
from addon.store.money.reports.call_counts import COUNTED, count_calls
from addon.store.money.reports.call_filter import Filter

FILTERS = st.builds(
    Filter,
    workspace=st.sampled_from([None, "acme"]),
    status=st.sampled_from([None, "429", "error"]),
    mode=st.sampled_from([None, "byok"]),
)


@given(st.lists(ROWS, max_size=16), st.integers(0, 6), FILTERS)
def test_each_value_has_the_number_of_its_calls(
    rows: list[dict[str, Any]], steps: int, wanted: Filter
) -> None:
    with open_ledger(rows, steps) as connection:
        where, values = wanted.rows()
        columns = ", ".join([*list(COUNTED.values())[:4], "(status / 100) || 'xx'", "mode"])
        calls = connection.execute(f"SELECT {columns} FROM usage WHERE {where}", values).fetchall()
        expected = Counter(pair for call in calls for pair in zip(COUNTED, call, strict=True))
        found = count_calls(connection, wanted, 99)
        assert found is not None
        assert {(name, value): calls for name, value, calls in found.rows} == expected


def test_calls_that_no_sums_have_are_counted_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_counts, "MAX_ROWS", 1)
    with open_ledger() as connection:
        for place in range(2):
            write(connection, make_row(f"call-{place}", end_user="ann"))
        assert count_calls(connection, Filter(end_user="ann"), 9) is None
        assert count_calls(connection, Filter(end_user="ann", workspace="gone"), 9) is not None
        assert count_calls(connection, Filter(), 9) is not None


def test_just_as_many_rows_as_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_counts, "MAX_ROWS", 2)
    with open_ledger() as connection:
        for place in range(2):
            write(connection, make_row(f"call-{place}", end_user="ann"))
        assert count_calls(connection, Filter(end_user="ann"), 9) is not None
