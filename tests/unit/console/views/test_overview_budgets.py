"""The budgets of the front page: which come first, what is left of them, and when they end at this rate."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rig.console_reading import NOW, load_page, open_new_ledger
from rig.ledger import make_row
from rig.rollups import build_all, write
from rig.settings_files import ACME, edit, write_files
from rig.written_rows import write_entry

from addon.store.money.sqlite.recount import write_counters
from addon.store.protocol import WalletEntry
from policies.utc_time import format_utc

USD = 10**9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path)
    return tmp_path


def spend(folder: Path, *calls: tuple[str, timedelta, int]) -> None:
    """Write calls of workspaces: how long ago they were, and their nano-USD."""
    with open_new_ledger(folder / "var" / "tollgate.db") as ledger:
        for number, (workspace, ago, nanousd) in enumerate(calls):
            moment = format_utc(NOW - ago)
            write(
                ledger,
                make_row(f"call-{number}", created_at=moment, workspace=workspace, retail_nanousd=nanousd),
            )
        write_entry(ledger, WalletEntry("beta/may", NOW - timedelta(days=8), "beta", 10 * USD, "may"))
        write_counters(ledger)
        build_all(ledger)


def budgets(folder: Path, query: str = "") -> list[dict[str, Any]]:
    conf_file = next(folder.glob("*.conf"))
    return load_page(conf_file, f"/?{query}").tables["budgets"].records()


def test_a_wallet_ends_at_the_rate_of_the_last_seven_days(folder: Path) -> None:
    spend(folder, ("beta", timedelta(days=7), 3 * USD), ("beta", timedelta(days=1), 4 * USD))
    [wallet] = [row for row in budgets(folder) if row["limit"] == "wallet"]
    assert wallet["left_nanousd"] == 10 * USD
    assert (wallet["cap_nanousd"], wallet["used_nanousd"]) == (10 * USD, 0)
    assert wallet["outlook"] == "ends"
    assert wallet["ends_at"] == format_utc(NOW + timedelta(days=10))


def test_a_month_that_ends_first_has_no_end_at_this_rate(folder: Path) -> None:
    edit(folder / ACME, 'plan = "pro"\n', 'plan = "pro"\nmonthly_spend_cap_usd = "100"\n')
    spend(folder, ("acme", timedelta(days=3), 2 * USD))
    [month] = [row for row in budgets(folder) if row["limit"] == "monthly_spend_cap"]
    assert (month["outlook"], month["ends_at"]) == ("resets_first", None)
    assert (month["used_nanousd"], month["left_nanousd"]) == (2 * USD, 98 * USD)
    assert month["used_share"] == pytest.approx(0.02)


def test_a_key_that_began_lately_has_the_rate_since_then(folder: Path) -> None:
    edit(folder / ACME, 'id = "ci"\n', 'id = "ci"\nspend_cap_usd = "10"\nrequest_cap = 6\n')
    spend(folder, *[("acme", timedelta(hours=hours), USD) for hours in (1, 2, 3, 4)])
    found = {row["limit"]: row for row in budgets(folder) if row["workspace"] == "acme"}
    # Four dollars and four calls in the four hours and 20 minutes since the hour of the first call.
    assert found["spend_cap"]["ends_at"] == format_utc(NOW + timedelta(hours=4, minutes=20) / 4 * 6)
    assert found["request_cap"]["ends_at"] == format_utc(NOW + timedelta(hours=4, minutes=20) / 4 * 2)
    assert found["request_cap"]["requests_left"] == 2


def test_a_key_with_earlier_calls_has_the_rate_of_all_seven_days(folder: Path) -> None:
    edit(folder / ACME, 'id = "ci"\n', 'id = "ci"\nspend_cap_usd = "10"\n')
    spend(folder, ("acme", timedelta(days=20), USD), ("acme", timedelta(hours=2), 7 * USD))
    [cap] = [row for row in budgets(folder) if row["limit"] == "spend_cap"]
    assert cap["ends_at"] == format_utc(NOW + timedelta(days=2))


def test_those_that_are_used_up_come_first_and_then_those_that_end(folder: Path) -> None:
    edit(folder / ACME, 'plan = "pro"\n', 'plan = "pro"\nmonthly_spend_cap_usd = "3"\n')
    edit(folder / ACME, 'id = "ci"\n', 'id = "ci"\nspend_cap_usd = "10"\n')
    spend(folder, ("acme", timedelta(days=3), 3 * USD), ("beta", timedelta(days=3), 9 * USD))
    rows = budgets(folder)
    assert [(row["limit"], row["outlook"]) for row in rows[:3]] == [
        ("monthly_spend_cap", "used_up"),
        ("wallet", "ends"),
        ("spend_cap", "ends"),
    ]
    assert rows[0]["used_share"] == 1
    assert rows[1]["ends_at"] < rows[2]["ends_at"]


def test_a_filter_narrows_them(folder: Path) -> None:
    spend(folder, ("beta", timedelta(days=3), USD))
    assert {row["workspace"] for row in budgets(folder, "workspace=beta")} == {"beta"}
    assert budgets(folder, "workspace=gone") == []


def test_a_wallet_that_never_had_a_credit_is_left_out(folder: Path) -> None:
    with open_new_ledger(folder / "var" / "tollgate.db") as ledger:
        write_counters(ledger)
    assert budgets(folder, "workspace=beta") == []
