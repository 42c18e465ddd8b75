"""Reports about workspaces and wallets."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from rig.rollups import open_ledger
from rig.written_rows import write_entry

from addon.store.money.reports.report import find_entries, find_entry
from addon.store.protocol import WalletEntry

MOMENT = datetime(2026, 1, 31, 12, tzinfo=UTC)


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
