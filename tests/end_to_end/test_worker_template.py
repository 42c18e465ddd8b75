"""Workers are forked from a template, which has imported their modules."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import ROOT, model
from rig.gateway import Gateway
from rig.large import large_only
from rig.upstream import Upstream

from addon.serve.template_process import TEMPLATE_NAME, WORKER_NAME
from addon.serve.worker_template import find_modules
from addon.settings.settings import load_conf
from addon.store.money.sqlite.file import LedgerFile

TWO = ("--port", "0", "--workers", "2")


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").rstrip()


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _kill_worker(gateway: Gateway, number: int) -> int:
    """Kill a worker. Return the pid of its successor, once that serves."""
    started = [line for line in gateway.logs if line.get("event") == "worker started"]
    [*_, old] = [line["pid"] for line in started if line["worker"] == number]
    os.kill(old, signal.SIGKILL)
    ended = gateway.wait_for_log(lambda line: line.get("event") == "worker ended" and line["pid"] == old)
    assert ended["message"] == f"worker {number} ended with signal SIGKILL"
    new = gateway.wait_for_log(lambda line: line.get("event") == "worker started" and line not in started)
    gateway.wait_until(lambda: gateway.readiness().json()["checks"]["workers"] == "ok")
    return int(new["pid"])


def _call(gateway: Gateway) -> int:
    url, body = f"{gateway.url}/v1/chat/completions", {"messages": HELLO}
    return httpx.post(url, headers=gateway.headers, json=body, timeout=BOUND_S, trust_env=False).status_code


def test_workers_are_forked_and_the_supervisor_is_their_parent(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(arguments=TWO)
    template, workers = gateway.template(), gateway.children()
    assert (_name(template), {_name(pid) for pid in workers}) == (TEMPLATE_NAME, {WORKER_NAME})
    assert {_status(pid)["PPid"] for pid in (template, *workers)} == {str(gateway.pid)}
    assert _status(template)["Threads"] == "1"
    # Neither the template nor a worker has a file of another one: only their own, and those that all have.
    links = {os.readlink(file) for file in Path(f"/proc/{template}/fd").iterdir()}
    assert len([link for link in links if link.startswith("socket:")]) == 1
    successor = _kill_worker(gateway, 2)
    assert (_name(successor), gateway.template()) == (WORKER_NAME, template)
    assert _call(gateway) == 200
    assert gateway.stop() == 0
    assert not Path(f"/proc/{template}").exists()


@large_only
def test_a_template_outlives_the_signals_that_end_a_gateway(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    """A service manager may send SIGTERM to all processes."""
    gateway = start_gateway(arguments=TWO)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(gateway.template(), signum)
    successor = _kill_worker(gateway, 1)
    assert _name(successor) == WORKER_NAME
    # The worker does not have the signals of its template, but gets its own.
    os.kill(successor, signal.SIGTERM)
    ended = gateway.wait_for_log(
        lambda line: line.get("event") == "worker ended" and line["pid"] == successor
    )
    assert ended["message"] == "worker 1 ended with exit status 0"
    assert gateway.stop() == 0


@large_only
def test_without_its_template_a_gateway_starts_workers_as_new_interpreters(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(arguments=TWO)
    os.kill(gateway.template(), signal.SIGKILL)
    successor = _kill_worker(gateway, 1)
    assert _name(successor) != WORKER_NAME
    assert {_status(pid)["PPid"] for pid in (successor, *gateway.children())} == {str(gateway.pid)}
    gateway.wait_for_log(
        lambda line: (
            line["message"].startswith("worker 1 is a new interpreter: ") and line["level"] == "warning"
        )
    )
    assert _call(gateway) == 200
    assert gateway.stop() == 0


NO_TEMPLATE = """
import addon.serve.worker_template as worker_template
worker_template._can_have_template = lambda: False
from addon.cli import main
main()
"""


@large_only
def test_a_system_that_allows_no_template_gets_new_interpreters(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    gateway = start_gateway(arguments=TWO, program=("-c", NO_TEMPLATE))
    assert WORKER_NAME not in {_name(pid) for pid in gateway.children()}
    assert _call(gateway) == 200
    assert gateway.stop() == 0


UNUSED = {
    *("attr", "flask", "genai_prices", "httpx", "jinja2", "ldap3", "msgpack", "passlib", "redis"),
    *(
        "service_identity.cryptography",
        "sqlite_utils",
        "tabulate",
        "tornado.template",
        "tornado.web",
        "urwid",
    ),
    *("werkzeug", "addon.console", "addon.explain", "addon.store.rates.redis", "psycopg"),
    *("mitmproxy.addons.onboarding", "mitmproxy.flowfilter", "mitmproxy.tools"),
}
"""Modules that a worker does not need. Some take a tenth of a second, and all take memory."""

LEAVES = """
import subprocess
from pathlib import Path

def review(call):
    Path(__file__).with_name("pid").write_text(str(subprocess.Popen(["sleep", "600"]).pid))
"""


@large_only
def test_a_program_that_a_policy_leaves_behind_is_no_child_of_the_supervisor(
    start_gateway: StartGateway, upstream: Upstream, tmp_path: Path
) -> None:
    """The supervisor never reads its status, so it would stay in the process table."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "leaves.py").write_text(LEAVES)
    sections = {"policies": {"extra": ["leaves"]}}
    gateway = start_gateway(folder=tmp_path, sections=sections, arguments=TWO)
    assert _call(gateway) == 200
    program = int((tmp_path / "policies" / "pid").read_text())
    try:
        worker = int(_status(program)["PPid"])
        assert worker in gateway.children()
        os.kill(worker, signal.SIGKILL)
        gateway.wait_until(lambda: int(_status(program)["PPid"]) != worker)
        assert int(_status(program)["PPid"]) != gateway.pid
    finally:
        os.kill(program, signal.SIGKILL)
    gateway.wait_until(lambda: gateway.readiness().json()["checks"]["workers"] == "ok")
    assert gateway.stop() == 0


SHOWN = "modules: "
SHOW_MODULES = f"""
import json, os, sys
import addon.serve.template_process as template_process

run_worker = template_process._run_worker

def note_modules(*arguments):
    from addon.serve import worker
    preloaded, give_signs = set(sys.modules), worker.give_signs

    async def show_modules(status):
        late, unused = set(sys.modules) - preloaded, {UNUSED!r}.intersection(sys.modules)
        # In one write, because two workers do this at the same time.
        os.write(2, ({SHOWN!r} + json.dumps([sorted(late), sorted(unused)]) + "\\n").encode())
        await give_signs(status)

    worker.give_signs = show_modules
    return run_worker(*arguments)

template_process._run_worker = note_modules
from addon.cli import main
main()
"""
"""``tollgate`` whose workers show the modules that they imported late, and those of ``UNUSED``, when they serve."""


@large_only
def test_a_worker_has_all_its_modules_from_the_template_and_no_others(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    """In a new interpreter, because the processes of other tests have more modules."""
    # To make the tables of a ledger takes a module that a worker does not need later.
    LedgerFile(tmp_path / "var" / "tollgate.db").close()
    gateway = start_gateway(
        folder=tmp_path,
        arguments=TWO,
        program=("-uc", SHOW_MODULES),
        sections={"sandbox": {"enabled": True}},
        providers={"SANDBOX": {"builtin": True, "dialect": "openai"}},
        models={"tester-large": model(provider="SANDBOX", upstream_model_id="sandbox-chat-001")},
    )
    gateway.wait_until(lambda: len(_shown(gateway)) == len(gateway.children()))
    assert gateway.stop() == 0
    assert _shown(gateway) == [[[], []]] * 2


def _shown(gateway: Gateway) -> list[list[list[str]]]:
    return [json.loads(line.removeprefix(SHOWN)) for line in gateway.stderr_lines if line.startswith(SHOWN)]


@large_only
@pytest.mark.parametrize(
    ("backend", "ledger"),
    [("sqlite", ""), ("redis", ""), ("redis", "postgresql://127.0.0.1:1/tollgate")],
)
def test_the_modules_of_a_template_start_no_thread(backend: str, ledger: str, tmp_path: Path) -> None:
    conf_file = tmp_path / "proxy.conf"
    state = f'[state]\nbackend = "{backend}"\nredis_url = "redis://127.0.0.1:1/0"\n'
    conf_file.write_text(f'{state}[ledger]\nurl = "{ledger}"\n')
    code = (
        "import sys, importlib; from addon.serve.template_process import has_one_thread\n"
        f"for name in {find_modules(load_conf(conf_file))}: importlib.import_module(name)\n"
        "sys.exit(not has_one_thread())"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
