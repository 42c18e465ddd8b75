"""``tollgate usage``: the calls and totals that its options select, and the errors of wrong options."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rig.ledger import make_row
from rig.usage_report import run, run_csv, run_json, write_rows

from addon.commands.usage_options import parse_moment


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
        ["--since", "1d", "--until", "2d"],
    ],
)
def test_an_invalid_option_is_a_usage_error(options: list[str], conf: Path) -> None:
    assert run(conf, *options).exit_code == 2


def test_limits_and_refusals_take_no_second_name(conf: Path) -> None:
    assert '"refusals" takes no second name' in run(conf, "--by", "key,refusals").stderr


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
