"""The last calls of keys: the same from sums as from rows, at any point of a build."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rig.rollups import ROWS, open_ledger

from addon.store.money.reports.last_use import find_last_hours


@given(st.lists(ROWS, max_size=12, unique_by=lambda row: row["id"]), st.integers(0, 4))
def test_the_last_hour_is_that_of_the_rows(rows: list[dict[str, Any]], steps: int) -> None:
    expected = {
        key: max(row["created_at"] for row in rows if (row["workspace"], row["key_id"]) == ("acme", key))[:13]
        for key in {row["key_id"] for row in rows if row["workspace"] == "acme"}
    }
    with open_ledger(rows, steps) as ledger:
        assert find_last_hours(ledger, "acme") == expected
