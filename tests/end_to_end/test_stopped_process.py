"""A gateway that was stopped for a while (SIGSTOP, a suspended machine) reports no failure of store or provider.

Each test takes 2.6 s for the stop. This is longer than the bound of the store and the timeouts of the provider here.
"""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from conftest import StartGateway
from rig.gateway import Gateway
from rig.large import sampled
from rig.load import run_calls, sized_calls
from rig.scripts import Gate, Received, Script, completion, ordinary, whole
from rig.upstream import Upstream

STOP_S = 2.6
CALLS, AT_ONCE = 160, 80
SECTIONS: dict[str, Any] = {
    "upstream": {
        "connect_timeout_s": 1,
        "first_byte_timeout_s": 1,
        "idle_timeout_s": 1,
        "whole_timeout_s": 2,
    }
}


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process during the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture(params=["sqlite", "redis"])
def gateway(request: pytest.FixtureRequest, start_gateway: StartGateway, upstream: Upstream) -> Gateway:
    sections = SECTIONS
    if request.param == "redis":
        state = {"backend": "redis", "redis_url": request.getfixturevalue("redis_url")}
        sections = SECTIONS | {"state": state}
    return start_gateway(sections=sections)


@sampled(every=2)
def test_a_stop_under_load_is_no_failure_of_store_or_provider(gateway: Gateway, upstream: Upstream) -> None:
    gate = Gate()

    def answer_during_the_stop(asked: Received) -> Script:
        return (gate, *whole(completion())) if len(upstream.requests) <= 40 else ordinary(asked)

    upstream.behave(answer_during_the_stop)
    calls = sized_calls(CALLS, "tester-large")
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(run_calls, [gateway.url], gateway.key, calls, AT_ONCE)
        upstream.wait_for_requests(40)
        with stopped(gateway.pid):
            gate.open()
            time.sleep(STOP_S)
        outcome = load.result()
    assert not outcome.unanswered
    refused = [answer.json() for answer in outcome.answers.values() if answer.status_code != 200]
    assert not refused, outcome.statuses
    assert gateway.stop() == 0
    assert len(gateway.ledger_rows()) == CALLS
