"""One worker process: its start, its status, and its end."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from addon.runtime.deadline import within
from addon.serve.worker_status import WorkerFailed, WorkerStatus
from addon.serve.worker_template import ForkedWorker, WorkerTemplate
from addon.settings.errors import describe_error
from addon.telemetry.admin import Readiness

log = logging.getLogger("tollgate.supervisor")

_STDERR = 2

LOOK_S = 0.5
"""The time between two looks at a worker's status."""

ANSWER_LOOK_S = 0.02
"""The time between two looks while the supervisor waits for the worker to start, or to answer."""


type _Process = asyncio.subprocess.Process | ForkedWorker


class WorkerProcess:
    """A worker that was started. The worker that replaces it gets the same ``number``."""

    def __init__(self, number: int, process: _Process, status: WorkerStatus) -> None:
        self.number = number
        self.pid = process.pid
        self.left = asyncio.Event()
        """Set when the worker accepts no more clients."""
        self._process = process
        self._status = status

    @classmethod
    async def start(
        cls,
        number: int,
        folder: Path,
        environment: Mapping[str, str],
        sockets: Sequence[int],
        template: WorkerTemplate | None,
    ) -> Self:
        """Start a worker that writes its status to ``folder``, with these descriptors. Raises OSError."""
        status = WorkerStatus(folder, number)
        status.remove()
        reading, writing = os.pipe()
        try:
            process = await _start_process(number, environment, (writing, *sockets), template)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        worker = cls(number, process, status)
        worker.watch(reading)
        return worker

    def watch(self, pipe: int) -> None:
        """Set ``left`` when the other end of ``pipe`` closes: the worker accepts no more, or is dead."""
        loop = asyncio.get_running_loop()

        def note_end() -> None:
            loop.remove_reader(pipe)
            os.close(pipe)
            self.left.set()

        loop.add_reader(pipe, note_end)

    @property
    def fault(self) -> str | None:
        """The reason that the worker gives for not starting."""
        return self._status.fault()

    async def served(self) -> None:
        """Wait until it serves. Raises WorkerFailed when it ends before."""
        if await self._wait_for_answer(0) is None:
            raise WorkerFailed(self.fault or f"worker {self.number} ended with {await self.ended()}")

    async def answer(self, question: int, timeout_s: float) -> Readiness | None:
        """Return its answer to a ``ReadinessQuestion``. Return None when it ends, does not serve yet or is late."""
        if self._status.readiness() is None:
            return None
        try:
            async with within(timeout_s):
                return await self._wait_for_answer(question)
        except TimeoutError:
            return None

    async def _wait_for_answer(self, question: int) -> Readiness | None:
        while self._process.returncode is None:
            if answer := self._status.readiness(question):
                return answer
            await asyncio.sleep(ANSWER_LOOK_S)
        return None

    async def wait_for_silence(self, start_s: float, silent_s: float) -> float:
        """Wait until it gives no sign of life for ``silent_s``, or ``start_s`` before the first. Return which it was.

        Looks are counted, not time. So time in which this process itself was stopped does not count.
        """
        last_sign, silence_s = None, 0.0
        while True:
            await asyncio.sleep(LOOK_S)
            before, last_sign = last_sign, self._status.last_sign()
            silence_s = silence_s + LOOK_S if last_sign == before else 0.0
            bound_s = start_s if last_sign is None else silent_s
            if silence_s >= bound_s:
                return bound_s

    def order(self, *words: object) -> None:
        """Send an order, a line of words for ``addon.serve.worker.Orders``. A worker that has ended gets none."""
        if self._process.returncode is None and (pipe := self._process.stdin) and not pipe.is_closing():
            pipe.write(" ".join(map(str, words)).encode() + b"\n")

    @property
    def serves(self) -> bool:
        """Whether it accepts clients if it is ordered to."""
        is_running = self._process.returncode is None and not self.left.is_set()
        return is_running and self._status.readiness() is not None

    def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self) -> str:
        """Wait for its end. Return its exit status, or the signal that killed it."""
        status = await self._process.wait()
        return f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"

    async def stop(self, timeout_s: float) -> bool:
        """Let it drain, and wait for its end. Kill it after ``timeout_s``, and return False."""
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


async def _start_process(
    number: int,
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    template: WorkerTemplate | None,
) -> _Process:
    """Fork a worker from ``template``, or start a new interpreter when that is not possible. Raises OSError."""
    if template:
        try:
            return await template.start(number, environment, descriptors)
        except OSError as error:
            log.warning("worker %d is a new interpreter: %s", number, describe_error(error))
    # Ctrl-C on a terminal signals a whole process group, but only the supervisor may stop its workers.
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "addon.serve.worker", str(number), *map(str, descriptors)),
        pass_fds=descriptors,
        stdin=asyncio.subprocess.PIPE,
        stdout=_STDERR,
        env=environment,
        process_group=0,
    )
