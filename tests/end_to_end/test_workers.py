"""``tollgate serve --workers N``: several processes start on one port and serve it together."""

import os
import re
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import Configuration, model, workspace
from rig.gateway import Gateway
from rig.large import large_only, sampled
from rig.load import run_calls, sized_calls
from rig.processes import run_to_its_end
from rig.upstream import Upstream
from rig.workers import (
    CALLERS,
    CHAT,
    TWO,
    Breakable,
    is_running,
    make_call,
    served_by,
    wait_for_successor,
    worker_pids,
)

from addon.serve.worker_status import CHECKS


@pytest.fixture(scope="module")
def two_workers(start_gateway: StartGateway) -> Iterator[Gateway]:
    """As in the other files, but the file says how many workers."""
    gateway = start_gateway(sections={"listen": {"workers": 2}})
    yield gateway
    assert gateway.stop() == 0


@large_only
def test_every_worker_serves_on_the_announced_port(start_gateway: StartGateway, upstream: Upstream) -> None:
    gateway = start_gateway(arguments=("--port", "0", "--workers", "3"))
    assert sorted(worker_pids(gateway).values()) == sorted(gateway.children())
    assert served_by(gateway, 64) == {1, 2, 3}
    assert len(gateway.ledger_rows()) == 64
    pids = gateway.children()
    assert gateway.stop() == 0
    assert gateway.later_stdout() == []
    assert not any(is_running(pid) for pid in pids)
    assert not list((gateway.folder / "var").glob("workers-*"))


@large_only
def test_the_number_of_workers_in_the_file_is_started(pair: Gateway) -> None:
    assert served_by(pair) == {1, 2}


def test_one_worker_is_one_process_and_its_log_lines_have_no_number(
    gateway: Gateway, upstream: Upstream
) -> None:
    assert httpx.get(gateway.admin_url, timeout=BOUND_S, trust_env=False).status_code == 200
    assert gateway.children() == []  # The process of pages is no worker.
    call_id = make_call(gateway).headers["x-request-id"]
    assert "worker" not in gateway.wait_for_log(lambda line: line.get("id") == call_id)


@large_only
def test_workers_serve_tls(
    start_gateway: StartGateway, upstream: Upstream, secure_sections: dict[str, Any], trusting: ssl.SSLContext
) -> None:
    gateway = start_gateway(arguments=TWO, sections=secure_sections)
    assert gateway.url.startswith("https://127.0.0.1:")
    with httpx.Client(verify=trusting, timeout=BOUND_S, trust_env=False) as client:
        answer = client.post(gateway.url + CHAT, headers=gateway.headers, json={"messages": HELLO})
    assert answer.status_code == 200


@large_only
def test_each_worker_has_a_sandbox_of_its_own(start_gateway: StartGateway) -> None:
    gateway = start_gateway(
        arguments=TWO,
        sections={"sandbox": {"enabled": True}},
        providers={"SANDBOX": {"builtin": True, "dialect": "openai"}},
        models={"tester-large": model(provider="SANDBOX", upstream_model_id="sandbox-chat-001")},
    )
    assert served_by(gateway) == {1, 2}


def test_the_supervisor_has_the_one_admin_port(pair: Gateway) -> None:
    assert len([line for line in pair.logs if line.get("event") == "admin listening"]) == 1
    found = pair.readiness().json()
    assert found["checks"].keys() == {*CHECKS, "workers"}
    # Keys and circuits depend on the calls of earlier tests.
    others = found["checks"].keys() - {"platform_keys", "circuits"}
    assert {found["checks"][name] for name in others} == {"ok"}
    assert found["ready"]
    assert httpx.get(f"{pair.admin_url}/healthz", timeout=BOUND_S, trust_env=False).status_code == 200
    page = httpx.get(f"{pair.admin_url}/metrics", timeout=BOUND_S, trust_env=False)
    assert (page.status_code, page.headers["content-type"].split(";")[0]) == (200, "text/plain")


def test_metrics_count_the_keys_of_every_worker_and_shared_circuits_once(pair: Gateway) -> None:
    def counted(name: str) -> list[float]:
        page = httpx.get(f"{pair.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
        found = re.findall(rf'^{name}{{.*provider="TESTER".*}} (\S+)$', page, re.MULTILINE)
        return [float(count) for count in found]

    # Whether keys rest and circuits are open depends on the calls of earlier tests.
    pair.wait_until(lambda: sum(counted("tollgate_platform_keys")) == 2)
    pair.wait_until(lambda: len(counted("tollgate_circuits_open")) == 3)
    assert max(counted("tollgate_circuits_open")) <= 1


@large_only
def test_workers_report_a_lost_ledger(start_gateway: StartGateway) -> None:
    gateway = start_gateway(arguments=TWO)
    (gateway.folder / "var" / "tollgate.db").rename(gateway.folder / "var" / "elsewhere.db")
    gateway.wait_until(lambda: gateway.readiness().status_code == 503)
    checks = gateway.readiness().json()["checks"]
    assert "tollgate.db: no such file or directory" in checks["store"]
    assert checks["workers"] == "ok"


def test_one_page_of_metrics_adds_up_all_workers_also_dead_ones(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(arguments=TWO)
    assert served_by(gateway) == {1, 2}
    for number, pid in worker_pids(gateway).items():
        os.kill(pid, signal.SIGKILL)
        wait_for_successor(gateway, number, pid)
    page = httpx.get(f"{gateway.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
    assert sum(map(float, re.findall(r"^tollgate_calls_total\{.*\} (\S+)$", page, re.MULTILINE))) == CALLERS
    assert "\ntollgate_workers 2.0\n" in page
    assert "\ntollgate_worker_starts_total 4.0\n" in page


@large_only
def test_every_log_line_of_four_busy_workers_is_whole(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(arguments=("--port", "0", "--workers", "4"))
    calls = sized_calls(400, "tester-large")
    outcome = run_calls([gateway.url], gateway.key, calls, at_once=40)
    assert outcome.statuses == {200: len(calls)}
    assert gateway.stop() == 0
    assert all(line.startswith("{") for line in gateway.stderr_lines)
    ids = {answer.headers["x-request-id"] for answer in outcome.answers.values()}
    logged = [line for line in gateway.logs if line.get("event") == "call"]
    assert sorted(line["id"] for line in logged) == sorted(ids)
    assert {line["worker"] for line in logged} == {1, 2, 3, 4}


# Refused starts.


def refused_start(folder: Path, **changes: Any) -> str:
    """Start with ``changes``, which must fail. Return the one line with the reason."""
    ended = run_to_its_end(Configuration({}, {}, workspaces={"empty": workspace()}, **changes), folder)
    said = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert (ended.returncode, ended.stdout, len(said)) == (1, "", 1), ended
    return said[0].removeprefix("tollgate: ")


@sampled(every=2)
@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("second", [1, 2])
def test_a_second_gateway_on_the_same_port_is_refused(
    start_gateway: StartGateway, gateway: Gateway, pair: Gateway, tmp_path: Path, first: int, second: int
) -> None:
    port = (gateway if first == 1 else pair).url.rpartition(":")[2]
    said = refused_start(tmp_path, arguments=("--port", port, "--workers", str(second)))
    assert said.startswith(f"can't listen on 127.0.0.1:{port}: Address already in use")
    assert said.endswith(": change [listen] port, or use serve --port")


REFUSED_SECTIONS = {
    "a ledger that is a folder": (
        {"paths": {"database": "catalog_data"}},
        r".*catalog_data: can't be opened",
    ),
    "a Redis that is not there": (
        {"state": {"backend": "redis", "redis_url": "redis://127.0.0.1:1/0"}},
        r"Redis at redis://127\.0\.0\.1:1/0: ",
    ),
    "a host that is not here": (
        {"listen": {"host": "203.0.113.1"}},
        r"can't listen on 203.0.113.1:0: Cannot assign requested address",
    ),
}


@sampled(every=3)
@pytest.mark.parametrize(("sections", "reason"), REFUSED_SECTIONS.values(), ids=REFUSED_SECTIONS)
def test_a_worker_that_can_not_start_gives_one_clear_line(
    tmp_path: Path, sections: dict[str, Any], reason: str
) -> None:
    assert re.match(reason, refused_start(tmp_path, sections=sections, arguments=TWO))


def test_a_taken_admin_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused_start(tmp_path, sections={"admin": {"port": port}}, arguments=TWO)
    assert said.startswith(f"can't listen on 127.0.0.1:{port}: Address already in use by ")
    assert said.endswith(": change [admin] port, or use serve --admin-port")


def test_a_worker_that_dies_before_it_serves_ends_the_start(tmp_path: Path) -> None:
    breakable = Breakable(tmp_path)
    breakable.break_workers()
    said = refused_start(tmp_path, program=breakable.program, arguments=TWO)
    assert said == "worker 1 ended with exit status 3"
