"""The load generator: raw keep-alive connections that check every answer, in its own process.

``python -m benchmarks.load_generator`` reads JSON jobs from standard input, one on each line. It prints one JSON
``Answers`` on a line for each.
"""

import asyncio
import json
import re
import ssl
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import override

from benchmarks.traffic import Kind, Scenario, Target, is_complete, request_to

_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_CALL_LIMIT_S = 30.0
_JOB_LIMIT_S = 60.0


@dataclass(slots=True)
class Answers:
    """The measurements of one job. A call without a right answer is an error and has no latency.

    ``latencies_ms`` run from the last byte of the call sent to the last byte of the answer received. If each call opens
    its own connection, they start before that.
    """

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
        """Send one call. Return its whole answer, head and body. Raise ``OSError`` when the connection ends."""
        self._buffer.clear()
        self._answered = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answered

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._answered and not self._answered.done() and is_whole(self._buffer):
            self._answered.set_result(bytes(self._buffer))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._answered and not self._answered.done():
            self._answered.set_exception(exc or ConnectionResetError("closed in the middle of an answer"))


def is_whole(answer: bytes | bytearray) -> bool:
    """Return whether the answer is complete: its head, and a body as long as the head says or with its last chunk."""
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    if length := _CONTENT_LENGTH.search(answer, 0, end + 2):
        return len(answer) >= end + 4 + int(length[1])
    return answer.endswith(b"\r\n0\r\n\r\n")


def is_right(kind: Kind, answer: bytes) -> bool:
    """Return whether ``answer`` is a 200 with the whole body that the upstream sent."""
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


class Job:
    """All calls of one scenario on one target."""

    def __init__(self, target: Target, scenario: Scenario) -> None:
        self.answers = Answers()
        self._target = target
        self._scenario = scenario
        self._request = request_to(target, scenario.kind)
        self._remaining = iter(range(scenario.calls))
        self._received: list[tuple[float, bytes]] = []
        self._tls = _unchecked_tls() if target.tls else None

    async def run(self) -> Answers:
        """Make all calls. Calls that fail, or that the time limit prevents, count as errors."""
        started = time.perf_counter()
        workers = [asyncio.ensure_future(self._work()) for _ in range(self._scenario.connections)]
        _, late = await asyncio.wait(workers, timeout=_JOB_LIMIT_S)
        self.answers.elapsed_s = time.perf_counter() - started
        for worker in late:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        # Checked after the clock stopped, so the check adds no time to a target.
        kind = self._scenario.kind
        self.answers.latencies_ms = [ms for ms, answer in self._received if is_right(kind, answer)]
        self.answers.errors = self._scenario.calls - len(self.answers.latencies_ms)
        return self.answers

    async def _work(self) -> None:
        connection: Connection | None = None
        for _ in self._remaining:
            started = time.perf_counter()
            try:
                if connection is None:
                    connection = await self._connect()
                if not self._scenario.fresh:
                    started = time.perf_counter()
                async with asyncio.timeout(_CALL_LIMIT_S):
                    answer = await connection.call(self._request)
            except OSError:  # TimeoutError is an OSError too.
                if connection is not None:
                    connection.transport.abort()
                connection = None
                continue
            self._received.append(((time.perf_counter() - started) * 1000, answer))
            if self._scenario.fresh:
                connection.transport.close()
                connection = None
        if connection is not None:
            connection.transport.close()

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            Connection, "127.0.0.1", self._target.port, ssl=self._tls
        )
        return connection


def _unchecked_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def main() -> None:
    """Serve jobs until standard input ends."""
    for line in sys.stdin:
        job = json.loads(line)
        answers = asyncio.run(Job(Target(**job["target"]), Scenario(**job["scenario"])).run())
        print(json.dumps(asdict(answers)), flush=True)


if __name__ == "__main__":
    main()
