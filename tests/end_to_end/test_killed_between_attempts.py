"""A gateway that is killed while a second attempt is in flight, after a first one has failed, in all three APIs."""

import json
import os
import signal
from contextlib import ExitStack
from typing import Any

import pytest
from conftest import StartGateway
from rig.commands import tollgate
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.large import large_only
from rig.leaving_load import PATHS, make_calls
from rig.money import USD, credit, holds, select
from rig.raw_clients import RawClient, request_bytes
from rig.scripts import UNTIL_CLIENT_LEAVES, Received, Script, chunk, chunked, event, whole
from rig.upstream import Upstream
from rig.workers import TWO, all_serve

pytestmark = large_only

ROUNDS, CALLS = 3, 4
"""Fewer calls of a workspace than failures that open its circuit."""
SECOND_IS = {"another-place": "B/b", "the-fallback": "S/s"}


def fail_first(request: Received) -> Script:
    """Fail at A. Every other place begins an answer, or does not answer, until its client leaves."""
    if request.json()["model"] == "a":
        return whole({"error": {"message": "busy"}}, 500)
    if request.json().get("stream") and b"call-1" in request.body:
        return chunked(event(chunk("hel")), UNTIL_CLIENT_LEAVES)
    return (UNTIL_CLIENT_LEAVES,)


class Killed:
    """A gateway that is killed and started again on the same files."""

    def __init__(self, start: StartGateway, base: str, state: dict[str, Any]) -> None:
        self.keys = [new_key() for _ in range(ROUNDS)]
        second = {"provider": "B", "upstream_model_id": "b"}
        first = {"provider": "A", "upstream_model_id": "a"}
        limited = {"plan": "standard", "budgets": [{"for": "user", "spend_cap_usd": "5"}]}
        self._settings: dict[str, Any] = {
            "providers": {name: provider(base) for name in "ABS"},
            "models": {
                "another-place": model(**first, order="first", deployments=[second]),
                "the-fallback": model(**first),
                "spare": model(provider="S", upstream_model_id="s"),
            },
            "workspaces": {
                f"round-{number}": workspace(("ci", key, True), fallback_model="spare", **limited)
                for number, key in enumerate(self.keys)
            },
            "sections": {"state": state, "upstream": {"retries": 0}},
            "arguments": TWO,
        }
        self._start = start
        self.gateway: Gateway = start(**self._settings)
        self.ledger = self.gateway.folder / "var" / "tollgate.db"
        for number in range(ROUNDS):
            credit(self.ledger, f"round-{number}", "2")

    def kill(self, *, whole: bool) -> None:
        """Send SIGKILL to all workers, and to their supervisor first if ``whole``."""
        workers = self.gateway.children()
        for pid in [self.gateway.pid, *workers] if whole else workers:
            os.kill(pid, signal.SIGKILL)
        if whole:
            self.gateway.wait()
            self.gateway = self._start(folder=self.gateway.folder, **self._settings)
        self.gateway.wait_until(lambda: all_serve(self.gateway))


@pytest.fixture(params=["sqlite", "redis"])
def killed(request: pytest.FixtureRequest, start_gateway: StartGateway, upstream: Upstream) -> Killed:
    state = {"backend": request.param}
    if request.param == "redis":
        state["redis_url"] = request.getfixturevalue("redis_url")
    return Killed(start_gateway, upstream.base_url, state)


@pytest.mark.parametrize("second", SECOND_IS)
def test_calls_killed_in_their_second_attempt_have_rows_and_no_holds(
    killed: Killed, upstream: Upstream, second: str
) -> None:
    upstream.behave(fail_first)
    place = SECOND_IS[second]
    for number in range(ROUNDS):
        calls = make_calls(number, CALLS, [f"round-{number}"], tuple(PATHS))
        before = len(upstream.requests)
        with ExitStack() as open_until:
            for call in calls:
                client = open_until.enter_context(RawClient(killed.gateway.url))
                client.send(call_bytes(killed.keys[number], call.name, PATHS[call.api], call.body(second)))
            upstream.wait_for_requests(before + 2 * CALLS)
            assert len(holds(killed.ledger)) == CALLS
            killed.kill(whole=number % 2 == 0)
        killed.gateway.wait_until(lambda: not holds(killed.ledger))
        for call in calls:
            assert_interrupted(killed, call.name, call.api, place)
        verified = tollgate(killed.gateway.folder, "ledger", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
    (wallet,) = select(killed.ledger, "SELECT sum(amount_nanousd) AS left FROM wallet_entries")
    assert wallet["left"] == 2 * ROUNDS * USD
    assert len(select(killed.ledger, "SELECT id FROM usage")) == ROUNDS * CALLS
    assert killed.gateway.stop() == 0


def call_bytes(key: str, name: str, path: str, body: dict[str, Any]) -> bytes:
    headers = [
        ("Authorization", f"Bearer {key}"),
        ("Content-Type", "application/json"),
        ("X-Client-Request-Id", name),
    ]
    return request_bytes("POST", path, headers, json.dumps(body).encode())


def assert_interrupted(killed: Killed, name: str, api: str, place: str) -> None:
    (row,) = select(killed.ledger, "SELECT * FROM usage WHERE client_request_id = ?", name)
    lines = select(killed.ledger, "SELECT * FROM attempts WHERE call_id = ? ORDER BY number", row["id"])
    shown = f"{row} {lines}"
    assert (row["status"], row["error_code"], row["api"]) == (499, "interrupted", api), shown
    assert (row["wholesale_nanousd"], row["retail_nanousd"], row["usage_source"]) == (0, 0, "none"), shown
    assert (row["attempts"], f"{row['provider']}/{row['upstream_model_id']}") == (2, place), shown
    assert [(one["number"], one["deployment"], one["status"], one["error_code"]) for one in lines] == [
        (1, "A/a", 500, "upstream_error"),
        (2, place, 499, "interrupted"),
    ], shown
    assert lines[1]["duration_ms"] == 0, shown
