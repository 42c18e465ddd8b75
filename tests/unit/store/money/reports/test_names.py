"""The names of the ledger: each is found, from sums as well as from rows, at any point of a build."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rig.ledger import make_row
from rig.rollups import ROWS, open_ledger, write
from rig.written_rows import write_entry

from addon.store.money.reports.names import (
    find_called_names,
    find_names,
    find_recorded_workspaces,
    find_wallets,
    is_recorded_workspace,
)
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
        assert find_wallets(ledger) == sorted(set(entered))
        assert {name for name in ("a", "b", "c") if is_recorded_workspace(ledger, name)} == {
            name for name in ("a", "b") if name in (*called, *entered)
        }


@given(NAMES)
def test_a_refused_call_has_names(refused: list[str]) -> None:
    with open_ledger() as ledger:
        for name in {*refused, ""}:
            row = ("2026-01-31T12", name, name and f"key of {name}", "invalid_api_key")
            ledger.execute(
                "INSERT INTO refusals (hour, workspace, key_id, code, count) VALUES (?, ?, ?, ?, 1)", row
            )
        assert find_names(ledger, "workspace") == set(refused)
        assert find_names(ledger, "key") == {f"key of {name}" for name in refused}
        assert find_names(ledger, "key", "a") == {"key of a"} & {f"key of {name}" for name in refused}
        assert not find_names(ledger, "model")


@given(st.lists(ROWS, max_size=8), st.lists(ROWS, max_size=4), st.integers(0, 6))
def test_all_names_of_a_column_are_found(
    earlier: list[dict[str, Any]], later: list[dict[str, Any]], steps: int
) -> None:
    with open_ledger(earlier, steps) as connection:
        for row in later:
            write(connection, row)
        for column in ("key_id", "model_slug", "provider", "mode"):
            recorded = connection.execute(f"SELECT DISTINCT {column} FROM usage").fetchall()
            assert find_called_names(connection, column) == {name for (name,) in recorded}
        of_acme = connection.execute("SELECT DISTINCT key_id FROM usage WHERE workspace = 'acme'").fetchall()
        assert find_called_names(connection, "key_id", "acme") == {name for (name,) in of_acme}
