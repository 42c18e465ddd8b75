"""A gateway that was stopped for a while (SIGSTOP, a suspended machine) blames neither its store nor a provider.

Each test takes the 2.6 s of the stop: longer than the store's bound, and than the timeouts toward the provider here.
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
    """Stop a process during the block, and let it go on."""
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


def test_a_process_that_was_stopped_under_load_blames_neither_its_store_nor_its_provider(
    gateway: Gateway, upstream: Upstream
) -> None:
    gate = Gate()

    def answers_while_nobody_reads(asked: Received) -> Script:
        return (gate, *whole(completion())) if len(upstream.requests) <= 40 else ordinary(asked)

    upstream.behave(answers_while_nobody_reads)
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
