"""Calls to models at several places, and retries, in simulated time: money and rows, wherever the attempts are cut."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from rig.configuration import model
from rig.large import large, sized
from rig.simulation import Outcome, simulate
from rig.simulation.calls import DEAR, Disturbance, Ran, make_calls, write_settings
from rig.simulation.checks import CHECKS, check_all
from rig.simulation.provider import WEIGHTS

from addon.settings.settings import Settings
from addon.store.money.sqlite import file as ledger_file
from policies.exchange import INTERRUPTED
from policies.resend import MAX_RESENDS

pytestmark = large

SEEDS = range(sized(3, 40))
MAX_ATTEMPTS = 4
PROVIDERS = ("ALONE", "FIRST", "SECOND", "THIRD")
FAILING = {**WEIGHTS, "good": 20, "429": 20, "500": 20, "503": 20}
"""Most attempts fail before a byte of an answer, so that most calls have several."""
PLACES = [
    {"provider": "SECOND", "upstream_model_id": "b", "max_in_flight": 1},
    {"provider": "THIRD", "upstream_model_id": "c"},
]
MODELS = {
    "first": model(provider="FIRST", max_in_flight=2, rpm=20, tpm=5_000, deployments=PLACES, **DEAR),
    "zero": model(provider="FIRST", weight=0, order="fastest", deployments=PLACES, **DEAR),
    "cheap": model(provider="FIRST", order="cheapest", deployments=PLACES, **DEAR),
    "second": model(provider="ALONE", **DEAR),
}
SLUGS = ("first", "zero", "cheap", "second")
"""What is called. The fallback of all is ``second``, which has none itself, and so is retried."""
OWN = ("SECOND", "THIRD")
"""The providers that one customer has keys of its own for."""
type Run = Callable[..., Outcome[Ran]]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Settings]:
    """The settings of all runs, without and with keys of a customer's own."""
    return {
        has_own: write_settings(
            tmp_path_factory.mktemp("simulation"),
            MODELS,
            PROVIDERS,
            OWN if has_own else (),
            retries=1,
            max_attempts=MAX_ATTEMPTS,
        )
        for has_own in (False, True)
    }


@pytest.fixture(scope="module")
def run(settings: dict[bool, Settings], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a function that makes the calls with a seed, on a new ledger."""

    def make(seed: int, disturbance: Disturbance | None = None, *, has_own: bool = False) -> Outcome[Ran]:
        database, disturbed = tmp_path_factory.mktemp("ledger") / "tollgate.db", disturbance or Disturbance()
        return simulate(
            seed,
            lambda world: make_calls(world, settings[has_own], database, disturbed, SLUGS, FAILING),
        )

    return make


def check_attempts(ran: Outcome[Ran], has_net: Callable[[dict[str, Any]], bool] = lambda row: False) -> None:
    """Check that no call was sent more often than its row says, or than a call may be, and that each attempt is kept.

    ``has_net`` says whether the platform's keys serve a row by the Safety Net.
    """
    sent = {call: len(made) for call, made in ran.result.by_call().items()}
    for row in ran.result.ledger.rows:
        assert 1 <= row["attempts"] <= MAX_ATTEMPTS, f"seed {ran.seed}: {row}"
        # A hold knows of no request that was sent again just before its process was killed.
        resends = MAX_RESENDS if row["error_code"] == INTERRUPTED else row["resends"]
        assert sent.get(row["end_user"], 0) <= row["attempts"] + resends, f"seed {ran.seed}: {row}"
        made = ran.result.ledger.attempts.get(row["id"], [])
        numbers = list(range(1, row["attempts"] + 1)) if row["attempts"] > 1 else []
        assert [one["number"] for one in made] == numbers, f"seed {ran.seed}: {row} {made}"
        if row["status"] == 200:
            assert not made or made[-1]["provider"] == row["provider"], f"seed {ran.seed}: {row} {made}"
            assert all(one["status"] >= 400 for one in made[:-1]), f"seed {ran.seed}: {row} {made}"
        is_fallback = row["model_slug"] != row["requested_model"] or has_net(row)
        assert row["fallback"] == (is_fallback and row["first_byte_ms"] is not None), (
            f"seed {ran.seed}: {row}"
        )


def test_money_and_rows_are_right_with_many_attempts_a_call(run: Run) -> None:
    ended = [check_all(run(seed)) for seed in SEEDS]
    for ran in ended:
        check_attempts(ran)
    rows = [row for ran in ended for row in ran.result.ledger.rows]
    assert {row["attempts"] for row in rows} == set(range(1, MAX_ATTEMPTS + 1))
    assert Counter(row["provider"] for row in rows).keys() == set(PROVIDERS)
    assert {(row["fallback"], row["status"]) for row in rows} >= {(0, 200), (1, 200)}


def test_money_and_rows_are_right_with_own_keys_and_the_safety_net(run: Run) -> None:
    def has_net(row: dict[str, Any]) -> bool:
        return bool(
            row["mode"] == "payg" and row["workspace"] == "wallet" and row["requested_model"] != "second"
        )

    ended = [check_all(run(seed, has_own=True)) for seed in SEEDS]
    for ran in ended:
        check_attempts(ran, has_net)
    rows = [row for ran in ended for row in ran.result.ledger.rows]
    own = [row for row in rows if row["mode"] == "byok"]
    assert {row["provider"] for row in own} == set(OWN)
    assert not any(row["retail_nanousd"] or row["wholesale_nanousd"] for row in own)
    assert any(has_net(row) and row["retail_nanousd"] for row in rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_drain_may_end_between_two_attempts(run: Run, seed: int) -> None:
    ran = check_all(run(seed, Disturbance(stops_after_s=0.5 + seed / 3, drain_timeout_s=seed / 4)))
    check_attempts(ran)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gateway_may_be_killed_between_two_attempts(run: Run, seed: int) -> None:
    ran = check_all(run(seed, Disturbance(gateways=1 + seed % 2, killed_after_s=0.5 + seed / 3)))
    check_attempts(ran)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_ledger_may_be_locked_between_two_attempts(
    run: Run, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "_TRIES_IN_PLACE", 1)
    ran = run(seed, Disturbance(is_ledger_locked=True))
    assert ran.left == []
    for check in (*CHECKS, check_attempts):
        check(ran)
