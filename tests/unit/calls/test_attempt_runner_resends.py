"""When a request is sent again, in simulated time: once a call, and only if its provider can't have begun to work."""

from pathlib import Path
from typing import Any

import pytest
from rig.attempt_runs import STREAMED, WHOLE, MakeCalls
from rig.ledger import read_rows
from rig.simulation import Faults, World, simulate
from rig.simulation.calls import BUDGET_NANOUSD, KEYS, write_settings
from rig.simulation.clients import Client, ClientBehaviour
from rig.simulation.gateway import SimulatedGateway
from rig.simulation.provider import Provider

LATENCY_S = 0.1
"""One way. The window of a resend is twice the way there and back, and 20 ms: 0.42 s."""
LINK = Faults(latency_s=(LATENCY_S, LATENCY_S))
UNANSWERED = "closes unanswered"


@pytest.mark.parametrize("behaviour", [WHOLE, STREAMED], ids=["whole", "streamed"])
@pytest.mark.parametrize("after_s", [3.0, 5.0, 19.0])
def test_a_provider_that_works_and_closes_without_a_byte_is_asked_once(
    make: MakeCalls, tmp_path: Path, behaviour: ClientBehaviour, after_s: float
) -> None:
    ran = make(["good", UNANSWERED], behaviour, behaviour, link=LINK, unanswered_after_s=after_s).result
    assert [one.call for one in ran.asked] == ["call-0", "call-1"]
    failed = ran.runs[1]
    assert failed.failure
    assert (failed.failure.status, failed.failure.code) == (502, "upstream_error")
    assert (failed.attempt.is_sent, failed.attempt.lagged) == (True, False)
    assert [row["resends"] for row in read_rows(tmp_path / "tollgate.db")] == [0, 0]
    assert "tollgate_upstream_resends_total" not in samples(ran.metrics)


def test_a_connection_that_closes_as_the_request_is_on_its_way_is_replaced_and_counted(
    make: MakeCalls, tmp_path: Path
) -> None:
    # The provider closes after its answer. With this latency, the next request is on its way by then.
    outcome = make(["closes after", "good", "good"], WHOLE, WHOLE, WHOLE, link=LINK)
    ran = outcome.result
    assert [run.failure for run in ran.runs] == [None, None, None]
    assert [one.call for one in ran.asked] == ["call-0", "call-1", "call-2"]
    assert (ran.connections, ran.pool.reused) == (2, 2)
    rows = read_rows(tmp_path / "tollgate.db")
    assert [(row["attempts"], row["resends"]) for row in rows] == [(1, 0), (1, 1), (1, 0)]
    assert samples(ran.metrics)["tollgate_upstream_resends_total"] == '{provider="TESTER"} 1.0'
    assert (outcome.errors, outcome.left) == ([], [])


@pytest.mark.parametrize(("after_s", "requests"), [(0.15, 2), (0.3, 1)], ids=["in the window", "after it"])
def test_the_time_without_a_byte_decides(make: MakeCalls, after_s: float, requests: int) -> None:
    ran = make(["good", UNANSWERED], WHOLE, WHOLE, link=LINK, unanswered_after_s=after_s).result
    assert len([one for one in ran.asked if one.call == "call-1"]) == requests
    assert ran.runs[1].failure  # The second connection ends in the same way, and that is final.


def test_a_new_connection_is_never_replaced(make: MakeCalls) -> None:
    ran = make(UNANSWERED, WHOLE, link=LINK, unanswered_after_s=0.0).result
    assert [one.call for one in ran.asked] == ["call-0"]
    assert ran.runs[0].failure


# A call with a fallback.


def call_with_fallback(
    folder: Path, after_s: float, second_fate: str
) -> tuple[list[str], list[dict[str, Any]]]:
    """Make a call on reused connections to two providers, the first of which closes ``after_s`` unanswered.

    Return the provider of each of its requests, and the rows of all calls.
    """
    settings, database = write_settings(folder), folder / "tollgate.db"

    async def main(world: World) -> list[str]:
        providers = {name: Provider(world, {"good": 1}) for name in ("first", "second")}
        for provider in providers.values():
            await provider.start()
            world.network.faults[provider.port] = LINK
        gateway = SimulatedGateway(world, settings, database)
        await gateway.start()
        await gateway.credit("wallet", BUDGET_NANOUSD)
        clients = [Client(gateway.port, KEYS["wallet"], name) for name in ("second", "first")]
        for client in clients:
            assert (await client.call("call-0", WHOLE)).status == 200
        for provider, fate in zip(providers.values(), (UNANSWERED, second_fate), strict=True):
            provider.weights, provider.unanswered_after_s = {fate: 1}, after_s
        await clients[1].call("call-1", WHOLE)
        for client in clients:
            await client.close()
        await gateway.stop()
        for provider in providers.values():
            await provider.stop()
        return [name for name, one in providers.items() for asked in one.log if asked.call == "call-1"]

    return simulate(1, main).result, read_rows(database)


def test_a_fallback_follows_a_provider_that_worked_without_an_answer(tmp_path: Path) -> None:
    asked, rows = call_with_fallback(tmp_path, 5.0, "good")
    assert asked == ["first", "second"]
    assert [(row["status"], row["attempts"], row["resends"]) for row in rows[2:]] == [(200, 2, 0)]


def test_a_call_is_sent_again_once_all_its_attempts_together(tmp_path: Path) -> None:
    asked, rows = call_with_fallback(tmp_path, 0.15, UNANSWERED)
    assert asked == ["first", "first", "second"]
    assert [(row["status"], row["attempts"], row["resends"]) for row in rows[2:]] == [(502, 2, 1)]


def samples(metrics: str) -> dict[str, str]:
    """Return the samples of ``metrics`` of one series each."""
    lines = [line for line in metrics.splitlines() if not line.startswith("#")]
    return {line.partition("{")[0]: line.removeprefix(line.partition("{")[0]) for line in lines}
