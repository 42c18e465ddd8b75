"""The provider's sum and the gateway's, which the benchmark puts next to each other, are both right."""

import asyncio
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.money.clients import ANSWERED, FAILED, REFUSED, burst, leave_at_finish
from benchmarks.money.gateways import Recorded, Tollgate, read_records
from benchmarks.money.provider import Bill, completion_tokens, cost_nanousd
from benchmarks.money.run import HEADERS, Demonstration, Outcome, outcome_of, provider, row_of
from benchmarks.traffic import Target

CALL_NANOUSD = 24 * 1_000 + 500 * 20_000


def _asking(tokens: int, **fields: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"[tokens {tokens}]"}], **fields}


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (_asking(500), 500),
        (_asking(500, max_tokens=20), 20),
        (_asking(500, max_completion_tokens=30), 30),
        (_asking(500, max_tokens=40, max_completion_tokens=30), 30),
        (_asking(500, max_tokens=4_000), 500),
        ({"messages": [{"role": "user", "content": "hi"}]}, 1),
    ],
)
def test_the_model_writes_what_the_prompt_asks_for_up_to_the_cap(body: dict[str, Any], tokens: int):
    assert completion_tokens(body) == tokens


def test_a_bill_is_tokens_times_price():
    bill = Bill()
    bill.add(1_000)
    bill.add(0)

    assert (bill.calls, bill.nanousd) == (2, 20_024_000 + 24_000)
    assert cost_nanousd(1_000) == 20_024_000


def test_the_provider_bills_whole_answers_and_streams_whose_client_left_at_their_end():
    with provider() as billing:
        target = Target("provider", 0, billing.port)
        whole = asyncio.run(burst(target, 5, _asking(500)))
        left = asyncio.run(leave_at_finish(target, 3, _asking(500), clients=2))
        bill = billing.bill()

    assert whole == {ANSWERED: 5}
    assert left == {ANSWERED: 3}
    assert (bill.calls, bill.nanousd) == (8, 8 * CALL_NANOUSD)


def test_the_gateway_records_what_the_provider_bills_and_stays_in_its_budget(tmp_path: Path):
    demonstration = Demonstration(
        "burst", 1, lambda target: burst(target, 40, _asking(2_500, max_tokens=2_500))
    )
    with provider() as billing:
        outcome = outcome_of(demonstration, Tollgate(billing.port, tmp_path, 1), billing)

    assert outcome.seen[ANSWERED] + outcome.seen[REFUSED] == 40
    assert outcome.seen[ANSWERED] == outcome.bill.calls == outcome.recorded.rows > 0
    assert outcome.recorded == Recorded(outcome.bill.calls, outcome.bill.nanousd, 0, 0)
    assert outcome.bill.nanousd <= 10**9


def test_records_are_the_rows_their_cost_and_what_is_held(tmp_path: Path):
    database = tmp_path / "ledger.db"
    with sqlite3.connect(database) as connection:
        connection.executescript(
            "CREATE TABLE calls (cost REAL); INSERT INTO calls VALUES (0.020024), (0.020024), (NULL), (0);"
            "CREATE TABLE users (reserved REAL); INSERT INTO users VALUES (0.5);"
        )
    connection.close()
    rows = "SELECT count(*), total(cost) * 1e9, total(coalesce(cost, 0) = 0) FROM calls"

    records = read_records(database, rows, "SELECT total(reserved) * 1e9 FROM users")

    assert records == Recorded(rows=4, nanousd=40_048_000, free_rows=2, held_nanousd=500_000_000)


def test_a_row_has_what_is_not_recorded_and_what_is_over_the_budget():
    seen = Counter({ANSWERED: 60, REFUSED: 200, FAILED: 40})
    outcome = Outcome(seen, Bill(70, 1_400_000_000), Recorded(65, 1_300_000_000, 5, 100_000_000))

    row = dict(zip(HEADERS, row_of(Demonstration("burst", 1, burst), "it", outcome), strict=True))  # type: ignore[arg-type]

    assert row == {
        "demonstration": "burst",
        "gateway": "it",
        "answered": 60,
        "refused": 200,
        "failed": 40,
        "calls billed": 70,
        "provider's sum $": 1.4,
        "rows": 65,
        "rows without cost": 5,
        "recorded $": 1.3,
        "not recorded $": 0.1,
        "over budget $": 0.4,
        "still held $": 0.1,
    }
