"""``tollgate serve --takeover``: a new process serves on the sockets of the running one, and no call is lost."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Self

import httpx
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import CLI, TOLLGATE, environment
from rig.fork_server import run_forked
from rig.gateway import Gateway
from rig.large import large_only
from rig.raw_clients import RawClient, request_bytes
from rig.scripts import DONE, Gate, chunk, chunked, event
from rig.upstream import Upstream

PAUSE_S = 0.02
"""Between two calls of a client, so that the processes that start get their share of the machine."""

MODELS = request_bytes("GET", "/v1/models", [])


class Load:
    """Clients that call all the time: on new connections, on kept ones, streamed, and the admin port."""

    def __init__(self, gateway: Gateway) -> None:
        self.outcomes: Counter[str] = Counter()
        self._chat = gateway.url + "/v1/chat/completions"
        self._ready = gateway.admin_url + "/readyz"
        self._headers = gateway.headers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(BOUND_S)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as callers:
            for kept in (False, True):
                for stream in (False, True):
                    callers.create_task(self._call(f"{kept=} {stream=}", kept=kept, stream=stream))
                callers.create_task(self._poll(kept=kept))

    def _client(self, *, kept: bool) -> httpx.AsyncClient:
        limits = httpx.Limits(max_keepalive_connections=1 if kept else 0)
        return httpx.AsyncClient(timeout=BOUND_S, trust_env=False, verify=False, limits=limits)

    async def _call(self, name: str, *, kept: bool, stream: bool) -> None:
        async with self._client(kept=kept) as client:
            while not self._stop.is_set():
                body = {"messages": HELLO, "stream": stream}
                try:
                    answer = await client.post(self._chat, headers=self._headers, json=body)
                    is_whole = not stream or answer.text.endswith("data: [DONE]\n\n")
                    self.outcomes[f"{name} {answer.status_code} {is_whole}"] += 1
                except httpx.TransportError as error:
                    self.outcomes[f"{name} {error!r}"] += 1
                await asyncio.sleep(PAUSE_S)

    async def _poll(self, *, kept: bool) -> None:
        async with self._client(kept=kept) as client:
            while not self._stop.is_set():
                try:
                    answer = await client.get(self._ready)
                    checks = "" if answer.is_success else f" {answer.text}"
                    self.outcomes[f"admin {kept=}{checks} {answer.status_code}"] += 1
                except httpx.TransportError as error:
                    self.outcomes[f"admin {kept=} {error!r}"] += 1
                await asyncio.sleep(PAUSE_S)


def _options(workers: int) -> tuple[str, ...]:
    return ("--port", "0", "--workers", str(workers))


def take_over(start_gateway: StartGateway, running: Gateway, workers: int, **changes: Any) -> Gateway:
    """Start a process that takes over ``running``."""
    options = (*_options(workers), "--takeover")
    taking = start_gateway(folder=running.folder, arguments=options, keys=running.keys, **changes)
    assert taking.url == running.url
    return taking


def test_no_call_is_lost_under_load(start_gateway: StartGateway, upstream: Upstream) -> None:
    """From one process to two workers, and back."""
    running = start_gateway(arguments=_options(1))
    with Load(running) as load:
        for workers in (2, 1):
            taking = take_over(start_gateway, running, workers)
            assert running.wait() == 0
            running = taking
    assert [outcome for outcome in load.outcomes if not outcome.endswith((" 200", " 200 True"))] == []
    calls = sum(count for name, count in load.outcomes.items() if not name.startswith("admin"))
    assert Counter(row["status"] for row in running.ledger_rows()) == {200: calls}


def test_open_connections_end_with_an_answer_that_says_so(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    running, gate = start_gateway(), Gate()
    with RawClient(running.url) as idle, RawClient(running.url) as unused, RawClient(running.url) as caller:
        idle.send(MODELS)
        assert idle.read_answer().header("connection") is None
        upstream.behave(chunked(event(chunk("one")), gate, event(chunk("two", finish="stop")), DONE))
        caller.send(running.chat_bytes(stream=True))
        caller.read_head()
        caller.read_chunks_until(b"one")
        taking = take_over(start_gateway, running, 1)
        running.wait_for_log(lambda line: line.get("event") == "taken over")
        with RawClient(taking.url) as new:
            new.send(MODELS)
            assert new.read_answer().header("connection") is None
        idle.send(MODELS)
        assert idle.read_answer().header("connection") == "close"
        assert idle.is_closed_by_peer()
        gate.open()
        caller.read_chunks_until(b"data: [DONE]\n\n")
        assert caller.read_chunk() == b""
        # Its head was sent before the takeover and did not say that the connection closes, so it serves once more.
        caller.send(MODELS)
        assert caller.read_answer().header("connection") == "close"
        assert running.is_running
        unused.send(MODELS)
        assert unused.read_answer().header("connection") == "close"
    assert running.wait() == 0
    assert [row["status"] for row in taking.ledger_rows()] == [200]


@large_only
def test_a_service_manager_learns_the_new_main_process(start_gateway: StartGateway, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        address = str(tmp_path / "notify")
        manager.bind(address)
        manager.settimeout(BOUND_S)
        running = start_gateway(environment={"NOTIFY_SOCKET": address})
        assert manager.recv(1024).decode().splitlines() == ["READY=1", f"MAINPID={running.pid}"]
        command = (*CLI, "serve", "--conf", str(running.folder / "proxy.conf"), "--port", "0")
        ended = subprocess.run(
            [sys.executable, *command, "--takeover", "--detach"],
            env=environment({}),
            stdout=subprocess.PIPE,
            text=True,
            timeout=BOUND_S,
            check=True,
        )
        assert ended.stdout == f"tollgate listening on {running.url}\n"
        assert running.wait() == 0
        said = [manager.recv(1024).decode().splitlines() for _ in range(2)]
        (successor,) = next(lines for lines in said if len(lines) == 1)
        assert sorted(said) == sorted([["READY=1", successor], [successor]])
        pid = int(successor.removeprefix("MAINPID="))
        try:
            assert httpx.get(f"{running.url}/v1/models", timeout=BOUND_S, trust_env=False).status_code == 200
        finally:
            os.kill(pid, signal.SIGTERM)
        # Nothing but the address of the service manager was handed on, and the new process uses it.
        assert manager.recv(1024) == b"STOPPING=1"


@large_only
def test_a_gateway_that_can_not_print_its_line_serves_on(start_gateway: StartGateway) -> None:
    running = start_gateway(arguments=_options(1))
    command = (*CLI, "serve", "--conf", str(running.folder / "proxy.conf"), "--port", "0", "--takeover")
    with open("/dev/full", "wb") as full:
        taking = subprocess.Popen(
            [sys.executable, *command], env=environment({}), stdout=full, stderr=subprocess.DEVNULL
        )
    try:
        assert running.wait() == 0
        assert httpx.get(f"{running.url}/v1/models", timeout=BOUND_S, trust_env=False).status_code == 200
    finally:
        taking.terminate()
        assert taking.wait(BOUND_S) == 0


def test_a_takeover_of_another_address_is_refused_and_without_a_gateway_it_is_a_start(
    start_gateway: StartGateway,
) -> None:
    running = start_gateway(arguments=("--port", "0", "--takeover"))
    running.wait_for_log(lambda line: line["message"] == "no gateway to take over: this is an ordinary start")
    command = (*TOLLGATE, "serve", "--conf", str(running.folder / "proxy.conf"), "--port", "1", "--takeover")
    ended = run_forked([sys.executable, *command], environment({}), running.folder)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines()[-1] == (
        "tollgate: [listen] port is 1 here and 0 in the running gateway:"
        " a takeover keeps the address, so stop it and start again"
    )
    assert httpx.get(f"{running.url}/v1/models", timeout=BOUND_S, trust_env=False).status_code == 200
    assert running.readiness().status_code == 200
