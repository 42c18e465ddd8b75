"""Reports about workspaces and wallets."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from rig.ledger import make_row
from rig.rollups import open_ledger, write

from addon.store.ledger.report import (
    find_entries,
    find_entry,
    find_recorded_workspaces,
    is_recorded_workspace,
)
from addon.store.ledger.rows import write_entry
from addon.store.protocol import WalletEntry

MOMENT = datetime(2026, 1, 31, 12, tzinfo=UTC)
NAMES = st.lists(st.sampled_from(["a", "A", "b-1", "b", "é", "~"]), max_size=6)


@given(NAMES, NAMES)
def test_a_workspace_is_recorded_by_a_call_or_an_entry(called: list[str], entered: list[str]) -> None:
    with open_ledger() as ledger:
        for number, name in enumerate(called):
            write(ledger, make_row(f"call-{number}", workspace=name))
        for number, name in enumerate(entered):
            write_entry(ledger, WalletEntry(f"entry-{number}", MOMENT, name, 1, "test"))
        assert find_recorded_workspaces(ledger) == sorted({*called, *entered})
        assert {name for name in ("a", "b", "c") if is_recorded_workspace(ledger, name)} == {
            name for name in ("a", "b") if name in (*called, *entered)
        }


@given(st.lists(st.integers(0, 2), max_size=8), st.integers(1, 3))
def test_pages_of_entries_have_each_once_newest_first(seconds: list[int], size: int) -> None:
    with open_ledger() as ledger:
        for number, second in enumerate(seconds):
            moment = MOMENT.replace(second=second)
            write_entry(ledger, WalletEntry(f"acme/{number}", moment, "acme", 1, f"{number}"))
            write_entry(ledger, WalletEntry(f"beta/{number}", moment, "beta", 1, f"{number}"))
        seen, before = list[tuple[str, str]](), None
        while page := find_entries(ledger, "acme", size, before).records():
            seen += [(row["created_at"], row["id"]) for row in page]
            before = find_entry(ledger, page[-1]["id"])
    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) == len(seen) == len(seconds)
