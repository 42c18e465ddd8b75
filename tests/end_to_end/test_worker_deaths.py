"""Workers and supervisors that die, hang or get a signal. A worker that ends is replaced."""

import os
import signal
import time
from pathlib import Path

import pytest
from conftest import StartGateway
from rig.gateway import Gateway
from rig.large import large_only, sampled
from rig.raw_clients import RawClient
from rig.upstream import Upstream
from rig.workers import (
    CALLERS,
    TWO,
    Breakable,
    Callers,
    all_serve,
    is_running,
    served_by,
    wait_for_successor,
    worker_pids,
    workers_of_calls,
)

# A worker ends.


def test_a_killed_worker_is_replaced_and_breaks_no_call_of_another(pair: Gateway, upstream: Upstream) -> None:
    callers = Callers(pair, upstream)
    number, pid = 1, worker_pids(pair)[1]
    os.kill(pid, signal.SIGKILL)
    pair.wait_for_log(lambda line: line.get("event") == "worker ended" and line["pid"] == pid)
    assert pair.readiness().status_code == 200
    whole, broken = callers.finish()
    pair.wait_until(lambda: whole <= workers_of_calls(pair).keys())
    assert {workers_of_calls(pair)[call_id] for call_id in whole} == {2}
    assert broken, "no call met the worker that was killed"
    wait_for_successor(pair, number, pid)
    ended = pair.wait_for_log(lambda line: line.get("event") == "worker ended" and line["pid"] == pid)
    assert (ended["worker"], ended["message"]) == (1, "worker 1 ended with signal SIGKILL")
    upstream.reset()
    assert served_by(pair) == {1, 2}
    for call_id in broken:
        assert pair.wait_for_row(call_id)["error_code"] == "interrupted"
    assert {pair.wait_for_row(call_id)["status"] for call_id in whole} == {200}


@large_only
def test_no_connection_waits_for_a_missing_worker(
    start_gateway: StartGateway, upstream: Upstream, tmp_path: Path
) -> None:
    breakable = Breakable(tmp_path)
    gateway = start_gateway(arguments=TWO, program=breakable.program)
    breakable.break_workers()
    os.kill(worker_pids(gateway)[1], signal.SIGKILL)
    gateway.wait_for_log(lambda line: line["message"] == "worker 1 ended with exit status 3")
    assert served_by(gateway) == {2}
    answer = gateway.readiness()
    assert (answer.status_code, answer.json()["checks"]["workers"]) == (200, "1 of 2 running")
    os.kill(worker_pids(gateway)[2], signal.SIGKILL)
    gateway.wait_until(lambda: gateway.readiness().status_code == 503)
    assert gateway.readiness().json()["checks"]["workers"] == "0 of 2 running"
    breakable.mend_workers()
    gateway.wait_until(lambda: all_serve(gateway))
    assert served_by(gateway) == {1, 2}


def test_a_worker_that_gets_sigterm_drains_and_is_replaced(pair: Gateway, upstream: Upstream) -> None:
    callers = Callers(pair, upstream)
    pid = worker_pids(pair)[2]
    os.kill(pid, signal.SIGTERM)
    pair.wait_until(lambda: pair.readiness().json()["checks"]["drain"] == "worker 2: draining")
    assert pair.readiness().status_code == 200
    whole, broken = callers.finish()
    assert (len(whole), broken) == (CALLERS, set())
    wait_for_successor(pair, 2, pid)


SHORT_BOUNDS = """
import addon.serve.supervisor as supervisor
supervisor.ANSWER_S, supervisor.SLACK_S = 0.5, 0.5
from addon.cli import main
main()
"""


@large_only
def test_a_frozen_worker_counts_as_missing_and_the_others_end(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(
        program=("-c", SHORT_BOUNDS), arguments=TWO, sections={"listen": {"drain_timeout_s": 2}}
    )
    pids = gateway.children()
    os.kill(pids[0], signal.SIGSTOP)
    answer = gateway.readiness()
    assert (answer.status_code, answer.json()["checks"]["workers"]) == (200, "1 of 2 running")
    assert gateway.stop() == 1
    assert gateway.stderr_lines[-1].startswith("tollgate: killed worker 1")
    assert not any(is_running(pid) for pid in pids)


SHORT_SILENCE = """
import addon.serve.worker_pool as worker_pool
worker_pool.SILENT_S = 3
from addon.cli import main
main()
"""


@large_only
def test_a_worker_that_hangs_is_killed_and_replaced_and_all_end_well(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(program=("-c", SHORT_SILENCE), arguments=TWO)
    pid = worker_pids(gateway)[1]
    os.kill(pid, signal.SIGSTOP)
    silent = gateway.wait_for_log(lambda line: line.get("event") == "worker silent")
    assert (silent["worker"], silent["pid"]) == (1, pid)
    assert silent["message"] == "worker 1 gives no sign of life for 3 s: killed"
    wait_for_successor(gateway, 1, pid)
    assert served_by(gateway) == {1, 2}
    assert gateway.stop() == 0


@large_only
def test_a_supervisor_that_was_stopped_kills_no_worker(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    """The supervisor is stopped for longer than a worker may be silent."""
    gateway = start_gateway(program=("-c", SHORT_SILENCE), arguments=TWO)
    pids = gateway.children()
    os.kill(gateway.pid, signal.SIGSTOP)
    time.sleep(4)
    os.kill(gateway.pid, signal.SIGCONT)
    gateway.wait_until(lambda: all_serve(gateway))
    assert served_by(gateway) == {1, 2}
    assert gateway.children() == pids
    assert gateway.stop() == 0
    assert not [line for line in gateway.logs if line.get("event") == "worker silent"]


# The whole gateway ends.


@large_only
@sampled(every=2)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_every_worker_and_every_call_ends(
    start_gateway: StartGateway, upstream: Upstream, signum: signal.Signals
) -> None:
    gateway = start_gateway(arguments=TWO)
    callers = Callers(gateway, upstream)
    # As with Ctrl-C on a terminal, pressed twice.
    for _ in range(2):
        gateway.terminate(signum)
        gateway.wait_until(lambda: gateway.readiness().json()["checks"]["drain"] == "draining")
    gateway.wait_until(lambda: not _accepts(gateway))
    whole, broken = callers.finish()
    assert (len(whole), broken) == (CALLERS, set())
    assert gateway.wait() == 0
    assert {workers_of_calls(gateway)[call_id] for call_id in whole} == {1, 2}
    assert [row["status"] for row in gateway.ledger_rows()] == [200] * CALLERS


def _accepts(gateway: Gateway) -> bool:
    try:
        RawClient(gateway.url).close()
    except ConnectionError:
        return False
    return True


def test_ctrl_c_on_a_terminal_reaches_the_supervisor_only(pair: Gateway) -> None:
    assert {os.getpgid(pid) for pid in pair.children()}.isdisjoint({os.getpgid(pair.pid)})


def test_a_killed_supervisor_leaves_no_process_and_calls_in_flight_end(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(arguments=TWO)
    pids = [*gateway.children(), gateway.template()]
    callers = Callers(gateway, upstream)
    os.kill(gateway.pid, signal.SIGKILL)
    gateway.wait_until(lambda: not _accepts(gateway))
    whole, broken = callers.finish()
    assert (len(whole), broken) == (CALLERS, set())
    assert gateway.wait() == -signal.SIGKILL
    gateway.wait_until(lambda: not any(is_running(pid) for pid in pids))
    assert [row["status"] for row in gateway.ledger_rows()] == [200] * CALLERS
    again = start_gateway(
        folder=gateway.folder, arguments=("--port", gateway.url.rpartition(":")[2], "--workers", "2")
    )
    assert again.url == gateway.url
