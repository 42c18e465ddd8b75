"""``tollgate wallet``: balances and histories."""

import csv
import io
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rig.ledger import make_row
from rig.money import USD
from rig.settings_files import edit
from rig.wallet_commands import ledger_of, run, run_json, use

from addon.store.protocol import HoldRequest, Settlement
from policies.spend import MaxCost


def test_balances_of_all_workspaces_show_what_is_in_flight_and_left(folder: Path) -> None:
    run(folder, "credit", "beta", "5")
    row = make_row("open", workspace="beta", retail_nanousd=0)
    max_cost = MaxCost(2 * USD + 1, 0, 1, is_protected=True)
    request = HoldRequest("open", datetime.now(UTC), "beta", "ci", max_cost, (), row)
    use(folder, lambda store: store.hold(request))
    acme = {"workspace": "acme", "balance_nanousd": 0, "held_nanousd": 0, "left_nanousd": 0}
    beta = {
        "workspace": "beta",
        "balance_nanousd": 5 * USD,
        "held_nanousd": 2 * USD + 1,
        "left_nanousd": 3 * USD - 1,
    }
    assert run_json(folder, "balance") == [acme, beta]
    assert run_json(folder, "balance", "beta") == [beta]
    table = [line.split() for line in run(folder, "balance").stdout.splitlines()[3:]]
    assert table == [
        ["acme", "0.00", "0.00", "0.00"],
        ["beta", "5.00", "2.000000001", "2.999999999"],
    ]


def test_history_shows_credits_and_costs_of_calls_newest_first(folder: Path) -> None:
    run(folder, "credit", "acme", "5", "--reference", "invoice 17")
    later = "2099-01-01T00:00:00.000+00:00"
    row = make_row("req_1", created_at=later, retail_nanousd=1_560)
    use(folder, lambda store: store.settle(Settlement(row, from_wallet=True)))
    call, credit = run_json(folder, "history", "acme")
    assert call == {
        "id": "req_1",
        "created_at": later,
        "workspace": "acme",
        "amount_nanousd": -1_560,
        "reference": "call",
    }
    assert (credit["id"], credit["amount_nanousd"], credit["reference"]) == (
        "acme/invoice 17",
        5 * USD,
        "invoice 17",
    )
    as_csv = list(csv.DictReader(io.StringIO(run(folder, "history", "acme", "--csv").stdout)))
    assert as_csv == [{name: str(value) for name, value in one.items()} for one in (call, credit)]
    table = run(folder, "history", "acme").stdout
    assert re.search(r"^req_1 +2099-01-01 00:00:00 +acme +-0\.00000156 +call$", table, re.MULTILINE)
    assert run_json(folder, "history", "acme", "--limit", "1") == [call]


def test_the_balance_of_a_deleted_workspace_is_shown(folder: Path) -> None:
    run(folder, "credit", "beta", "5")
    (folder / "policies/workspaces/beta.toml").unlink()
    assert len(run_json(folder, "history", "beta")) == 1
    assert run_json(folder, "balance", "beta")[0]["balance_nanousd"] == 5 * USD
    assert run(folder, "credit", "beta", "5").exit_code == 1


def test_credits_work_even_if_the_files_do_not_load(folder: Path) -> None:
    edit(folder / "catalog_data/models.toml", '"0.15"', '"dear"')
    edit(folder / "policies/workspaces/acme.toml", 'plan = "pro"', 'plan = "por"')
    assert run(folder, "credit", "acme", "5").exit_code == 0
    assert run_json(folder, "balance", "acme")[0]["balance_nanousd"] == 5 * USD


def test_without_entries_there_is_nothing_to_show_and_no_file_is_created(folder: Path) -> None:
    assert run(folder, "history", "acme").stdout == "The wallet of acme has no entries.\n"
    assert run_json(folder, "history", "acme") == []
    assert run_json(folder, "balance", "acme")[0]["balance_nanousd"] == 0
    assert not ledger_of(folder).exists()
    for file in (folder / "policies/workspaces").iterdir():
        file.unlink()
    assert run(folder, "balance").stdout == "There is no workspace.\n"


@pytest.mark.parametrize("command", ["balance", "history"])
def test_the_error_of_an_unknown_workspace_suggests_the_nearest(folder: Path, command: str) -> None:
    result = run(folder, command, "acm")
    assert result.exit_code == 1
    assert 'unknown workspace "acm"; did you mean "acme"?' in result.stderr


def test_a_history_is_json_or_csv(folder: Path) -> None:
    result = run(folder, "history", "acme", "--json", "--csv")
    assert result.exit_code == 2
    assert "use only one of --json, --csv and --wide" in result.stderr
