"""A gateway that is killed at a random moment: each sent call has one row, and sums agree to the nano-dollar."""

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from conftest import StartGateway
from rig.commands import tollgate
from rig.configuration import model, new_key, workspace
from rig.gateway import Gateway
from rig.large import large, sized
from rig.load import as_dear_as_allowed, run_calls, sized_calls
from rig.money import USD, select
from rig.upstream import Upstream

MODELS = {"dear": model(input_price_per_m="10", output_price_per_m="30", max_completion_tokens=2_000)}
CALLS = 60


class Crashing:
    """A gateway with two workers that a test kills under load, and starts again on the same files."""

    def __init__(self, start: Callable[..., Gateway], state: dict[str, Any]) -> None:
        self.key = new_key()
        made = workspace(("ci", self.key, True), plan="standard", overage_protection=True)
        self._settings = {"models": MODELS, "workspaces": {"acme": made}, "sections": {"state": state}}
        self._start = start
        self.gateway = self.start()
        credited = tollgate(self.gateway.folder, "wallet", "credit", "acme", "1000000")
        assert credited.returncode == 0, credited.stderr

    def start(self) -> Gateway:
        folder = self.gateway.folder if hasattr(self, "gateway") else None
        self.gateway = self._start(
            folder=folder, arguments=("--port", "0", "--workers", "2"), **self._settings
        )
        return self.gateway

    def kill(self, whole: bool) -> None:
        """Send SIGKILL to one worker, or to the whole gateway at once."""
        workers = self.gateway.children()
        # The supervisor first, or it would start new workers.
        for pid in [self.gateway.pid, *workers] if whole else [random.choice(workers)]:
            os.kill(pid, signal.SIGKILL)
        if whole:
            self.gateway.wait()
            self.start()

    def assert_sound(self, upstream: Upstream) -> None:
        """No hold is left, every call that reached the upstream has one row, and all sums agree."""
        ledger = self.gateway.folder / "var" / "tollgate.db"
        sent = {request.json()["user"] for request in upstream.requests}
        self.gateway.wait_until(
            lambda: sent <= {row["end_user"] for row in select(ledger, "SELECT end_user FROM usage")}
        )
        self.gateway.wait_until(lambda: self.verify().returncode == 0)
        booked = Counter(row["end_user"] for row in select(ledger, "SELECT end_user FROM usage"))
        assert sent <= booked.keys()
        assert set(booked.values()) == {1}
        interrupted = select(
            ledger, "SELECT status, retail_nanousd FROM usage WHERE error_code = 'interrupted'"
        )
        assert all((row["status"], row["retail_nanousd"]) == (499, 0) for row in interrupted)

    def verify(self) -> Any:
        return tollgate(self.gateway.folder, "ledger", "verify")


@large
@pytest.mark.parametrize(("backend", "rounds"), [("sqlite", sized(3, 20)), ("redis", sized(1, 8))])
def test_a_gateway_killed_under_load_loses_no_call_and_no_nano_dollar(
    start_gateway: StartGateway,
    upstream: Upstream,
    request: pytest.FixtureRequest,
    backend: str,
    rounds: int,
) -> None:
    state = {"backend": backend}
    if backend == "redis":
        state["redis_url"] = request.getfixturevalue("redis_url")
    upstream.behave(as_dear_as_allowed)
    crashing = Crashing(start_gateway, state)
    dice = random.Random(3)
    served: set[str] = set()
    for number in range(rounds):
        calls = sized_calls(CALLS, "dear", seed=number)
        for body in list(calls.values())[::3]:
            body["stream"] = True
        kill_after = len(upstream.requests) + dice.randint(1, CALLS // 2)
        with ThreadPoolExecutor(1) as pool:
            load = pool.submit(run_calls, [crashing.gateway.url], crashing.key, calls, at_once=16)
            upstream.wait_for_requests(kill_after)
            crashing.kill(whole=number % 3 == 2)
            outcome = load.result()
        assert set(outcome.statuses) <= {200, 503}, outcome.statuses
        served |= outcome.whole
        crashing.assert_sound(upstream)
    assert crashing.gateway.stop() == 0
    ledger = crashing.gateway.folder / "var" / "tollgate.db"
    assert len(select(ledger, "SELECT id FROM usage")) >= len(upstream.requests)
    interrupted = select(ledger, "SELECT end_user FROM usage WHERE error_code = 'interrupted'")
    taken_back = served & {row["end_user"] for row in interrupted}
    assert not taken_back, f"{len(taken_back)} of {len(served)} answers that clients had were not recorded"
    assert (
        sum(row["retail_nanousd"] for row in select(ledger, "SELECT retail_nanousd FROM usage")) > USD // 10
    )
