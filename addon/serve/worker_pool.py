"""``WorkerPool``: the worker processes of a supervisor. Each that ends is replaced, and one that hangs is killed."""

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from addon.serve.listening_sockets import Port, group_by_address, spread
from addon.serve.worker_process import WorkerProcess
from addon.serve.worker_status import WorkerFailed
from addon.serve.worker_template import WorkerTemplate
from addon.telemetry.worker_metrics import WorkerMetrics

log = logging.getLogger("tollgate.supervisor")

START_S = 60.0
"""The most that all workers together may take to start."""

SILENT_S = 15.0
"""A worker without a sign of life for so long is killed: its clients wait in vain."""

STEADY_S = 10.0
"""A worker that lived for so long did not die of its start."""

FIRST_DELAY_S, LONGEST_DELAY_S = 0.1, 10.0


def restart_delay_s(early_deaths: int) -> float:
    """Return the wait before the next start of a worker that died so often in a row soon after its start."""
    return min(FIRST_DELAY_S * 2.0 ** min(early_deaths, 30), LONGEST_DELAY_S)


class WorkerPool:
    """The worker processes, which share a ``folder``. ``environment`` is added to that of this process.

    Each worker has all sockets of ``port``, and accepts on its part of them once ``accept`` is called.
    """

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        port: Port,
        metrics: WorkerMetrics,
        template: WorkerTemplate | None,
    ) -> None:
        self._folder = folder
        self._environment = environment
        self._port = port
        self._metrics = metrics
        self._template = template
        self._workers: dict[int, WorkerProcess] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._accepts = False

    def __iter__(self) -> Iterator[WorkerProcess]:
        return iter(list(self._workers.values()))

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def has_started(self) -> bool:
        """Whether ``start`` has ended."""
        return bool(self._keepers)

    async def start(self, count: int) -> None:
        """Start the workers, and return when every one is ready to accept. Raises OSError or WorkerFailed."""
        try:
            async with asyncio.timeout(START_S):
                workers = [await self._start_worker(number + 1) for number in range(count)]
                for worker in workers:
                    await worker.served()
        except TimeoutError:
            raise WorkerFailed(f"not every worker was ready within {START_S:g} s") from None
        self._keepers = [asyncio.create_task(self._keep_running(worker)) for worker in workers]

    def accept(self, *, accepts: bool) -> None:
        """Let the workers accept clients, or accept none."""
        self._accepts = accepts
        self._assign_sockets()

    async def wait(self) -> None:
        """Wait until workers can't be replaced any more, and raise the reason."""
        ended, _ = await asyncio.wait(self._keepers, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()

    async def stop_replacing(self) -> None:
        """Replace no worker that ends from now on."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    async def leave(self) -> None:
        """Let the workers end when their clients have ended their connections, and wait for that."""
        for worker in self:
            worker.order("leave")
        await asyncio.gather(*(worker.ended() for worker in self))

    async def stop(self, bound_s: float) -> list[WorkerProcess]:
        """Drain every worker, and wait until all have ended. Return those that were killed, after ``bound_s``."""
        workers = list(self)
        ended = await asyncio.gather(*(worker.stop(bound_s) for worker in workers))
        return [worker for worker, well in zip(workers, ended, strict=True) if not well]

    async def _start_worker(self, number: int) -> WorkerProcess:
        sockets = [one.fileno() for one in self._port.sockets]
        environment = os.environ | self._environment
        worker = await WorkerProcess.start(number, self._folder, environment, sockets, self._template)
        self._workers[number] = worker
        log.info("worker %d started", number, extra=_event("worker started", worker))
        return worker

    def _assign_sockets(self) -> None:
        """Let each worker accept on its part of the sockets. The others accept on those of a worker that does not."""
        addresses = group_by_address(self._port.sockets)
        serving = [number for number, worker in self._workers.items() if self._accepts and worker.serves]
        for number, sockets in spread(addresses, list(self._workers), serving).items():
            self._workers[number].order("accept", *sockets)

    async def _follow_serving(self, worker: WorkerProcess) -> None:
        """Assign the sockets again when ``worker`` begins to serve, and when it accepts no more."""
        await worker.served()
        self._assign_sockets()
        await worker.left.wait()
        self._assign_sockets()

    async def _keep_running(self, worker: WorkerProcess) -> None:
        """Replace the worker whenever it ends."""
        now_s = asyncio.get_running_loop().time
        early_deaths = 0
        while True:
            started_s = now_s()
            how = f"ended with {await self._ended(worker)}" + (f": {worker.fault}" if worker.fault else "")
            log.error("worker %d %s", worker.number, how, extra=_event("worker ended", worker))
            self._assign_sockets()
            self._keep_counts(worker)
            early_deaths = 0 if now_s() - started_s >= STEADY_S else early_deaths + 1
            await asyncio.sleep(restart_delay_s(early_deaths))
            worker = await self._start_successor(worker.number, early_deaths)

    async def _ended(self, worker: WorkerProcess) -> str:
        """Return how ``worker`` ended, as ``WorkerProcess.ended``. Kill one that hangs or is stopped."""
        ended = asyncio.create_task(worker.ended())
        silence = asyncio.create_task(worker.wait_for_silence(START_S, SILENT_S))
        serving = asyncio.create_task(self._follow_serving(worker))
        try:
            await asyncio.wait((ended, silence), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                found = (worker.number, silence.result())
                log.error(
                    "worker %d gives no sign of life for %g s: killed",
                    *found,
                    extra=_event("worker silent", worker),
                )
                worker.kill()
            return await ended
        finally:
            for task in (ended, silence, serving):
                task.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def _start_successor(self, number: int, early_deaths: int) -> WorkerProcess:
        while True:
            try:
                return await self._start_worker(number)
            except OSError as error:
                early_deaths += 1
                log.error("worker %d can't be started: %s", number, error)
                await asyncio.sleep(restart_delay_s(early_deaths))

    def _keep_counts(self, ended: WorkerProcess) -> None:
        try:
            self._metrics.worker_ended(ended.pid)
        except Exception:  # A worker may die while it writes. It is replaced all the same.
            log.exception("the counts of worker %d are lost", ended.number)


def _event(event: str, worker: WorkerProcess) -> dict[str, object]:
    return {"event": event, "worker": worker.number, "pid": worker.pid}
