"""When a request is sent again, in simulated time: once a call, and only if its provider can't have begun to work."""

from pathlib import Path

import pytest
from rig.attempt_runs import STREAMED, WHOLE, MakeCalls
from rig.ledger import read_rows
from rig.simulation import Faults
from rig.simulation.clients import ClientBehaviour

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


def samples(metrics: str) -> dict[str, str]:
    """Return the samples of ``metrics`` of one series each."""
    lines = [line for line in metrics.splitlines() if not line.startswith("#")]
    return {line.partition("{")[0]: line.removeprefix(line.partition("{")[0]) for line in lines}
