"""One worker process: its start, what it says, and its end, which is noticed however it comes."""

import asyncio
import logging
import signal
import socket
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from addon.runtime.deadline import within
from addon.serve.worker_protocol import ASK, PING, pack, parse_answer
from addon.settings.settings import Settings
from addon.telemetry.admin import Readiness

log = logging.getLogger("tollgate.workers")

_STDERR = 2

PING_S = 3.0
"""How long after its last sign of life a worker is asked for the next."""


type Question = asyncio.Future[Readiness | None]
"""How is the worker? None where it ended before it answered."""


class WorkerFailed(Exception):  # noqa: N818  (as StoreUnavailable: a state that is told, not a fault of the caller)
    """A worker did not start, or did not end. The message is one line for operators."""


class Child:
    """A worker that was started. ``number`` is its place among the workers, which its successor takes over."""

    def __init__(
        self,
        number: int,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.number = number
        self.pid = process.pid
        self.is_serving = False
        self.fault: str | None = None
        self._process = process
        self._reader = reader
        self._writer = writer
        self._asked: deque[Question] = deque()
        self._heard = asyncio.Event()
        self._served: Question = asyncio.get_running_loop().create_future()
        self._listening = asyncio.create_task(self._listen(), name=f"worker {number}")

    @classmethod
    async def start(cls, number: int, environment: Mapping[str, str]) -> Self:
        """Start a worker, which waits for its settings. Raises OSError."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                # Ctrl-C on a terminal goes to its whole process group, and a worker obeys its supervisor alone.
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "addon.serve.worker", str(number)),
                    stdin=theirs.fileno(),
                    stdout=_STDERR,
                    env=environment,
                    process_group=0,
                )
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            # Its end of the socket closed is all that a worker needs to end.
            ours.close()
            raise
        return cls(number, process, reader, writer)

    def begin(self, settings: Settings) -> None:
        """Let it start to serve."""
        self.send(pack(settings))
        self._put(self._served)

    def send(self, order: bytes) -> None:
        """Give it an order, as ``pack`` makes them."""
        self._writer.write(order)

    async def served(self) -> None:
        """Wait until it serves. Raises WorkerFailed where it ended before."""
        if await self._served is None:
            raise WorkerFailed(self.fault or f"worker {self.number} ended with {await self.ended()}")

    async def ask(self, timeout_s: float) -> Readiness | None:
        """Return its readiness; None where it ended or does not answer."""
        question: Question = asyncio.get_running_loop().create_future()
        self._put(question)
        try:
            async with within(timeout_s):
                return await question
        except TimeoutError:
            return None

    async def fell_silent(self, start_s: float, silent_s: float) -> float:
        """Ask again and again; return for how long it said nothing: ``start_s`` while it starts, then ``silent_s``.

        Time in which this process itself was stopped does not count.
        """
        while True:
            self._heard.clear()
            self._writer.write(pack(PING))
            bound_s = silent_s if self.is_serving else start_s
            try:
                async with within(bound_s):
                    await self._heard.wait()
            except TimeoutError:
                return bound_s
            await asyncio.sleep(min(PING_S, silent_s / 5))

    def kill(self) -> None:
        """Let it end at once."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self) -> str:
        """Wait for its end, and return how that came: its exit status, or the signal that killed it."""
        status = await self._process.wait()
        # Who gives up waiting here must not take the task with it.
        await asyncio.wait([self._listening])
        return f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"

    async def stop(self, timeout_s: float) -> bool:
        """Tell it to drain and wait for its end. One that takes longer is killed, and False returned."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(timeout_s):
                await self.ended()
        except TimeoutError:
            self.kill()
            await self.ended()
            return False
        return True

    def _put(self, question: Question) -> None:
        if self._listening.done():
            question.set_result(None)
        else:
            self._asked.append(question)
            self._writer.write(pack(ASK))

    async def _listen(self) -> None:
        try:
            async for line in self._reader:
                said = parse_answer(line)
                self._heard.set()
                if said is None:
                    continue
                if isinstance(said, Readiness):
                    self.is_serving = True
                    self._answer(said)
                else:
                    self.fault = said
        except ConnectionError:
            log.debug("worker %d left", self.number)
        except ValueError as error:
            log.error("worker %d is given up, it said %s", self.number, error)
        finally:
            self.is_serving = False
            while self._asked:
                self._answer(None)
            # A worker that lives ends by this, and another takes its place.
            self._writer.close()

    def _answer(self, found: Readiness | None) -> None:
        # Questions are answered in their order; who asked may have given up.
        if self._asked and not (question := self._asked.popleft()).done():
            question.set_result(found)
