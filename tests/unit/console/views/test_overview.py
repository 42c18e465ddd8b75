"""``/``: figures next to those before, spend over time, refusals, providers, and what is missing."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from rig.console_html import render_page
from rig.console_reading import NOW, load_page, open_new_ledger
from rig.large import sampled
from rig.ledger import make_row
from rig.rollups import build_all, write
from rig.settings_files import ACME, edit, write_files

from addon.console.query import ParameterError
from addon.console.time_range import TimeRange
from addon.console.view import View
from addon.console.views.overview_spend import LARGEST, choose_step
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.report import find_totals, open_report
from addon.store.money.sqlite.recount import write_counters
from addon.telemetry.metric_families import Sample

TODAY = "2026-01-31T14:10:00.000+00:00"
MORNING = "2026-01-31T08:05:00.000+00:00"
DAY_BEFORE = "2026-01-30T10:00:00.000+00:00"


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    conf_file = write_files(tmp_path)
    with open_new_ledger(tmp_path / "var" / "tollgate.db") as ledger:
        write(ledger, make_row("a", created_at=TODAY, retail_nanousd=70, first_byte_ms=100, duration_ms=900))
        write(ledger, make_row("b", created_at=TODAY, status=502, retail_nanousd=0, first_byte_ms=None))
        write(ledger, make_row("c", created_at=MORNING, workspace="beta", retail_nanousd=300, model_slug="x"))
        write(ledger, make_row("d", created_at=DAY_BEFORE, retail_nanousd=185))
        refuse(ledger, "2026-01-31T14", "acme", 4)
        refuse(ledger, "2026-01-20T14", "acme", 9)
        write_counters(ledger)
        build_all(ledger)
    return conf_file


def refuse(ledger: sqlite3.Connection, hour: str, workspace: str, count: int) -> None:
    values = (hour, workspace, "ci", "rate_limit_exceeded", count)
    ledger.execute(
        "INSERT INTO refusals (hour, workspace, key_id, code, count) VALUES (?, ?, ?, ?, ?)", values
    )


def figures(view: View) -> list[dict[str, Any]]:
    return view.tables["figures"].records()


def test_the_figures_of_a_time_are_next_to_those_before(conf_file: Path) -> None:
    now, before = figures(load_page(conf_file, "/"))
    assert now["time"] == "now"
    assert (now["calls"], now["failed_calls"], now["retail_nanousd"]) == (3, 1, 370)
    assert now["error_rate"] == pytest.approx(1 / 3)
    assert (now["p50_first_byte_ms"], now["p95_duration_ms"]) == (11, 1024)
    assert (now["from"], now["to"]) == ("2026-01-30T14:20:00.000+00:00", "2026-01-31T14:20:00.000+00:00")
    assert (before["calls"], before["retail_nanousd"]) == (1, 185)
    assert before["to"] == now["from"]


@sampled(every=5)
@pytest.mark.parametrize(
    "query", ["range=hour", "", "range=7d", "range=month", "from=2026-01-01&to=2026-01-31"]
)
@pytest.mark.parametrize(
    "chosen", ["", "workspace=acme", "key=ci", "model=x", "provider=TESTER", "workspace=beta&model=x"]
)
def test_every_sum_is_that_of_usage(conf_file: Path, query: str, chosen: str) -> None:
    view = load_page(conf_file, f"/?{query}&{chosen}")
    given = dict(part.split("=") for part in chosen.split("&") if part)
    now = figures(view)[0]
    until = now["to"] if "from=" in query else None
    wanted = Filter(since=now["from"], until=until, **given)
    with open_report(conf_file.parent / "var" / "tollgate.db") as ledger:
        for name, table in (("model", "models"), ("workspace", "workspaces"), ("provider", "providers")):
            expected = find_totals(ledger, name, wanted, None)
            found = view.tables[table].records()
            common = [column for column in expected.columns if column in view.tables[table].columns]
            assert [[row[column] for column in common] for row in found if row["calls"]] == [
                [row[column] for column in common] for row in expected.records()
            ]
            for column in ("calls", "prompt_tokens", "cached_tokens", "wholesale_nanousd", "retail_nanousd"):
                assert now[column] == sum(row[column] for row in expected.records())
    assert sum(row["retail_nanousd"] for row in view.tables["spend"].records()) == now["retail_nanousd"]
    assert sum(row["calls"] for row in view.tables["spend"].records()) == now["calls"]


def test_spend_is_split_by_model_key_or_workspace(conf_file: Path) -> None:
    rows = load_page(conf_file, "/?by=key").tables["spend"].records()
    assert rows == [
        {
            "begins_at": "2026-01-31T08:00:00.000+00:00",
            "workspace": "beta",
            "key_id": "ci",
            "calls": 1,
            "retail_nanousd": 300,
        },
        {
            "begins_at": "2026-01-31T14:00:00.000+00:00",
            "workspace": "acme",
            "key_id": "ci",
            "calls": 2,
            "retail_nanousd": 70,
        },
    ]
    by_workspace = load_page(conf_file, "/?by=workspace&range=hour").tables["spend"].records()
    assert [(row["begins_at"][11:16], row["workspace"], row["calls"]) for row in by_workspace] == [
        ("14:10", "acme", 2)
    ]


def test_the_smallest_names_are_one(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    with open_new_ledger(tmp_path / "var" / "tollgate.db") as ledger:
        for number in range(LARGEST + 3):
            model = f"model-{number}"
            write(ledger, make_row(model, created_at=TODAY, model_slug=model, retail_nanousd=100 - number))
    rows = load_page(conf_file, "/").tables["spend"].records()
    assert [row["model_slug"] for row in rows] == [*(f"model-{number}" for number in range(LARGEST)), None]
    assert (rows[-1]["calls"], rows[-1]["retail_nanousd"]) == (3, 94 + 93 + 92)


@pytest.mark.parametrize(
    ("query", "step"),
    [
        ("range=hour", "5min"),
        ("", "hour"),
        ("range=7d", "6h"),
        ("range=month", "day"),
        ("from=2026-01-31T12", "5min"),
        ("from=2025-01-31", "day"),
    ],
)
def test_steps_fit_the_time(conf_file: Path, query: str, step: str) -> None:
    spend = load_page(conf_file, f"/?{query}").shown["spend"]
    assert spend.step == step


def test_refusals_of_the_time_are_shown_by_code_workspace_and_key(conf_file: Path) -> None:
    assert load_page(conf_file, "/").tables["refusals"].records() == [
        {
            "workspace": "acme",
            "key_id": "ci",
            "code": "rate_limit_exceeded",
            "api": "chat",
            "count": 4,
            "last_hour": "2026-01-31T14",
        }
    ]
    # Refused calls have no model.
    assert "refusals" not in load_page(conf_file, "/?model=x").tables


def test_providers_have_their_circuits_and_resting_keys(conf_file: Path) -> None:
    gauges = {
        "tollgate_circuits_open": (
            Sample({"provider": "IDLE", "mode": "payg", "scope": "all"}, 1),
            Sample({"provider": "TESTER", "mode": "byok", "scope": "workspace"}, 2),
            Sample({"provider": "QUIET", "mode": "payg", "scope": "all"}, 0),
        ),
        "tollgate_platform_keys": (
            Sample({"provider": "TESTER", "state": "ready"}, 1),
            Sample({"provider": "TESTER", "state": "resting"}, 3),
        ),
    }
    rows = load_page(conf_file, "/", gauges=gauges).tables["providers"].records()
    assert [(row["provider"], row["circuit"], row["calls"]) for row in rows] == [
        ("IDLE", "open", 0),
        ("TESTER", "open for some", 3),
    ]
    tester = rows[1]
    assert (tester["workspaces_skipping"], tester["keys_ready"], tester["keys_resting"]) == (2, 1, 3)
    assert (tester["failed_calls"], tester["p50_first_byte_ms"]) == (1, 11)


def test_calls_in_flight_are_the_holds_of_all_processes(conf_file: Path) -> None:
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        for number, model in enumerate(("x", "x", "y")):
            row = f'{{"model_slug": "{model}", "provider": "TESTER"}}'
            values = (f"h{number}", TODAY, TODAY, "acme", "ci", 5, f"owner-{number}", 100, row)
            ledger.execute("INSERT INTO holds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)", values)
    in_flight = {
        chosen: load_page(conf_file, f"/?{chosen}").values["calls_in_flight"]
        for chosen in ("", "model=x", "workspace=beta", "key=ci&provider=TESTER")
    }
    assert in_flight == {"": 3, "model=x": 2, "workspace=beta": 0, "key=ci&provider=TESTER": 3}


def test_without_counters_the_rest_of_the_page_is_there(conf_file: Path) -> None:
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        ledger.execute("UPDATE ledger SET redis_state = 'another'")
    view = load_page(conf_file, "/")
    assert view.values["calls_in_flight"] is None
    [missing] = view.values["missing"]
    assert missing.startswith("Budgets and calls in flight are not shown: the counters are in Redis")
    assert "budgets" not in view.tables
    assert figures(view)[0]["calls"] == 3


def test_without_calls_there_are_no_figures(tmp_path: Path) -> None:
    view = load_page(write_files(tmp_path), "/")
    now, before = figures(view)
    assert (now["calls"], now["error_rate"], now["p50_first_byte_ms"]) == (0, None, None)
    assert before["calls"] == 0
    assert view.tables["spend"].rows == []
    assert view.tables["models"].rows == []


def test_spend_is_split_by_user_api_or_tag_and_tags_with_a_budget_are_offered(conf_file: Path) -> None:
    edit(conf_file.parent / ACME, "[[keys]]", '[[budgets]]\nfor = "tag:team"\nspend_cap_usd = "1"\n[[keys]]')
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        for call_id, user, tags, api in (
            ("u", "ann", '{"team":"a&b"}', "messages"),
            ("v", "ben", None, "responses"),
        ):
            row = make_row(call_id, created_at=TODAY, retail_nanousd=5, end_user=user, tags=tags, api=api)
            write(ledger, row)
        build_all(ledger)
    by_user = load_page(conf_file, "/?by=user").tables["spend"].records()
    assert {"ann", "ben"} < {row["end_user"] for row in by_user}
    by_api = load_page(conf_file, "/?by=api").tables["spend"].records()
    assert {row["api"]: row["retail_nanousd"] for row in by_api if row["api"] != "chat"} == {
        "messages": 5,
        "responses": 5,
    }
    assert "/calls?api=messages" in render_page(conf_file, "/?by=api")
    by_tag = load_page(conf_file, "/?by=tag:team").tables["spend"].records()
    assert {row["tag:team"]: row["retail_nanousd"] for row in by_tag}["a&b"] == 5
    page = render_page(conf_file, "/?by=tag:team")
    assert "By user</a>" in page
    assert "By tag:team</a>" in page
    assert "a&amp;b" in page


def test_an_unknown_split_is_named(conf_file: Path) -> None:
    with pytest.raises(ParameterError, match="by: must be one of model, key, workspace"):
        load_page(conf_file, "/?by=mode")


def test_a_step_is_chosen_by_the_length_of_the_time() -> None:
    assert choose_step(TimeRange("custom", NOW.replace(hour=1), NOW)) == "hour"
