"""A gateway with several workers: calls to it, the processes of its workers, and a program whose workers break."""

from contextlib import ExitStack
from pathlib import Path

import httpx

from rig.bounds import BOUND_S
from rig.chat_requests import HELLO
from rig.gateway import Gateway
from rig.raw_clients import RawClient
from rig.scripts import DONE, Gate, Script, chunk, chunked, event
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
TWO = ("--port", "0", "--workers", "2")
CALLERS = 24
"""The kernel spreads connections by a hash: once in 8 million runs all of these meet the same of two workers."""


def is_running(pid: int) -> bool:
    """Return whether a process lives. A zombie, whose parent has not read its exit status, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def worker_pids(gateway: Gateway) -> dict[int, int]:
    """Return the pid of the newest process of each worker, by number."""
    return {line["worker"]: line["pid"] for line in gateway.logs if line.get("event") == "worker started"}


def workers_of_calls(gateway: Gateway) -> dict[str, int]:
    """Return the number of the worker that served each call, by call id."""
    return {line["id"]: line["worker"] for line in list(gateway.logs) if line.get("event") == "call"}


def make_call(gateway: Gateway) -> httpx.Response:
    """Make one call on its own connection."""
    url, body = gateway.url + CHAT, {"messages": HELLO}
    return httpx.post(url, headers=gateway.headers, json=body, timeout=BOUND_S, trust_env=False)


def served_by(gateway: Gateway, count: int = CALLERS) -> set[int]:
    """Make calls, which must all succeed. Return the numbers of the workers that served them."""
    ids = set()
    for _ in range(count):
        answer = make_call(gateway)
        assert answer.status_code == 200, answer.text
        ids.add(answer.headers["x-request-id"])
    gateway.wait_until(lambda: ids <= workers_of_calls(gateway).keys())
    return {workers_of_calls(gateway)[one] for one in ids}


def wait_for_successor(gateway: Gateway, number: int, pid: int) -> None:
    gateway.wait_for_log(
        lambda line: line.get("event") == "worker started" and line["worker"] == number and line["pid"] != pid
    )
    gateway.wait_until(lambda: all_serve(gateway))


def all_serve(gateway: Gateway) -> bool:
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
