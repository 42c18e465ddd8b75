"""``tollgate usage``: the calls that were refused, by workspace, key and code."""

from pathlib import Path

import pytest
from rig.ledger import second_connection
from rig.usage_report import run, run_csv, run_json
from rig.written_rows import write_batch

from addon.store.money.refusal_counts import RefusalBatch, RefusalGroup

REFUSED = {
    RefusalGroup("2026-01-31T11", "acme", "ci", "rate_limit_exceeded"): 2,
    RefusalGroup("2026-01-31T12", "acme", "ci", "rate_limit_exceeded"): 40,
    RefusalGroup("2026-01-31T12", "acme", "web", "payment_required", "messages"): 1,
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
    assert [list(one.values())[:6] for one in shown] == [
        ["acme", "ci", "rate_limit_exceeded", "chat", 42, "2026-01-31T12"],
        [None, None, "invalid_api_key", "chat", 7, "2026-02-01T01"],
        ["gone", "ci", "byok_required", "chat", 5, "2026-02-01T00"],
        ["acme", "web", "payment_required", "messages", 1, "2026-01-31T12"],
    ]
    assert list(shown[0]) == ["workspace", "key_id", "code", "api", "count", "last_hour", "label"]
    assert run_json(refused, "--by", "refusals") == {"refusals": shown}
    text = run(refused).stdout
    assert ["acme", "ci", "rate_limit_exceeded", "chat", "42", "2026-01-31T12"] in [
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
        (["--api", "messages"], [1]),
        (["--api", "responses"], []),
        (["--api", "chat", "--workspace", "acme"], [42]),
    ],
)
def test_refusals_can_be_those_of_one_workspace_key_or_time(
    refused: Path, options: list[str], counts: list[int]
) -> None:
    assert [one["count"] for one in run_json(refused, *options)["refusals"]] == counts


def test_refusals_of_one_reason_are_one_row_of_the_ledger_and_one_of_the_report_for_each_api(
    conf: Path, ledger: Path
) -> None:
    apis = {"chat": 4, "messages": 2, "responses": 9}
    hour = ("2026-01-31T11", "acme", "ci", "payment_required")
    with second_connection(ledger) as connection:
        for number in range(2):
            batch = {RefusalGroup(*hour, api): count for api, count in apis.items()}
            write_batch(connection, RefusalBatch(str(number), batch))
        (row,) = connection.execute("SELECT * FROM refusals")
        assert dict(row)["count"] == 30
    shown = {one["api"]: one["count"] for one in run_json(conf)["refusals"]}
    assert shown == {"responses": 18, "chat": 8, "messages": 4}
    with second_connection(ledger) as older:
        for api in ("messages", "responses", "embeddings"):
            older.execute(f"ALTER TABLE refusals DROP COLUMN {api}")
    assert [(one["api"], one["count"]) for one in run_json(conf)["refusals"]] == [("chat", 30)]


def test_a_ledger_without_refusals_says_so(conf: Path, ledger: Path) -> None:
    assert run(conf, "--by", "refusals").stdout == f"There is no refused call yet in {ledger}.\n"
    assert run(conf, "--by", "refusals", "--since", "1d").stdout == "No refused call matches.\n"
    with second_connection(ledger) as older:
        older.execute("DROP TABLE refusals")
    assert run_json(conf)["refusals"] == []
