"""Checks of a run: its money, its rows, their counts, and what a client gains by leaving."""

from collections import Counter

from rig.simulation import Outcome
from rig.simulation.calls import BUDGET_NANOUSD, Ran


def check_money(ran: Outcome[Ran]) -> None:
    """Check that no limit was exceeded, that wallets and rows agree, and that no hold is left."""
    ledger, cost_nanousd = ran.result.ledger, Counter[str]()
    for row in ledger.rows:
        cost_nanousd[row["workspace"]] += row["retail_nanousd"]
        assert row["usage_source"] != "none" or row["retail_nanousd"] == 0, f"seed {ran.seed}: {row}"
    assert max(cost_nanousd.values(), default=0) <= BUDGET_NANOUSD, f"seed {ran.seed}"
    assert ledger.wallets_nanousd == {"wallet": BUDGET_NANOUSD - cost_nanousd["wallet"]}, f"seed {ran.seed}"
    assert (ledger.holds, ledger.discrepancies) == (0, []), f"seed {ran.seed}"


def check_rows(ran: Outcome[Ran]) -> None:
    """Check that each call that reached a provider has exactly one row."""
    rows_by_call = Counter(row["end_user"] for row in ran.result.ledger.rows)
    assert set(rows_by_call.values()) <= {1}, f"seed {ran.seed}"
    assert ran.result.by_call().keys() <= rows_by_call.keys(), f"seed {ran.seed}"


def check_counts(ran: Outcome[Ran]) -> None:
    """Check that a complete answer has the text of one generation, and that its row has the counts of that one."""
    rows, generated = {row["id"]: row for row in ran.result.ledger.rows}, ran.result.by_call()
    for answer in ran.result.answers:
        if answer.is_complete:
            row = rows[str(answer.request_id)]
            assert (row["end_user"], row["status"]) == (answer.call, 200), f"seed {ran.seed}: {row}"
            made = {(one.prompt_tokens, one.completion_tokens) for one in generated[answer.call]}
            assert len(answer.text) // 4 in {tokens for _, tokens in made}, f"seed {ran.seed}: {row}"
            if row["usage_source"] == "provider":
                assert (row["prompt_tokens"], row["completion_tokens"]) in made, f"seed {ran.seed}: {row}"


def check_leaving(ran: Outcome[Ran]) -> None:
    """Check that no client gets more than its row has, however the call ends, and that no answer was free."""
    rows = {row["id"]: row for row in ran.result.ledger.rows}
    for answer in ran.result.answers:
        if answer.status == 200 and (text := answer.text):
            row = rows[str(answer.request_id)]
            if row["error_code"] == "interrupted" and row["duration_ms"] == 0 and not answer.is_complete:
                continue  # Its process was killed.
            assert row["completion_tokens"] is not None, f"seed {ran.seed}: {row} {text!r}"
            assert len(text) // 4 <= row["completion_tokens"], f"seed {ran.seed}: {row} {len(text)}"
            assert row["mode"] == "byok" or row["retail_nanousd"] > 0, f"seed {ran.seed}: {row}"


CHECKS = (check_money, check_rows, check_counts, check_leaving)


def check_all(ran: Outcome[Ran]) -> Outcome[Ran]:
    """Run all checks, and check that nothing is left and no error was logged."""
    assert (ran.errors, ran.left) == ([], []), f"seed {ran.seed}"
    for check in CHECKS:
        check(ran)
    return ran


def error_codes(runs: list[Outcome[Ran]]) -> set[str | None]:
    """Return the error codes of all rows."""
    return {row["error_code"] for ran in runs for row in ran.result.ledger.rows}
