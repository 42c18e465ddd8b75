"""The whole gateway in one process on a simulated loop: forty calls with all kinds of faults, for many seeds."""

import ast
from collections import Counter
from collections.abc import Callable

import pytest
from rig.configuration import ROOT
from rig.large import large, large_only, sized
from rig.simulation import Outcome, compare, simulate
from rig.simulation.calls import Disturbance, Ran, make_calls, write_settings
from rig.simulation.checks import (
    CHECKS,
    check_all,
    check_counts,
    check_leaving,
    check_money,
    check_rows,
    error_codes,
)

from addon.settings.settings import Settings
from addon.store.money.sqlite import file as ledger_file

pytestmark = large

SEEDS = range(sized(4, 20))
TWICE = SEEDS[::7]
type Run = Callable[..., Outcome[Ran]]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return write_settings(tmp_path_factory.mktemp("simulation"))


@pytest.fixture(scope="module")
def run(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a function that makes the calls with a seed, on a new ledger."""

    def make(seed: int, disturbance: Disturbance | None = None) -> Outcome[Ran]:
        database = tmp_path_factory.mktemp("ledger") / "tollgate.db"
        return simulate(
            seed, lambda world: make_calls(world, settings, database, disturbance or Disturbance())
        )

    return make


@pytest.fixture(scope="module")
def runs(run: Run) -> list[Outcome[Ran]]:
    """One run of each seed."""
    return [run(seed) for seed in SEEDS]


@large_only
def test_the_same_seed_gives_the_same_answers_and_rows(run: Run, runs: list[Outcome[Ran]]):
    for seed in TWICE:
        assert compare(runs[seed], run(seed)) == "", f"seed {seed}"
    assert len({ran.trace.digest for ran in runs}) == len(SEEDS)


def test_no_task_and_no_connection_is_left_and_nothing_is_logged_as_an_error(runs: list[Outcome[Ran]]):
    for ran in runs:
        assert (ran.errors, ran.left) == ([], []), f"seed {ran.seed}"


def test_no_limit_is_passed_and_no_hold_is_left(runs: list[Outcome[Ran]]):
    for ran in runs:
        check_money(ran)


def test_each_call_that_was_sent_has_exactly_one_row(runs: list[Outcome[Ran]]):
    for ran in runs:
        check_rows(ran)


def test_the_row_of_a_complete_answer_has_the_counts_of_its_provider(runs: list[Outcome[Ran]]):
    for ran in runs:
        check_counts(ran)


def test_no_client_gains_by_leaving(runs: list[Outcome[Ran]]):
    for ran in runs:
        check_leaving(ran)


def test_every_kind_of_end_was_seen(runs: list[Outcome[Ran]]):
    answers = [answer for ran in runs for answer in ran.result.answers]
    rows = [row for ran in runs for row in ran.result.ledger.rows]
    endings = Counter("complete" if answer.is_complete else answer.ending for answer in answers)
    codes = {answer.error_code for answer in answers if answer.ending == "whole"}
    assert endings["complete"] > len(answers) / 4
    assert {"left", "ConnectionResetError", "BrokenMessage"} <= set(endings)
    assert {"payment_required", "upstream_error"} <= codes
    assert {row["usage_source"] for row in rows} == {"provider", "estimated", "none"}
    assert {row["attempts"] for row in rows} == {1, 2}


def test_all_checks_hold_when_a_drain_cuts_off_the_last_calls(run: Run):
    ended = [
        check_all(run(seed, Disturbance(stops_after_s=1 + seed / 2, drain_timeout_s=seed / 3)))
        for seed in range(6)
    ]
    assert "interrupted" in error_codes(ended)


@pytest.mark.parametrize("seed", range(3))
def test_all_checks_hold_when_two_gateways_share_the_budget(run: Run, seed: int):
    ran = check_all(run(seed, Disturbance(gateways=2)))
    assert len({row["id"][:20] for row in ran.result.ledger.rows}) == 2


def test_all_checks_hold_when_a_gateway_is_killed(run: Run):
    ended = [
        check_all(run(seed, Disturbance(gateways=1 + seed % 2, killed_after_s=1 + seed / 2)))
        for seed in range(6)
    ]
    assert "interrupted" in error_codes(ended)


@pytest.mark.parametrize("seed", range(3))
def test_all_checks_hold_when_the_ledger_is_locked_at_times(
    run: Run, seed: int, monkeypatch: pytest.MonkeyPatch
):
    # A locked file is waited for in place first, in real time, which changes nothing here.
    monkeypatch.setattr(ledger_file, "_TRIES_IN_PLACE", 1)
    ran = run(seed, Disturbance(is_ledger_locked=True))
    assert ran.left == []
    assert all("the ledger can't be written, calls are kept" in error for error in ran.errors)
    for check in CHECKS:
        check(ran)


def test_the_modules_of_a_call_use_no_clock_and_no_randomness_of_their_own():
    own = {"time", "random", "secrets", "uuid"}
    files = [file for part in ("calls", "upstream", "wire") for file in (ROOT / "addon" / part).glob("*.py")]
    # The run replaces the random part of request ids.
    files.remove(ROOT / "addon" / "calls" / "request_id.py")
    assert len(files) > 30
    for file in files:
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
        called = {
            node.func.attr
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        assert not imported & own, file
        assert "utcnow" not in called and "today" not in called, file
