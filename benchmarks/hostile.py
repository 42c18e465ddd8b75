"""The cost of hostile requests and answers: processor time, memory, and how long other clients wait."""

import asyncio
import contextlib
import http.client
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.gateways import Setup, gateway
from benchmarks.hostile_inputs import INPUTS, SLUGS, Input
from benchmarks.procfs import cpu_s, peak_mb, reset_peak, resident_mb
from benchmarks.tables import table
from benchmarks.traffic import Target

TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.003
AIMS: Final = "aims: at most 1 s of CPU and 300 MB for any, and a wait of 250 ms, 20 ms for bodies under 1 MB"


class Measured(NamedTuple):
    """One row of the table."""

    name: str
    status: str
    cpu_s: float
    peak_mb: float
    wait_ms: float


class CannedProvider:
    """A provider that reads a whole request and sends ``answer``, in its own thread."""

    def __init__(self) -> None:
        self.answer = INPUTS[0].answer
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @contextlib.contextmanager
    def running(self) -> Iterator["CannedProvider"]:
        """Serve until the block ends."""
        self._thread.start()
        server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20), self._loop
        ).result(TIMEOUT_S)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(TIMEOUT_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
                writer.write(self.answer(await reader.readexactly(size)))
                await writer.drain()


class Poller:
    """A second client. It requests the list of models repeatedly and notes its longest wait."""

    def __init__(self, target: Target) -> None:
        self.longest_ms = 0.0
        self._target = target
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> "Poller":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)

    def _poll(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._target.port, timeout=TIMEOUT_S)
        while not self._stop.wait(POLL_S):
            start_s = time.perf_counter()
            connection.request("GET", "/v1/models")
            connection.getresponse().read()
            self.longest_ms = max(self.longest_ms, 1000 * (time.perf_counter() - start_s))
        connection.close()


def measure(target: Target, provider: CannedProvider, one: Input, idle_mb: float) -> Measured:
    """Make one call and return its cost."""
    provider.answer = one.answer
    body = one.request()
    reset_peak(target.pid)
    before_s = cpu_s(target.pid)
    with Poller(target) as poller:
        time.sleep(10 * POLL_S)
        status = _call(target, body)
        time.sleep(10 * POLL_S)
    return Measured(
        one.name, status, cpu_s(target.pid) - before_s, peak_mb(target.pid) - idle_mb, poller.longest_ms
    )


def _call(target: Target, body: bytes) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=TIMEOUT_S)
    headers = {"Authorization": f"Bearer {target.key}", "Content-Type": "application/json"}
    try:
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        return f"{answer.status}{' error' if b'"error"' in content[:2_000] and answer.status == 200 else ''}"
    except OSError as error:
        return type(error).__name__
    finally:
        connection.close()


def run(folder: Path, only: str = "") -> None:
    """Measure every input on one gateway, and print the table."""
    with CannedProvider().running() as provider, gateway(provider.port, folder, Setup(slugs=SLUGS)) as target:
        for warm_up in (INPUTS[0], INPUTS[0]):
            measure(target, provider, warm_up, 0)
        idle_mb = resident_mb(target.pid)
        rows = [measure(target, provider, one, idle_mb) for one in INPUTS if only in one.name]
    print(f"one worker on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; idle {idle_mb:.0f} MB\n")
    headers = ("input", "answer", "CPU s", "peak MB over idle", "longest wait ms")
    print(table(rows, headers, ("", "", ".2f", ".0f", ".0f")))
    print(f"\n{AIMS}")
