"""``tollgate serve --workers N``: several processes on one port. One that dies is replaced."""

import os
import re
import signal
import socket
import ssl
import stat
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.canaries import Canaries, all_files_seen
from rig.configuration import PROVIDER_KEY, Configuration, model, workspace
from rig.gateway import Gateway
from rig.load import run_calls, sized_calls
from rig.processes import run_to_its_end
from rig.raw_clients import RawClient
from rig.scripts import DONE, Gate, Script, chunk, chunked, event
from rig.settings_files import replace
from rig.upstream import Upstream

from addon.serve.worker_status import CHECKS
from addon.settings.snapshot import SNAPSHOT_FILE

CHAT = "/v1/chat/completions"
TWO = ("--port", "0", "--workers", "2")
CALLERS = 24
"""The kernel spreads connections by a hash: once in 8 million runs all of these meet the same of two workers."""


def _is_running(pid: int) -> bool:
    """Return whether a process lives. A zombie, whose parent has not read its exit status, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _workers(gateway: Gateway) -> dict[int, int]:
    """Return the pid of the newest process of each worker, by number."""
    return {line["worker"]: line["pid"] for line in gateway.logs if line.get("event") == "worker started"}


def _calls(gateway: Gateway) -> dict[str, int]:
    """Return the number of the worker that served each call, by call id."""
    return {line["id"]: line["worker"] for line in list(gateway.logs) if line.get("event") == "call"}


def _call(gateway: Gateway) -> httpx.Response:
    """Make one call on its own connection."""
    url, body = gateway.url + CHAT, {"messages": HELLO}
    return httpx.post(url, headers=gateway.headers, json=body, timeout=BOUND_S, trust_env=False)


def _served_by(gateway: Gateway, count: int = CALLERS) -> set[int]:
    """Make calls, which must all succeed. Return the numbers of the workers that served them."""
    ids = set()
    for _ in range(count):
        answer = _call(gateway)
        assert answer.status_code == 200, answer.text
        ids.add(answer.headers["x-request-id"])
    gateway.wait_until(lambda: ids <= _calls(gateway).keys())
    return {_calls(gateway)[one] for one in ids}


def _wait_for_successor(gateway: Gateway, number: int, pid: int) -> None:
    gateway.wait_for_log(
        lambda line: line.get("event") == "worker started" and line["worker"] == number and line["pid"] != pid
    )
    gateway.wait_until(lambda: _all_serve(gateway))


def _all_serve(gateway: Gateway) -> bool:
    answer = gateway.readiness()
    return answer.status_code == 200 and answer.json()["checks"]["workers"] == "ok"


def _held(gate: Gate) -> Script:
    return chunked(event(chunk("one")), gate, event(chunk("two", finish="stop")), DONE)


class Callers:
    """Streamed calls in flight, each on its own connection, until the gate opens."""

    def __init__(self, gateway: Gateway, upstream: Upstream, count: int = CALLERS) -> None:
        self.gate = Gate()
        upstream.behave(_held(self.gate))
        self._open = ExitStack()
        self._clients: dict[str, RawClient] = {}
        for _ in range(count):
            client = self._open.enter_context(RawClient(gateway.url))
            client.send(gateway.chat_bytes(stream=True))
            call_id = client.read_head().header("x-request-id")
            client.read_chunks_until(b"one")
            assert call_id
            self._clients[call_id] = client

    def finish(self) -> tuple[set[str], set[str]]:
        """Let every call end. Return the ids of whole calls, and of calls that broke off."""
        self.gate.open()
        whole, broken = set(), set()
        for call_id, client in self._clients.items():
            try:
                client.read_chunks_until(b"data: [DONE]\n\n")
                assert client.read_chunk() == b""
                whole.add(call_id)
            except (EOFError, ConnectionResetError):
                broken.add(call_id)
        self._open.close()
        return whole, broken


@pytest.fixture(scope="module")
def shared(start_gateway: StartGateway) -> Gateway:
    return start_gateway(arguments=TWO)


@pytest.fixture
def pair(shared: Gateway, upstream: Upstream) -> Gateway:
    """A gateway with two workers, both of which serve."""
    shared.wait_until(lambda: _all_serve(shared))
    return shared


# Serving.


def test_every_worker_serves_on_the_announced_port(start_gateway: StartGateway, upstream: Upstream) -> None:
    gateway = start_gateway(arguments=("--port", "0", "--workers", "3"))
    assert sorted(_workers(gateway).values()) == sorted(gateway.children())
    assert _served_by(gateway, 64) == {1, 2, 3}
    assert len(gateway.ledger_rows()) == 64
    pids = gateway.children()
    assert gateway.stop() == 0
    assert gateway.later_stdout() == []
    assert not any(_is_running(pid) for pid in pids)
    assert not list((gateway.folder / "var").glob("workers-*"))


def test_the_number_of_workers_in_the_file_is_started(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(sections={"listen": {"workers": 2}})
    assert _served_by(gateway) == {1, 2}
    assert gateway.stop() == 0


def test_one_worker_is_one_process_and_its_log_lines_have_no_number(
    gateway: Gateway, upstream: Upstream
) -> None:
    assert gateway.children() == []
    call_id = _call(gateway).headers["x-request-id"]
    assert "worker" not in gateway.wait_for_log(lambda line: line.get("id") == call_id)


def test_workers_serve_tls(
    start_gateway: StartGateway, upstream: Upstream, secure_sections: dict[str, Any], trusting: ssl.SSLContext
) -> None:
    gateway = start_gateway(arguments=TWO, sections=secure_sections)
    assert gateway.url.startswith("https://127.0.0.1:")
    with httpx.Client(verify=trusting, timeout=BOUND_S, trust_env=False) as client:
        answer = client.post(gateway.url + CHAT, headers=gateway.headers, json={"messages": HELLO})
    assert answer.status_code == 200


def test_each_worker_has_a_sandbox_of_its_own(start_gateway: StartGateway) -> None:
    gateway = start_gateway(
        arguments=TWO,
        sections={"sandbox": {"enabled": True}},
        providers={"SANDBOX": {"builtin": True, "dialect": "openai"}},
        models={"tester-large": model(provider="SANDBOX", upstream_model_id="sandbox-chat-001")},
    )
    assert _served_by(gateway) == {1, 2}


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
    assert _served_by(gateway) == {1, 2}
    for number, pid in _workers(gateway).items():
        os.kill(pid, signal.SIGKILL)
        _wait_for_successor(gateway, number, pid)
    page = httpx.get(f"{gateway.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
    assert sum(map(float, re.findall(r"^tollgate_calls_total\{.*\} (\S+)$", page, re.MULTILINE))) == CALLERS
    assert "\ntollgate_workers 2.0\n" in page
    assert "\ntollgate_worker_starts_total 4.0\n" in page


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


# Settings.


def test_an_edit_reaches_every_worker_and_is_one_log_line(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(arguments=TWO)
    _revoke_key(gateway)
    gateway.wait_for_log(lambda line: line["message"].startswith("settings reloaded"))
    gateway.wait_until(lambda: {_call(gateway).status_code for _ in range(CALLERS)} == {401})
    page = httpx.get(f"{gateway.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
    assert "\ntollgate_reload_failed 0.0\n" in page
    [age_s] = re.findall(r"^tollgate_settings_age_seconds (\S+)$", page, re.MULTILINE)
    assert float(age_s) < BOUND_S
    assert gateway.stop() == 0
    # Only the supervisor writes the lines of settings.
    for name in ("settings loaded", "settings warning", "settings reloaded"):
        assert ["worker" in line for line in gateway.logs if line.get("event") == name] == [False]
    ends = [line for line in gateway.logs if line.get("event") == "stopped"]
    assert sorted(line.get("worker", 0) for line in ends) == [0, 1, 2]
    assert (ends[-1].get("worker"), ends[-1]["killed_workers"]) == (None, 0)


def test_a_restarted_worker_gets_the_last_good_settings_while_the_files_are_broken(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(arguments=TWO)
    models = gateway.folder / "catalog_data" / "models.toml"
    good = models.read_text()
    models.write_text(good.replace("tester-large", "tester-new"))
    file = gateway.folder / "policies" / "workspaces" / "acme.toml"
    file.write_text(file.read_text().replace("tester-large", "tester-new"))
    gateway.wait_for_log(lambda line: line["message"].startswith("settings reloaded"))
    models.write_text("this is no TOML")
    gateway.wait_until(lambda: "models.toml" in gateway.readiness().json()["checks"]["settings"])
    assert gateway.readiness().status_code == 200
    for number, pid in _workers(gateway).items():
        os.kill(pid, signal.SIGKILL)
        _wait_for_successor(gateway, number, pid)
    assert _served_by(gateway) == {1, 2}
    assert {row["model_slug"] for row in gateway.ledger_rows()} == {"tester-new"}


def _snapshot(gateway: Gateway) -> Path:
    (file,) = (gateway.folder / "var").glob(f"workers-*/{SNAPSHOT_FILE}")
    return file


def _revoke_key(gateway: Gateway) -> None:
    file = gateway.folder / "policies" / "workspaces" / "acme.toml"
    file.write_text(file.read_text().replace("active = true", "active = false"))


def test_a_snapshot_is_readable_by_its_owner_only_and_shows_no_secret(pair: Gateway) -> None:
    file = _snapshot(pair)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert not Canaries({"the provider's key": PROVIDER_KEY}).found_in(all_files_seen(file.parent))


def test_a_snapshot_that_can_not_be_written_is_reported_and_written_later(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(arguments=TWO)
    file = _snapshot(gateway)
    file.unlink()
    file.mkdir()  # As a full disk would, this keeps a new one from being written.
    _revoke_key(gateway)
    gateway.wait_until(lambda: "do not reach the workers" in gateway.readiness().json()["checks"]["settings"])
    assert _served_by(gateway) == {1, 2}
    file.rmdir()
    gateway.wait_until(lambda: {_call(gateway).status_code for _ in range(CALLERS)} == {401})
    gateway.wait_until(lambda: gateway.readiness().json()["checks"]["settings"] == "ok")


def test_a_torn_snapshot_is_refused_by_every_worker_in_one_clear_line(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(arguments=TWO)
    file = _snapshot(gateway)
    replace(file, file.read_text()[:-100])
    reason = f"{file}: is not a whole snapshot of this run of the gateway"
    for number in (1, 2):
        message = f"settings: could not be put to use: {reason}"
        gateway.wait_for_log(lambda line: (line["message"], line.get("worker")) == (message, number))  # noqa: B023
    assert _served_by(gateway) == {1, 2}
    assert "could not be put to use" in gateway.readiness().json()["checks"]["settings"]
    os.kill(_workers(gateway)[1], signal.SIGKILL)
    gateway.wait_for_log(lambda line: line["message"] == f"worker 1 ended with exit status 1: {reason}")
    _revoke_key(gateway)
    gateway.wait_until(lambda: _all_serve(gateway))
    gateway.wait_until(lambda: {_call(gateway).status_code for _ in range(CALLERS)} == {401})
    gateway.wait_until(lambda: gateway.readiness().json()["checks"]["settings"] == "ok")


# Dying.


def test_a_killed_worker_is_replaced_and_breaks_no_call_of_another(pair: Gateway, upstream: Upstream) -> None:
    callers = Callers(pair, upstream)
    number, pid = 1, _workers(pair)[1]
    os.kill(pid, signal.SIGKILL)
    pair.wait_for_log(lambda line: line.get("event") == "worker ended" and line["pid"] == pid)
    assert pair.readiness().status_code == 200
    whole, broken = callers.finish()
    pair.wait_until(lambda: whole <= _calls(pair).keys())
    assert {_calls(pair)[call_id] for call_id in whole} == {2}
    assert broken, "no call met the worker that was killed"
    _wait_for_successor(pair, number, pid)
    ended = pair.wait_for_log(lambda line: line.get("event") == "worker ended" and line["pid"] == pid)
    assert (ended["worker"], ended["message"]) == (1, "worker 1 ended with signal SIGKILL")
    upstream.reset()
    assert _served_by(pair) == {1, 2}
    for call_id in broken:
        assert pair.wait_for_row(call_id)["error_code"] == "interrupted"
    assert {pair.wait_for_row(call_id)["status"] for call_id in whole} == {200}


def test_no_connection_waits_for_a_missing_worker(
    start_gateway: StartGateway, upstream: Upstream, breakable: "Breakable"
) -> None:
    gateway = start_gateway(arguments=TWO, program=breakable.program)
    breakable.break_workers()
    os.kill(_workers(gateway)[1], signal.SIGKILL)
    gateway.wait_for_log(lambda line: line["message"] == "worker 1 ended with exit status 3")
    assert _served_by(gateway) == {2}
    answer = gateway.readiness()
    assert (answer.status_code, answer.json()["checks"]["workers"]) == (200, "1 of 2 running")
    os.kill(_workers(gateway)[2], signal.SIGKILL)
    gateway.wait_until(lambda: gateway.readiness().status_code == 503)
    assert gateway.readiness().json()["checks"]["workers"] == "0 of 2 running"
    breakable.mend_workers()
    gateway.wait_until(lambda: _all_serve(gateway))
    assert _served_by(gateway) == {1, 2}


def test_a_worker_that_gets_sigterm_drains_and_is_replaced(pair: Gateway, upstream: Upstream) -> None:
    callers = Callers(pair, upstream)
    pid = _workers(pair)[2]
    os.kill(pid, signal.SIGTERM)
    pair.wait_until(lambda: pair.readiness().json()["checks"]["drain"] == "worker 2: draining")
    assert pair.readiness().status_code == 200
    whole, broken = callers.finish()
    assert (len(whole), broken) == (CALLERS, set())
    _wait_for_successor(pair, 2, pid)


SHORT_BOUNDS = """
import addon.serve.supervisor as supervisor
supervisor.ANSWER_S, supervisor.SLACK_S = 0.5, 0.5
from addon.cli import main
main()
"""


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
    assert not any(_is_running(pid) for pid in pids)


SHORT_SILENCE = """
import addon.serve.worker_pool as worker_pool
worker_pool.SILENT_S = 3
from addon.cli import main
main()
"""


def test_a_worker_that_hangs_is_killed_and_replaced_and_all_end_well(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(program=("-c", SHORT_SILENCE), arguments=TWO)
    pid = _workers(gateway)[1]
    os.kill(pid, signal.SIGSTOP)
    silent = gateway.wait_for_log(lambda line: line.get("event") == "worker silent")
    assert (silent["worker"], silent["pid"]) == (1, pid)
    assert silent["message"] == "worker 1 gives no sign of life for 3 s: killed"
    _wait_for_successor(gateway, 1, pid)
    assert _served_by(gateway) == {1, 2}
    assert gateway.stop() == 0


def test_a_supervisor_that_was_stopped_kills_no_worker(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    """The supervisor is stopped for longer than a worker may be silent."""
    gateway = start_gateway(program=("-c", SHORT_SILENCE), arguments=TWO)
    pids = gateway.children()
    os.kill(gateway.pid, signal.SIGSTOP)
    time.sleep(4)
    os.kill(gateway.pid, signal.SIGCONT)
    gateway.wait_until(lambda: _all_serve(gateway))
    assert _served_by(gateway) == {1, 2}
    assert gateway.children() == pids
    assert gateway.stop() == 0
    assert not [line for line in gateway.logs if line.get("event") == "worker silent"]


# Ending.


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
    assert {_calls(gateway)[call_id] for call_id in whole} == {1, 2}
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
    gateway.wait_until(lambda: not any(_is_running(pid) for pid in pids))
    assert [row["status"] for row in gateway.ledger_rows()] == [200] * CALLERS
    again = start_gateway(
        folder=gateway.folder, arguments=("--port", gateway.url.rpartition(":")[2], "--workers", "2")
    )
    assert again.url == gateway.url


# Not starting.


def _refused(folder: Path, **changes: Any) -> str:
    """Start with ``changes``, which must fail. Return the one line with the reason."""
    ended = run_to_its_end(Configuration({}, {}, workspaces={"empty": workspace()}, **changes), folder)
    said = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert (ended.returncode, ended.stdout, len(said)) == (1, "", 1), ended
    return said[0].removeprefix("tollgate: ")


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("second", [1, 2])
def test_a_second_gateway_on_the_same_port_is_refused(
    start_gateway: StartGateway, gateway: Gateway, pair: Gateway, tmp_path: Path, first: int, second: int
) -> None:
    port = (gateway if first == 1 else pair).url.rpartition(":")[2]
    said = _refused(tmp_path, arguments=("--port", port, "--workers", str(second)))
    assert said.startswith(f"can't listen on 127.0.0.1:{port}: Address already in use")
    assert said.endswith(": change [listen] port, or use serve --port")


REFUSED_SECTIONS = {
    "a ledger that is a folder": (
        {"paths": {"database": "catalog_data"}},
        r".*catalog_data: can't be opened",
    ),
    "a Redis that is not there": (
        {"state": {"backend": "redis", "redis_url": "redis://127.0.0.1:1/0"}},
        r"Redis at 127\.0\.0\.1:1: ",
    ),
    "a host that is not here": (
        {"listen": {"host": "203.0.113.1"}},
        r"can't listen on 203.0.113.1:0: Cannot assign requested address",
    ),
}


@pytest.mark.parametrize(("sections", "reason"), REFUSED_SECTIONS.values(), ids=REFUSED_SECTIONS)
def test_a_worker_that_can_not_start_gives_one_clear_line(
    tmp_path: Path, sections: dict[str, Any], reason: str
) -> None:
    assert re.match(reason, _refused(tmp_path, sections=sections, arguments=TWO))


def test_a_taken_admin_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = _refused(tmp_path, sections={"admin": {"port": port}}, arguments=TWO)
    assert said.startswith(f"can't listen on 127.0.0.1:{port}: Address already in use by ")
    assert said.endswith(": change [admin] port, or use serve --admin-port")


class Breakable:
    """A program whose workers end at once with exit status 3, from ``break_workers`` to ``mend_workers``."""

    def __init__(self, folder: Path) -> None:
        self._broken = folder / "broken"
        code = (
            "import os, addon.serve.worker as worker\n"
            "main = worker.main\n"
            f"worker.main = lambda *a: os._exit(3) if os.path.exists({str(self._broken)!r}) else main(*a)\n"
            "from addon.cli import main as tollgate\n"
            "tollgate()\n"
        )
        self.program = ("-c", code)

    def break_workers(self) -> None:
        self._broken.touch()

    def mend_workers(self) -> None:
        self._broken.unlink()


@pytest.fixture
def breakable(tmp_path_factory: pytest.TempPathFactory) -> Breakable:
    return Breakable(tmp_path_factory.mktemp("breakable"))


def test_a_worker_that_dies_before_it_serves_ends_the_start(tmp_path: Path, breakable: Breakable) -> None:
    breakable.break_workers()
    said = _refused(tmp_path, program=breakable.program, arguments=TWO)
    assert said == "worker 1 ended with exit status 3"
