"""``/calls``: filters, pages, counts, and the calls that are new."""

from pathlib import Path
from typing import Any

import pytest
from rig.console_reading import load_page, open_new_ledger
from rig.ledger import make_row
from rig.rollups import build_all, write
from rig.settings_files import write_files

from addon.console.query import ParameterError
from addon.console.view import View

CALLS = [
    ("byok", "13:00", {"mode": "byok", "retail_nanousd": 0, "wholesale_nanousd": 0, "end_user": "ann"}),
    ("plain", "13:10", {}),
    ("slow", "13:20", {"status": 429, "error_code": "rate_limit_exceeded", "end_user": "ann"}),
    (
        "other",
        "13:30",
        {
            "workspace": "beta",
            "key_id": "web",
            "model_slug": "gpt-4o",
            "provider": "OPENAI",
            "api": "messages",
        },
    ),
    ("broken", "14:00", {"status": 502, "error_code": "upstream_error", "client_request_id": "mine"}),
    ("old", "00:00", {"created_at": "2026-01-02T00:00:00.000+00:00", "client_request_id": "mine"}),
]


@pytest.fixture(scope="module")
def conf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls")
    conf_file = write_files(folder)
    with open_new_ledger(folder / "var" / "tollgate.db") as ledger:
        for row_id, minute, changes in CALLS:
            moment = f"2026-01-31T{minute}:00.000+00:00"
            write(ledger, make_row(row_id, **{"created_at": moment} | changes))
        build_all(ledger)
        ledger.execute(
            "INSERT INTO refusals (hour, workspace, key_id, code, count)"
            " VALUES ('2026-01-31T14', 'acme', 'ci', 'payment_required', 3)"
        )
    return conf_file


def ids(view: View) -> list[str]:
    return [row["id"] for row in view.tables["calls"].records()]


def counts(view: View, name: str) -> dict[str, int]:
    return {row["value"]: row["calls"] for row in view.tables["counts"].records() if row["filter"] == name}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["broken", "other", "slow", "plain", "byok"]),
        ("range=hour", ["broken", "other", "slow"]),
        ("range=month", ["broken", "other", "slow", "plain", "byok", "old"]),
        ("from=2026-01-31T13:10&to=2026-01-31T13:30", ["slow", "plain"]),
        ("workspace=beta", ["other"]),
        ("workspace=acme&key=ci", ["broken", "slow", "plain", "byok"]),
        ("model=gpt-4o", ["other"]),
        ("provider=OPENAI&mode=byok", []),
        ("mode=byok", ["byok"]),
        ("api=messages", ["other"]),
        ("api=chat&workspace=beta", []),
        ("status=429", ["slow"]),
        ("status=5xx", ["broken"]),
        ("status=error", ["broken", "slow"]),
        ("end_user=ann", ["slow", "byok"]),
        ("end_user=ann&status=2xx", ["byok"]),
        ("error_code=upstream_error", ["broken"]),
        ("workspace=nothing", []),
    ],
)
def test_filters_select_calls_and_their_counts(conf_file: Path, query: str, expected: list[str]) -> None:
    view = load_page(conf_file, f"/calls?{query}")
    assert ids(view) == expected
    assert view.values["matching_calls"] == len(expected)
    assert sum(counts(view, "workspace").values()) == len(expected)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("status=ok", "status: must be a status"),
        ("mode=free", "mode: must be one of payg, byok"),
        ("api=soap", "api: must be one of chat, messages, responses, embeddings"),
        ("limit=0", "limit: must be a number from 1 to 500"),
        ("limit=501", "limit: must be a number from 1 to 500"),
        ("limit=²", "limit: must be a number"),
        ("before=x", "before: must be a position such as"),
        (
            "before=2026-01-31T12:00:00.000Z_1&after=2026-01-31T12:00:00.000Z_1",
            "after: can't be used with before",
        ),
        ("range=year", "range: must be one of"),
    ],
)
def test_a_wrong_parameter_is_named(conf_file: Path, query: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        load_page(conf_file, f"/calls?{query}")


def test_pages_follow_each_other(conf_file: Path) -> None:
    first = load_page(conf_file, "/calls?limit=2")
    assert (ids(first), first.values["newer"]) == (["broken", "other"], None)
    second = load_page(conf_file, f"/calls?limit=2&before={first.values['older']}")
    assert ids(second) == ["slow", "plain"]
    last = load_page(conf_file, f"/calls?limit=2&before={second.values['older']}")
    assert (ids(last), last.values["older"]) == (["byok"], None)
    assert ids(load_page(conf_file, f"/calls?limit=2&after={last.values['newer']}")) == ["slow", "plain"]


@pytest.mark.parametrize(
    ("query", "new"), [("", 2), ("workspace=acme", 1), ("status=error", 0), ("range=hour", 1)]
)
def test_calls_written_since_are_counted(conf_file: Path, query: str, new: int) -> None:
    last = load_page(conf_file, "/calls").values["written_until"]
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        write(ledger, make_row("now", created_at="2026-01-31T14:19:00.000+00:00"))
        write(ledger, make_row("late", created_at="2026-01-31T13:05:00.000+00:00", workspace="beta"))
        view = load_page(conf_file, f"/calls/new?{query}&written_after={last}")
        ledger.execute("DELETE FROM usage WHERE id IN ('now', 'late')")
    assert view.values == {"new_calls": new, "is_exact": True}


def test_the_number_of_new_calls_needs_a_row_to_begin_with(conf_file: Path) -> None:
    with pytest.raises(ParameterError, match="written_after: is needed"):
        load_page(conf_file, "/calls/new")
    assert load_page(conf_file, "/calls/new?written_after=0&range=month").values["new_calls"] == 6


def test_a_call_is_found_by_its_id_or_by_the_clients_id_at_any_time(conf_file: Path) -> None:
    assert ids(load_page(conf_file, "/calls?find=old")) == ["old"]
    assert ids(load_page(conf_file, "/calls?find=mine")) == ["broken", "old"]
    assert ids(load_page(conf_file, "/calls?find=nothing")) == []


def test_refused_calls_are_counted_unless_the_filter_is_about_sent_calls(conf_file: Path) -> None:
    values: dict[str, Any] = {
        query: load_page(conf_file, f"/calls?{query}").values["refused_calls"]
        for query in ("", "workspace=acme", "workspace=beta", "mode=payg")
    }
    assert values == {"": 3, "workspace=acme": 3, "workspace=beta": 0, "mode=payg": None}


def test_the_form_suggests_names_of_the_settings_and_of_calls(conf_file: Path) -> None:
    names = load_page(conf_file, "/calls").shown["names"]
    assert {"acme", "beta"} <= set(names["workspace"])
    assert {"tester-large", "gpt-4o-mini"} <= set(names["model"])
    assert "TESTER" in names["provider"]
