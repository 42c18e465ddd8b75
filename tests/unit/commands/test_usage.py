"""``tollgate usage``: tables for people, JSON and CSV for programs, from a real ledger."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.ledger import make_row, read_rows, second_connection
from rig.usage_report import CALLS, lines_of, run, run_csv, run_json, write_rows

from addon.commands.output import TABLE_WIDTH

# For people.


def test_the_tables_show_recent_calls_and_totals_by_workspace_model_and_day(conf: Path, ledger: Path) -> None:
    result = run(conf, "--wide")
    assert result.exit_code == 0
    lines = lines_of(result)
    titles = [line for line in result.stdout.splitlines() if line.startswith(("Recent", "By"))]
    assert titles == ["Recent calls (UTC)", "By workspace", "By model", "By day"]
    newest = ["2026-02-01", "09:00:00", "acme", "web", "tester-large", "payg", "chat", "0", "200"]
    assert [*newest, "10", "5", "provider", "0.000002", "25"] in lines
    assert ["acme", "3", "1", "30", "4", "15", "0.000005", "1.000003"] in lines
    assert ["tester-small", "1", "0", "0", "0", "0", "0.000000", "0.000000"] in lines
    assert ["2026-02-01", "2", "0", "10", "4", "5", "0.000002", "0.000002"] in lines


def test_recent_calls_are_listed_newest_first(conf: Path, ledger: Path) -> None:
    shown = [line[1] for line in lines_of(run(conf)) if len(line) > 2 and line[1].count(":") == 2]
    assert shown == ["09:00:00", "08:00:00", "00:00:00", "23:59:59"]


def test_text_of_clients_is_shown_escaped_and_does_not_control_the_terminal(conf: Path) -> None:
    write_rows(conf, [make_row(error_code="\x1b[2Jcleared\u202e\nnext")])
    result = run(conf, "--wide")
    assert r"\x1b[2Jcleared\u202e\nnext" in result.stdout
    assert "\x1b" not in result.stdout


def test_a_table_fits_and_names_the_columns_that_it_leaves_out(conf: Path, ledger: Path) -> None:
    result = run(conf)
    newest = ["2026-02-01", "09:00:00", "acme", "web", "tester-large", "200", "10", "5", "0.000002"]
    assert newest in lines_of(result)
    assert (
        "Not shown: mode, api, fallback, usage_source, duration_ms (--wide shows all)"
        in result.stdout.splitlines()
    )
    assert max(map(len, result.stdout.splitlines())) <= TABLE_WIDTH


def test_a_ledger_of_an_earlier_version_is_shown_without_what_it_lacks(conf: Path, ledger: Path) -> None:
    newest = ["2026-02-01", "09:00:00", "acme", "web", "tester-large", "payg", "0", "200"]
    with second_connection(ledger) as older:
        older.execute("ALTER TABLE usage DROP COLUMN api")
    assert newest in [line[:8] for line in lines_of(run(conf, "--wide"))]
    assert "Not shown: mode, fallback," in run(conf).stdout


@pytest.mark.parametrize(
    "options", [("--format", "json", "--csv"), ("--json", "--csv"), ("--wide", "--json")]
)
def test_there_is_one_form_of_output(conf: Path, ledger: Path, options: tuple[str, ...]) -> None:
    result = run(conf, *options)
    assert result.exit_code == 2
    assert "--json, --csv and --wide" in result.stderr


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_format_has_an_option_of_its_own(conf: Path, ledger: Path, form: str) -> None:
    assert run(conf, f"--{form}").stdout == run(conf, "--format", form).stdout


def test_a_name_that_looks_like_a_number_is_shown_unchanged(conf: Path) -> None:
    write_rows(conf, [make_row(workspace="1e5", key_id="007")])
    assert "1e5" in run(conf).stdout
    assert "007" in run(conf, "--by", "key").stdout


# For programs.


def test_json_holds_every_column_of_the_recent_calls_and_exact_totals(conf: Path, ledger: Path) -> None:
    shown = run_json(conf)
    assert shown["recent"] == read_rows(ledger)[::-1]
    assert list(shown["totals"]) == ["workspace", "model", "day"]
    assert shown["totals"]["workspace"] == [
        {
            "workspace": "acme",
            "calls": 3,
            "failed_calls": 1,
            "prompt_tokens": 30,
            "cached_tokens": 4,
            "completion_tokens": 15,
            "wholesale_nanousd": 4500,
            "retail_nanousd": 1_000_003_120,
        },
        {
            "workspace": "beta",
            "calls": 1,
            "failed_calls": 0,
            "prompt_tokens": 0,
            "cached_tokens": 0,
            "completion_tokens": 0,
            "wholesale_nanousd": 0,
            "retail_nanousd": 0,
        },
    ]


def test_sums_too_large_for_a_float_are_exact(conf: Path) -> None:
    write_rows(conf, [make_row(str(number), retail_nanousd=9_007_199_254_740_993) for number in range(3)])
    [total] = run_json(conf, "--by", "workspace")["totals"]["workspace"]
    assert total["retail_nanousd"] == 27_021_597_764_222_979


def test_csv_holds_every_column_of_the_recent_calls(conf: Path, ledger: Path) -> None:
    expected = [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in CALLS[::-1]
    ]
    assert run_csv(conf) == expected


def test_the_command_line_has_the_command(conf: Path, ledger: Path) -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "addon.cli",
            "usage",
            "--conf",
            conf.name,
            "--format",
            "json",
            "--by",
            "model",
        ],
        cwd=conf.parent,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        timeout=BOUND_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    assert [group["model_slug"] for group in json.loads(ended.stdout)["totals"]["model"]] == [
        "tester-large",
        "tester-small",
    ]
