"""``/workspaces``: totals, states, what is left, search, sort and pages."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from rig.commands import tollgate
from rig.console_reading import NOW, load_page, open_new_ledger
from rig.large import sampled
from rig.ledger import make_row
from rig.rollups import write
from rig.settings_files import ACME, BETA, edit, write_files
from rig.written_rows import write_entry

from addon.console.cells import NOTHING
from addon.console.query import ParameterError
from addon.console.views.workspaces import PAGE_ROWS
from addon.store.money.sqlite.recount import write_counters
from addon.store.protocol import WalletEntry

MINUTE = "2026-01-31T14:10:00.000+00:00"
YESTERDAY = "2026-01-30T10:00:00.000+00:00"


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    conf_file = write_files(tmp_path)
    with open_new_ledger(tmp_path / "var" / "tollgate.db") as ledger:
        write(ledger, make_row("a", created_at=MINUTE, retail_nanousd=70))
        write(ledger, make_row("b", created_at=MINUTE, status=502, retail_nanousd=0))
        write(ledger, make_row("c", created_at=MINUTE, workspace="beta", retail_nanousd=300))
        write(ledger, make_row("d", created_at=MINUTE, workspace="gone", retail_nanousd=5))
        write(ledger, make_row("e", created_at=YESTERDAY, retail_nanousd=1_000))
        refuse(ledger, "acme", 4)
        write_entry(ledger, WalletEntry("beta/may", NOW, "beta", 2_000, "may"))
        write_counters(ledger)
    return conf_file


def refuse(ledger: sqlite3.Connection, workspace: str, count: int) -> None:
    values = ("2026-01-31T14", workspace, "ci", "rate_limit_exceeded", count)
    ledger.execute(
        "INSERT INTO refusals (hour, workspace, key_id, code, count) VALUES (?, ?, ?, ?, ?)", values
    )


def rows(conf_file: Path, url: str) -> dict[str, dict[str, Any]]:
    records = load_page(conf_file, url).tables["workspaces"].records()
    return {row["workspace"]: row for row in records}


def test_a_row_has_plan_keys_use_and_what_is_left(conf_file: Path) -> None:
    found = rows(conf_file, "/workspaces?range=hour")
    assert found["acme"] == {
        "workspace": "acme",
        "name": "Acme",
        "state": "served",
        "plan": "pro",
        "limit_rpm": 120,
        "keys": 2,
        "active_keys": 1,
        "calls": 2,
        "failed_calls": 1,
        "error_rate": 0.5,
        "retail_nanousd": 70,
        "refused_calls": 4,
        "wallet_left_nanousd": None,
        "month_left_nanousd": None,
        "warnings": 1,
        "wallet_balance_nanousd": None,
        "last_credit_nanousd": None,
        "month_cap_nanousd": None,
    }
    assert found["beta"]["wallet_left_nanousd"] == 2_000
    assert (found["beta"]["wallet_balance_nanousd"], found["beta"]["last_credit_nanousd"]) == (2_000, 2_000)
    assert found["beta"]["calls"] == 1


def test_the_time_limits_the_totals(conf_file: Path) -> None:
    assert rows(conf_file, "/workspaces?range=7d")["acme"]["retail_nanousd"] == 1_070


def test_what_is_left_of_the_month_is_that_of_usage(conf_file: Path) -> None:
    edit(conf_file.parent / ACME, 'plan = "pro"\n', 'plan = "pro"\nmonthly_spend_cap_usd = "2"\n')
    assert rows(conf_file, "/workspaces")["acme"]["month_left_nanousd"] == 2 * 10**9 - 1_070


def test_what_is_left_of_a_wallet_is_that_of_the_command(conf_file: Path) -> None:
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        write_entry(ledger, WalletEntry("acme/may", NOW, "acme", 9 * 10**9, "may"))
        write_entry(ledger, WalletEntry("gone/may", NOW, "gone", 500, "may"))
        write_entry(ledger, WalletEntry("gone/end", NOW, "gone", -2_000, "end"))
        ledger.execute("DELETE FROM spend")
        write_counters(ledger)
    shown = tollgate(conf_file.parent, "wallet", "balance", "--json").stdout
    left = {row["workspace"]: row["left_nanousd"] for row in json.loads(shown)}
    found = {one: row["wallet_left_nanousd"] for one, row in rows(conf_file, "/workspaces").items()}
    # Acme is Pro: it needs no wallet, and has one.
    assert found == left == {"acme": 9 * 10**9, "beta": 2_000, "gone": -1_500}


def test_what_is_used_and_left_of_a_wallet_is_the_same_on_each_page_and_in_each_command(
    conf_file: Path,
) -> None:
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        write_entry(ledger, WalletEntry("beta/new", NOW, "beta", 10 * 10**9, "new"))
        write_entry(ledger, WalletEntry("beta/end", NOW, "beta", -4 * 10**9, "end"))
        ledger.execute("DELETE FROM spend")
        write_counters(ledger)
    amounts = ("used", "cap_nanousd", "left_nanousd")
    wallet = [4 * 10**9 - 2_000, 10 * 10**9, 6 * 10**9 + 2_000]

    shown = json.loads(tollgate(conf_file.parent, "usage", "--by", "limits", "--json").stdout)["limits"]
    of_page = load_page(conf_file, "/workspaces/beta").tables["limits"].records()
    of_front = load_page(conf_file, "/overview").tables["budgets"].records()
    for table in (shown, of_page, of_front):
        [row] = [row for row in table if (row["workspace"], row["limit"]) == ("beta", "wallet")]
        row["used"] = row.get("used_nanousd", row.get("spent_nanousd"))
        assert [row[name] for name in amounts] == wallet


def test_budgets_are_bars_where_they_have_a_whole(conf_file: Path) -> None:
    edit(conf_file.parent / ACME, 'plan = "pro"\n', 'plan = "pro"\nmonthly_spend_cap_usd = "2"\n')
    view = load_page(conf_file, "/workspaces")
    cells = view.shown["budget_cells"]
    by_id = {row["workspace"]: row for row in view.tables["workspaces"].records()}
    month = cells["month_left_nanousd"](by_id["acme"])
    assert (month.text, month.svg is not None) == ("$2.00", True)
    assert month.title == "$1.99999893 left of $2.00"
    assert cells["wallet_left_nanousd"](by_id["acme"]) is NOTHING
    wallet = cells["wallet_left_nanousd"](by_id["beta"])
    assert (wallet.text, wallet.svg is not None) == ("$0.000002", True)
    assert "used since the last credit" in wallet.title


def test_a_workspace_without_a_file_is_marked(conf_file: Path) -> None:
    gone = rows(conf_file, "/workspaces")["gone"]
    assert (gone["state"], gone["plan"], gone["retail_nanousd"]) == ("deleted", None, 5)


def test_a_file_that_never_loaded_is_not_served(conf_file: Path) -> None:
    edit(conf_file.parent / BETA, 'name = "Beta"', "name = 7")
    assert rows(conf_file, "/workspaces")["beta"]["state"] == "not served"


def test_the_last_good_settings_are_marked(conf_file: Path) -> None:
    last_good = conf_file.parent / "var" / "last-good"
    last_good.mkdir()
    (last_good / "beta.toml").write_bytes((conf_file.parent / BETA).read_bytes())
    edit(conf_file.parent / BETA, 'name = "Beta"', "name = 7")
    assert rows(conf_file, "/workspaces")["beta"]["state"] == "last good"


@sampled(every=4)
@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("", ["beta", "acme", "gone"]),
        ("sort=-retail_nanousd", ["beta", "acme", "gone"]),
        ("sort=retail_nanousd", ["gone", "acme", "beta"]),
        ("sort=-calls", ["acme", "beta", "gone"]),
        ("sort=-error_rate", ["acme", "beta", "gone"]),
        ("sort=-refused_calls", ["acme", "beta", "gone"]),
        ("sort=workspace", ["acme", "beta", "gone"]),
        ("sort=-workspace", ["gone", "beta", "acme"]),
        ("q=BET", ["beta"]),
        ("q=A", ["beta", "acme"]),
        ("q=nothing", []),
        ("after=300~beta", ["acme", "gone"]),
        ("after=70~acme", ["gone"]),
        ("sort=workspace&after=0~acme", ["beta", "gone"]),
        ("sort=-workspace&after=0~beta", ["acme"]),
        ("sort=calls&after=1~beta", ["gone", "acme"]),
    ],
)
def test_the_order_and_the_choice_of_rows(conf_file: Path, query: str, order: list[str]) -> None:
    found = list(rows(conf_file, f"/workspaces?range=hour&{query}"))
    assert found == order


@pytest.mark.parametrize("after", ["beta", "~beta", "-1~beta", "x~beta"])
def test_a_wrong_place_is_named(conf_file: Path, after: str) -> None:
    with pytest.raises(ParameterError, match="after: must be the next_after of a page"):
        load_page(conf_file, f"/workspaces?after={after}")


def test_pages_have_each_of_many_workspaces_once(conf_file: Path) -> None:
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        for number in range(2 * PAGE_ROWS):
            row = make_row(f"m{number}", created_at=MINUTE, workspace=f"many-{number}", retail_nanousd=9)
            write(ledger, row)
    seen, after = list[str](), ""
    while after is not None:
        view = load_page(conf_file, f"/workspaces?after={after}")
        page = [row["workspace"] for row in view.tables["workspaces"].records()]
        assert len(page) <= PAGE_ROWS
        seen += page
        after = view.values["next_after"]
    assert len(seen) == len(set(seen)) == 2 * PAGE_ROWS + 3 == view.values["workspaces_found"]


def test_counters_that_cannot_be_read_leave_the_rest(conf_file: Path) -> None:
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        ledger.execute("UPDATE ledger SET redis_state = 'elsewhere'")
    view = load_page(conf_file, "/workspaces")
    assert "the counters are in Redis" in view.values["counters_fault"]
    assert {row["wallet_left_nanousd"] for row in view.tables["workspaces"].records()} == {None}
