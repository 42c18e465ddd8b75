"""The load generator: raw keep-alive connections that check every answer, in a process of its own.

``python -m benchmarks.load`` reads one JSON job a line from standard input, and prints one JSON ``Answers`` a line.
"""

import asyncio
import json
import re
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import override

from benchmarks.traffic import Kind, Scenario, Target, is_complete, request_bytes

_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_CALL_LIMIT_S = 10.0
_JOB_LIMIT_S = 60.0


@dataclass(slots=True)
class Answers:
    """What one job measured. ``latencies_ms`` run from the call's last byte out to the answer's last byte in."""

    elapsed_s: float = 0.0
    errors: int = 0
    latencies_ms: list[float] = field(default_factory=list)


class Connection(asyncio.Protocol):
    """One client connection with at most one call in flight."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._answered: asyncio.Future[bytes] | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    async def call(self, request: bytes) -> bytes:
        """Send one call; return its whole answer, head and body. Raises ``OSError`` when the connection ends."""
        self._buffer.clear()
        self._answered = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answered

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._answered and not self._answered.done() and _is_whole(self._buffer):
            self._answered.set_result(bytes(self._buffer))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._answered and not self._answered.done():
            self._answered.set_exception(exc or ConnectionResetError("closed in the middle of an answer"))


def _is_whole(answer: bytes | bytearray) -> bool:
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    if length := _CONTENT_LENGTH.search(answer, 0, end + 2):
        return len(answer) >= end + 4 + int(length[1])
    return answer.endswith(b"\r\n0\r\n\r\n")


def is_right(kind: Kind, answer: bytes) -> bool:
    """Whether ``answer`` is a 200 with the whole body that the upstream sent."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if _CHUNKED.search(head + b"\r\n"):
        body = _without_chunks(body)
    return head.startswith(b"HTTP/1.1 200 ") and is_complete(kind, body)


def _without_chunks(coded: bytes) -> bytes:
    body, position = bytearray(), 0
    while True:
        line_end = coded.index(b"\r\n", position)
        size = int(coded[position:line_end], 16)
        if size == 0:
            return bytes(body)
        body += coded[line_end + 2 : line_end + 2 + size]
        position = line_end + 2 + size + 2


async def run_job(target: Target, scenario: Scenario) -> Answers:
    """Make all calls of ``scenario``; calls that fail, or that the time limit left out, count as errors."""
    job = Answers()
    request = request_bytes(scenario.kind, target.key)
    remaining = iter(range(scenario.calls))
    received: list[bytes] = []

    async def work() -> None:
        connection: Connection | None = None
        for _ in remaining:
            try:
                if connection is None:
                    _, connection = await asyncio.get_running_loop().create_connection(
                        Connection, "127.0.0.1", target.port
                    )
                started = time.perf_counter()
                async with asyncio.timeout(_CALL_LIMIT_S):
                    answer = await connection.call(request)
            except OSError:  # A timeout is one too.
                if connection is not None:
                    connection.transport.abort()
                connection = None
                continue
            job.latencies_ms.append((time.perf_counter() - started) * 1000)
            received.append(answer)
        if connection is not None:
            connection.transport.close()

    started = time.perf_counter()
    workers = [asyncio.ensure_future(work()) for _ in range(scenario.connections)]
    _, late = await asyncio.wait(workers, timeout=_JOB_LIMIT_S)
    job.elapsed_s = time.perf_counter() - started
    for worker in late:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    # Checked after the clock stopped, so that checking costs no target anything.
    job.errors = scenario.calls - sum(is_right(scenario.kind, answer) for answer in received)
    return job


def main() -> None:
    """Serve jobs until standard input ends."""
    for line in sys.stdin:
        job = json.loads(line)
        answers = asyncio.run(run_job(Target(**job["target"]), Scenario(**job["scenario"])))
        print(json.dumps(asdict(answers)), flush=True)


if __name__ == "__main__":
    main()
