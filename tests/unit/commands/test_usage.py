"""``tollgate usage``: tables for people, JSON and CSV for programs, from a real ledger."""

import json
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.ledger import locked_by_another, make_row, read_rows, second_connection
from rig.usage_report import lines_of, run, run_csv, run_json, write_rows

from addon.commands.output import TABLE_WIDTH
from addon.commands.usage_options import parse_moment
from addon.store.ledger.refusals import write_batch
from addon.store.ledger.report import open_report
from addon.store.refusals import RefusalBatch, RefusalGroup

CALLS = [
    make_row("first", created_at="2026-01-30T23:59:59.999+00:00", retail_nanousd=1_000_000_000),
    make_row("failed", created_at="2026-01-31T00:00:00.000+00:00", status=502, error_code="upstream_error"),
    make_row(
        "other",
        created_at="2026-02-01T08:00:00.000+00:00",
        workspace="beta",
        key_id="ci",
        model_slug="tester-small",
        prompt_tokens=None,
        cached_tokens=None,
        completion_tokens=None,
        total_tokens=None,
        usage_source="none",
        wholesale_nanousd=0,
        retail_nanousd=0,
    ),
    make_row("last", created_at="2026-02-01T09:00:00.000+00:00", key_id="web", cached_tokens=4),
]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    file = tmp_path / "proxy.conf"
    file.write_text('[paths]\ndatabase = "var/ledger.db"\n')
    return file


@pytest.fixture
def ledger(conf: Path) -> Path:
    return write_rows(conf, CALLS)


# For people.


def test_the_tables_show_recent_calls_and_totals_by_workspace_model_and_day(conf: Path, ledger: Path) -> None:
    result = run(conf, "--wide")
    assert result.exit_code == 0
    lines = lines_of(result)
    titles = [line for line in result.stdout.splitlines() if line.startswith(("Recent", "By"))]
    assert titles == ["Recent calls (UTC)", "By workspace", "By model", "By day"]
    newest = ["2026-02-01", "09:00:00", "acme", "web", "tester-large", "payg", "0", "200"]
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
    newest = ["2026-02-01", "09:00:00", "acme", "web", "teste…large", "200", "10", "5", "0.000002", "25"]
    assert newest in lines_of(result)
    assert "Not shown: mode, fallback, usage_source (--wide shows all)" in result.stdout.splitlines()
    assert max(map(len, result.stdout.splitlines())) <= TABLE_WIDTH


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


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("workspace", [["acme", 3], ["beta", 1]]),
        ("model", [["tester-large", 3], ["tester-small", 1]]),
        ("day", [["2026-02-01", 2], ["2026-01-31", 1], ["2026-01-30", 1]]),
        ("key", [["acme", "ci", 2], ["acme", "web", 1], ["beta", "ci", 1]]),
    ],
)
def test_totals_by_one_column_only(by: str, names: list[list[Any]], conf: Path, ledger: Path) -> None:
    shown = run_json(conf, "--by", by)
    assert list(shown) == ["totals"]
    assert list(shown["totals"]) == [by]
    groups = [list(group.values()) for group in shown["totals"][by]]
    assert [group[: len(names[0])] for group in groups] == names
    as_csv = [list(row.values()) for row in run_csv(conf, "--by", by)]
    assert as_csv == [["" if value is None else str(value) for value in group] for group in groups]
    assert [line for line in run(conf, "--by", by).stdout.splitlines() if line.startswith("By")] == [
        f"By {by}"
    ]


def test_csv_holds_every_column_of_the_recent_calls(conf: Path, ledger: Path) -> None:
    expected = [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in CALLS[::-1]
    ]
    assert run_csv(conf) == expected


# Selected calls.


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], ["last", "other", "failed", "first"]),
        (["--workspace", "beta"], ["other"]),
        (["--model", "tester-large"], ["last", "failed", "first"]),
        (["--workspace", "beta", "--model", "tester-large"], []),
        (["--key", "ci"], ["other", "failed", "first"]),
        (["--key", "ci", "--workspace", "acme"], ["failed", "first"]),
        (["--provider", "TESTER"], ["last", "other", "failed", "first"]),
        (["--mode", "byok"], []),
        (["--mode", "payg", "--status", "502"], ["failed"]),
        (["--status", "502"], ["failed"]),
        (["--status", "503"], []),
        (["--status", "5xx"], ["failed"]),
        (["--status", "error", "--since", "2026-01-31"], ["failed"]),
        (["--status", "2xx", "--workspace", "acme"], ["last", "first"]),
        (["--since", "2026-01-31"], ["last", "other", "failed"]),
        (["--until", "2026-01-31"], ["first"]),
        (["--since", "2026-01-31", "--until", "2026-02-01T09:00"], ["other", "failed"]),
        (["--since", "2026-02-01T10:00:00+01:00"], ["last"]),
        (["--since", "0d"], []),
        (["--until", "0m"], ["last", "other", "failed", "first"]),
        (["--limit", "2"], ["last", "other"]),
    ],
    ids=" ".join,
)
def test_only_the_selected_calls_are_shown(
    options: list[str], ids: list[str], conf: Path, ledger: Path
) -> None:
    shown = run_json(conf, *options)
    assert [call["id"] for call in shown["recent"]] == ids
    if "--limit" not in options:
        assert sum(group["calls"] for group in shown["totals"]["day"]) == len(ids)


def test_without_a_limit_twenty_calls_are_shown_and_every_total(conf: Path) -> None:
    write_rows(conf, [make_row(f"call-{number}", workspace=f"w{number}") for number in range(25)])
    shown = run_json(conf)
    assert len(shown["recent"]) == 20
    assert len(shown["totals"]["workspace"]) == 25
    assert len(run_csv(conf, "--by", "workspace", "--limit", "3")) == 3


@pytest.mark.parametrize(
    "text", ["yesterday", "7", "d", "-7d", "7 d", "2026-02-30", "999999999d", "0001-01-01T00:00+01:00"]
)
def test_an_invalid_moment_is_a_usage_error_with_the_option(text: str, conf: Path, ledger: Path) -> None:
    result = run(conf, "--since", text)
    assert result.exit_code == 2
    assert "Invalid value for '--since'" in result.stderr
    assert repr(text) in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--by", "vendor"],
        ["--by", "key,vendor"],
        ["--by", "key,key"],
        ["--by", "key,day,model"],
        ["--by", "key,limits"],
        ["--by", ""],
        ["--limit", "0"],
        ["--format", "xml"],
        ["--mode", "free"],
        ["--status", "600"],
        ["--status", "4XX"],
        ["--status", "ok"],
        ["--by", "refusals", "--model", "tester-large"],
        ["--by", "refusals", "--status", "4xx"],
        ["--by", "limits", "--provider", "TESTER"],
    ],
)
def test_an_invalid_option_is_a_usage_error(options: list[str], conf: Path) -> None:
    assert run(conf, *options).exit_code == 2


# Names.


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--workspace", "acne"], 'unknown workspace "acne"; did you mean "acme"?'),
        (["--workspace", "' OR 1=1 --"], 'unknown workspace "\' OR 1=1 --"; known are acme, beta'),
        (["--key", "co"], 'unknown key "co"; did you mean "ci"?'),
        (["--key", "web", "--workspace", "beta"], 'unknown key "web"; known are ci'),
        (["--model", "tester-larg"], 'unknown model "tester-larg"; did you mean "tester-large"?'),
        (["--provider", "tester"], 'unknown provider "tester"; did you mean "TESTER"?'),
    ],
)
def test_an_unknown_name_is_an_error_that_suggests_the_nearest(
    conf: Path, ledger: Path, options: list[str], error: str
) -> None:
    result = run(conf, *options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert error in result.stderr


# Two dimensions.


def test_totals_by_two_names_are_sorted_by_the_first_and_within_it_by_the_second(
    conf: Path, ledger: Path
) -> None:
    shown = run_json(conf, "--by", "key,day")["totals"]["key,day"]
    assert [(one["workspace"], one["key_id"], one["day"], one["calls"]) for one in shown] == [
        ("acme", "ci", "2026-01-31", 1),
        ("acme", "ci", "2026-01-30", 1),
        ("acme", "web", "2026-02-01", 1),
        ("beta", "ci", "2026-02-01", 1),
    ]
    turned = run_csv(conf, "--by", "day, key")
    assert [(one["day"], one["workspace"], one["key_id"]) for one in turned] == [
        ("2026-02-01", "acme", "web"),
        ("2026-02-01", "beta", "ci"),
        ("2026-01-31", "acme", "ci"),
        ("2026-01-30", "acme", "ci"),
    ]
    assert "By key and day" in run(conf, "--by", "key,day").stdout.splitlines()


# Refusals.

REFUSED = {
    RefusalGroup("2026-01-31T11", "acme", "ci", "rate_limit_exceeded"): 2,
    RefusalGroup("2026-01-31T12", "acme", "ci", "rate_limit_exceeded"): 40,
    RefusalGroup("2026-01-31T12", "acme", "web", "payment_required"): 1,
    RefusalGroup("2026-02-01T00", "gone", "ci", "byok_required"): 5,
    RefusalGroup("2026-02-01T01", "", "", "invalid_api_key"): 7,
}


@pytest.fixture
def refused(conf: Path, ledger: Path) -> Path:
    with second_connection(ledger) as connection:
        write_batch(connection, RefusalBatch("1", REFUSED))
    return conf


def test_refused_calls_are_shown_by_workspace_key_and_code_with_their_last_hour(refused: Path) -> None:
    shown = run_json(refused)["refusals"]
    assert [list(one.values())[:5] for one in shown] == [
        ["acme", "ci", "rate_limit_exceeded", 42, "2026-01-31T12"],
        [None, None, "invalid_api_key", 7, "2026-02-01T01"],
        ["gone", "ci", "byok_required", 5, "2026-02-01T00"],
        ["acme", "web", "payment_required", 1, "2026-01-31T12"],
    ]
    assert list(shown[0]) == ["workspace", "key_id", "code", "count", "last_hour", "label"]
    assert run_json(refused, "--by", "refusals") == {"refusals": shown}
    text = run(refused).stdout
    assert ["acme", "ci", "rate_limit_exceeded", "42", "2026-01-31T12"] in [
        line.split() for line in text.splitlines()
    ]
    assert text.index("By day") < text.index("Refused calls (UTC)")
    assert run(refused, "--by", "refusals").stdout == text[text.index("Refused calls (UTC)") :]
    assert [one["count"] for one in run_csv(refused, "--by", "refusals")] == ["42", "7", "5", "1"]


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        (["--workspace", "acme"], [42, 1]),
        (["--workspace", "gone"], [5]),
        (["--key", "ci"], [42, 5]),
        (["--workspace", "acme", "--key", "web"], [1]),
        (["--since", "2026-01-31T12:30"], [40, 7, 5, 1]),
        (["--since", "2026-01-31T13:00"], [7, 5]),
        (["--until", "2026-01-31T12:00"], [2]),
        (["--until", "2026-01-31T12:01"], [42, 1]),
        (["--limit", "2"], [42, 7]),
    ],
)
def test_refusals_can_be_those_of_one_workspace_key_or_time(
    refused: Path, options: list[str], counts: list[int]
) -> None:
    assert [one["count"] for one in run_json(refused, *options)["refusals"]] == counts


def test_a_ledger_without_refusals_says_so(conf: Path, ledger: Path) -> None:
    assert run(conf, "--by", "refusals").stdout == f"There is no refused call yet in {ledger}.\n"
    assert run(conf, "--by", "refusals", "--since", "1d").stdout == "No refused call matches.\n"
    with second_connection(ledger) as older:
        older.execute("DROP TABLE refusals")
    assert run_json(conf)["refusals"] == []


# A ledger that is missing, busy or broken.


def test_without_a_ledger_there_are_no_calls_and_no_file_is_created(conf: Path) -> None:
    result = run(conf)
    assert result.exit_code == 0
    assert result.stdout == f"There is no recorded call yet in {conf.parent / 'var' / 'ledger.db'}.\n"
    assert run_json(conf) == {
        "recent": [],
        "totals": {"workspace": [], "model": [], "day": []},
        "refusals": [],
    }
    assert run(conf, "--format", "csv").stdout == ",".join(make_row()) + "\n"
    assert not (conf.parent / "var").exists()


def test_an_empty_ledger_and_an_empty_selection_have_different_messages(conf: Path) -> None:
    path = write_rows(conf, [])
    assert run(conf).stdout == f"There is no recorded call yet in {path}.\n"
    assert run(conf, "--since", "1d").stdout == "No recorded call matches.\n"


def test_a_ledger_can_be_read_while_it_is_written(conf: Path, ledger: Path) -> None:
    with locked_by_another(ledger):
        assert len(run_json(conf)["recent"]) == len(CALLS)


def test_a_report_cannot_write_to_the_ledger(ledger: Path) -> None:
    with open_report(ledger) as connection, pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM usage")
    assert read_rows(ledger) == CALLS


def test_an_error_names_a_file_that_is_not_a_ledger(conf: Path) -> None:
    path = conf.parent / "var" / "ledger.db"
    path.parent.mkdir()
    path.write_text("not a database " * 100)
    result = run(conf)
    assert result.exit_code == 1
    assert result.stderr == f"Error: {path}: can't be read: file is not a database\n"


def test_a_ledger_is_found_under_a_name_with_special_characters_of_urls(tmp_path: Path) -> None:
    folder = tmp_path / "what? 100%23 #1"
    folder.mkdir()
    conf = folder / "proxy.conf"
    conf.write_text('[paths]\ndatabase = "var/ledger.db"\n')
    write_rows(conf, CALLS)
    assert len(run_json(conf)["recent"]) == len(CALLS)


def test_an_error_names_a_missing_conf_file(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere.conf")
    assert result.exit_code == 1
    assert "nowhere.conf: no such file" in result.stderr


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


# Moments.

MARCH = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", "2026-01-31T00:00:00+00:00"),
        ("2026-01-31T09:30", "2026-01-31T09:30:00+00:00"),
        ("2026-01-31T09:30:00Z", "2026-01-31T09:30:00+00:00"),
        ("2026-01-31T09:30+05:30", "2026-01-31T04:00:00+00:00"),
        ("90m", "2026-03-01T10:30:00+00:00"),
        ("12h", "2026-03-01T00:00:00+00:00"),
        ("7d", "2026-02-22T12:00:00+00:00"),
        ("2w", "2026-02-15T12:00:00+00:00"),
    ],
)
def test_a_moment_is_a_date_a_time_or_a_length_of_time_ago(text: str, moment: str) -> None:
    assert parse_moment(text, MARCH).isoformat() == moment
