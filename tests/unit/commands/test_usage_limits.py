"""``tollgate usage``: limits, and what comes from the settings: names and labels."""

import asyncio
import csv
import io
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rig.ledger import make_row, second_connection
from rig.settings_files import edit, write_files
from rig.usage_report import run, run_csv, run_json
from rig.written_rows import write_batch

from addon.settings.settings import load_settings
from addon.store.money.refusal_counts import RefusalBatch, RefusalGroup
from addon.store.money.reports.report import find_limits, ledger_counters, open_report
from addon.store.money.sqlite.store import SqliteStore
from addon.store.protocol import HoldRequest, Settlement, WalletEntry
from policies.spend import MaxCost

# Limits.

LIMITED = f"""\
name = "Acme"
monthly_spend_cap_usd = "250"

[[keys]]
id = "ci"
hash = "sha256:{"1" * 64}"
spend_cap_usd = "20"
request_cap = 10000

[[keys]]
id = "web"
hash = "sha256:{"2" * 64}"

[[keys]]
id = "retired"
hash = "sha256:{"3" * 64}"
active = false
spend_cap_usd = "1"
"""
NOW = datetime.now(UTC)
MONTH = f"{NOW:%Y-%m}"


@pytest.fixture
def limited(tmp_path: Path) -> Path:
    """Return the proxy.conf of files with a standard workspace with every limit, and a Pro one (beta) with none.

    The ledger has a credit of five dollars, a recorded call that cost 1.25, and one in flight that holds 0.5.
    """
    conf = write_files(tmp_path)
    (tmp_path / "policies/workspaces/acme.toml").write_text(LIMITED)
    edit(tmp_path / "policies/workspaces/beta.toml", 'name = "Beta"', 'name = "Beta"\nplan = "pro"')
    moment = NOW.isoformat(timespec="milliseconds")
    done = make_row("done", created_at=moment, retail_nanousd=1_250_000_000)
    open_ = make_row("open", created_at=moment, retail_nanousd=0, usage_source="none", wholesale_nanousd=0)
    max_cost = MaxCost(500_000_000, 0, 1, is_protected=True)

    async def spend() -> None:
        store = SqliteStore(tmp_path / "var" / "tollgate.db")
        assert await store.credit(WalletEntry("acme/invoice", NOW, "acme", 5 * 10**9, "invoice"))
        await store.settle(Settlement(done, from_wallet=True))
        await store.hold(HoldRequest("open", NOW, "acme", "ci", max_cost, (), open_))
        await store.close()

    asyncio.run(spend())
    return conf


def test_limits_are_at_the_end_with_amounts_used_in_flight_and_left(limited: Path) -> None:
    shown = run(limited).stdout
    titles = [line for line in shown.splitlines() if line.startswith(("Recent", "By", "Limits"))]
    assert titles[-1] == "Limits (UTC)"
    table = [re.split(r" {2,}", line) for line in shown.split("Limits (UTC)")[1].splitlines()[4:]]
    assert table == [
        ["acme", "wallet", "ever", "1.25 USD", "0.50 USD", "5.00 USD", "3.25 USD"],
        ["acme", "monthly spend cap", MONTH, "1.25 USD", "0.50 USD", "250.00 USD", "248.25 USD"],
        ["acme", "ci", "request cap", "ever", "1", "1", "10000", "9998"],
        ["acme", "ci", "spend cap", "ever", "1.25 USD", "0.50 USD", "20.00 USD", "18.25 USD"],
    ]
    assert run(limited, "--by", "limits").stdout == "Limits (UTC)" + shown.split("Limits (UTC)")[1]


def test_a_table_of_limits_always_shows_what_is_left(limited: Path) -> None:
    """Amounts in nano-USD, and a long name and label, make the table wider than a terminal."""
    file = limited.parent / "policies/workspaces/acme.toml"
    edit(file, 'id = "ci"', 'id = "ci-of-the-shop-in-the-cloud"\nlabel = "the team of the shop in the cloud"')
    edit(file, 'monthly_spend_cap_usd = "250"', 'monthly_spend_cap_usd = "8999999.999999999"')
    shown = run(limited, "--by", "limits").stdout
    assert max(map(len, shown.splitlines())) <= 100
    assert " left\n" in shown
    assert "9000000.000000 USD" in shown
    assert shown.splitlines()[-1].startswith("Not shown: ")
    assert shown.splitlines()[-1].endswith(" (--wide shows all)")
    assert "8999999.999999999 USD" in run(limited, "--by", "limits", "--wide").stdout


def test_programs_get_limits_as_exact_integers_with_units(limited: Path) -> None:
    shown = run_json(limited)
    assert list(shown) == ["recent", "totals", "refusals", "limits"]
    wallet, month, requests, spend = shown["limits"]
    counts = ("requests", "requests_in_flight", "request_cap", "requests_left")
    amounts = ("spent_nanousd", "held_nanousd", "cap_nanousd", "left_nanousd")
    assert [wallet[name] for name in amounts] == [1_250_000_000, 500_000_000, 5_000_000_000, 3_250_000_000]
    assert [month[name] for name in amounts] == [1_250_000_000, 500_000_000, 250 * 10**9, 248_250_000_000]
    assert [spend[name] for name in amounts] == [1_250_000_000, 500_000_000, 20 * 10**9, 18_250_000_000]
    assert [requests[name] for name in counts] == [1, 1, 10_000, 9_998]
    assert {requests[name] for name in amounts} | {spend[name] for name in counts} == {None}
    assert [row["key_id"] for row in shown["limits"]] == [None, None, "ci", "ci"]
    assert run_json(limited, "--by", "limits") == {"limits": shown["limits"]}
    as_csv = run_csv(limited, "--by", "limits")
    assert as_csv == [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in shown["limits"]
    ]


def test_limits_can_be_those_of_one_workspace_or_the_first_few(limited: Path) -> None:
    assert len(run_json(limited, "--workspace", "acme")["limits"]) == 4
    assert run_json(limited, "--workspace", "beta", "--by", "limits") == {"limits": []}
    assert run(limited, "--workspace", "beta", "--by", "limits").stdout == "There is no limit.\n"
    assert len(run_json(limited, "--by", "limits", "--limit", "3")["limits"]) == 3


def test_each_limit_is_that_of_the_current_period(limited: Path) -> None:
    later = datetime(NOW.year + 1, 7, 15, 12, tzinfo=UTC)
    acme = load_settings(limited, {}).workspaces["acme"]
    resets = replace(acme.keys[0], spend_reset="weekly", request_reset="daily")
    with open_report(limited.parent / "var" / "tollgate.db") as ledger:
        table = find_limits(ledger_counters(ledger), [replace(acme, keys=(resets,))], later, {})
    found = {row["limit"]: row for row in table.records()}
    assert found["request_cap"]["period"] == later.date().isoformat()
    assert found["spend_cap"]["period"] == f"{later:%G-W%V}"
    assert found["monthly_spend_cap"]["period"] == f"{later:%Y-%m}"
    assert [found[name]["spent_nanousd"] for name in ("spend_cap", "monthly_spend_cap")] == [0, 0]
    assert found["spend_cap"]["held_nanousd"] == 0
    assert (found["request_cap"]["requests"], found["request_cap"]["requests_in_flight"]) == (0, 0)
    assert found["wallet"]["cap_nanousd"] == 3_750_000_000


@pytest.mark.parametrize(
    ("option", "value", "refusals"),
    [
        ("--model", "tester-large", []),
        ("--provider", "TESTER", []),
        ("--status", "200", []),
        ("--since", "2026-01-01", ["refusals"]),
        ("--until", "2026-01-01", ["refusals"]),
    ],
)
def test_selected_calls_are_shown_without_limits(
    limited: Path, option: str, value: str, refusals: list[str]
) -> None:
    assert list(run_json(limited, option, value)) == ["recent", "totals", *refusals]
    refused = run(limited, "--by", "limits", option, value)
    assert refused.exit_code == 2
    assert "limits are those of the current periods" in refused.stderr


def test_calls_are_shown_even_if_the_files_do_not_load(limited: Path) -> None:
    edit(limited.parent / "catalog_data/models.toml", '"0.15"', '"dear"')
    result = run(limited)
    assert result.exit_code == 0
    assert "By workspace" in result.stdout
    assert "Limits" not in result.stdout
    assert result.stderr.startswith("limits are not shown: ")
    assert "models.toml: gpt-4o-mini.input_price_per_m" in result.stderr
    assert list(run_json(limited)) == ["recent", "totals", "refusals"]
    alone = run(limited, "--by", "limits")
    assert (alone.exit_code, alone.stdout) == (1, "")
    assert "models.toml: gpt-4o-mini.input_price_per_m" in alone.stderr


def test_a_ledger_older_than_limits_is_shown_without_them(limited: Path) -> None:
    with second_connection(limited.parent / "var" / "tollgate.db") as ledger:
        ledger.execute("DROP TABLE spend")
    result = run(limited)
    assert result.exit_code == 0
    assert "By workspace" in result.stdout
    assert result.stderr == "limits are not shown: no such table: spend\n"


# Labels of keys.


@pytest.fixture
def labelled(limited: Path) -> Path:
    """Return the proxy.conf of ``limited`` with a label for the key ``ci``, and with a refused call of two keys."""
    edit(limited.parent / "policies/workspaces/acme.toml", 'id = "ci"', 'id = "ci"\nlabel = "CI of the shop"')
    groups = {RefusalGroup("2026-02-01T00", "acme", key, "payment_required"): 1 for key in ("ci", "gone")}
    with second_connection(limited.parent / "var" / "tollgate.db") as connection:
        write_batch(connection, RefusalBatch("1", groups))
    return limited


@pytest.mark.parametrize("by", ["key", "key,day", "model,key", "limits", "refusals"])
def test_each_row_of_a_key_has_its_label_last_in_json_and_csv_and_next_to_the_key_in_text(
    labelled: Path, by: str
) -> None:
    shown = run_json(labelled, "--by", by)
    (rows,) = shown["totals"].values() if "totals" in shown else shown.values()
    assert {list(row)[-1] for row in rows} == {"label"}
    assert {row["label"] for row in rows if row["key_id"] == "ci"} == {"CI of the shop"}
    assert {row["label"] for row in rows if row["key_id"] in (None, "gone")} <= {None}
    as_csv = run_csv(labelled, "--by", by)
    assert [row["label"] for row in as_csv] == [row["label"] or "" for row in rows]
    text = run(labelled, "--by", by).stdout
    assert re.search(r"key(\nid)?  label|key +label", text)
    assert re.search(r"ci +CI of the shop", text)


def test_a_table_without_a_label_has_no_column_for_it(limited: Path) -> None:
    for by in ("key", "limits"):
        assert "label" not in run(limited, "--by", by, "--wide").stdout
        assert {row["label"] for row in run_csv(limited, "--by", by)} == {""}


def test_without_settings_a_report_has_no_labels_and_one_line_says_so(labelled: Path) -> None:
    edit(labelled.parent / "catalog_data/models.toml", '"0.15"', '"dear"')
    result = run(labelled, "--by", "key", "--csv")
    assert result.exit_code == 0
    assert next(csv.DictReader(io.StringIO(result.stdout)))["label"] == ""
    assert result.stderr.startswith("labels of keys are not shown: ")
    assert "labels of keys" not in run(labelled).stderr, "the line about the limits has the reason"


@pytest.mark.parametrize(
    "options",
    [("--workspace", "beta"), ("--key", "retired"), ("--model", "gpt-4o-mini"), ("--provider", "OPENAI")],
)
def test_a_name_of_the_settings_is_known_before_its_first_call(
    limited: Path, options: tuple[str, str]
) -> None:
    result = run(limited, *options)
    assert result.exit_code == 0, result.stderr
    assert "No recorded call matches." in result.stdout


def test_a_deleted_workspace_is_known_as_long_as_the_ledger_has_it(limited: Path) -> None:
    (limited.parent / "policies/workspaces/acme.toml").unlink()
    assert len(run_json(limited, "--workspace", "acme", "--key", "ci")["recent"]) == 1
