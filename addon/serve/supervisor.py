"""Several workers on one port. They start together, are replaced when they die, and drain together.

The supervisor serves no call. It holds the listening sockets, watches the files for all workers, and has the one admin
port. The workers do everything else, so that little in the supervisor can fail. Each worker has all sockets. It accepts
on those that the supervisor assigns to it. Source: docs/operating.md.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

from addon.console.console import Console
from addon.console.sources import Sources
from addon.runtime.tasks import wait_for_first
from addon.serve.listening_sockets import Ports, group_by_address, spread
from addon.serve.opening import Start, opened
from addon.serve.signals import stop_signals
from addon.serve.snapshot_writer import SnapshotWriter
from addon.serve.worker_folder import make_worker_folder
from addon.serve.worker_process import WorkerFailed, WorkerProcess
from addon.serve.worker_status import CHECKS, ReadinessQuestion, merged_checks
from addon.settings.settings import Settings, SettingsFiles
from addon.settings.snapshot import SNAPSHOT_KEY_VARIABLE
from addon.settings.watcher import Watcher
from addon.telemetry.admin import Admin, Readiness
from addon.telemetry.metrics import FOLDER_VARIABLE
from addon.telemetry.worker_metrics import WorkerMetrics

log = logging.getLogger("tollgate.supervisor")

START_S = 60.0
"""The most that all workers together may take to start."""

ANSWER_S = 2.0
"""A worker that does not answer within this time counts as missing. Its own checks are bounded by less."""

SILENT_S = 15.0
"""A worker without a sign of life for so long is killed: its clients wait in vain."""

SLACK_S = 10.0
"""How long a worker may take to end after ``drain_timeout_s``, before it is killed."""

STEADY_S = 10.0
"""A worker that lived for so long did not die of its start."""

FIRST_DELAY_S, LONGEST_DELAY_S = 0.1, 10.0


_SUCCEEDED = Readiness(True, dict.fromkeys((*CHECKS, "workers"), "ok"))
"""After a takeover: another process serves at this address, and answers on new connections."""


def restart_delay_s(early_deaths: int) -> float:
    """Return the wait before the next start of a worker that died so often in a row soon after its start."""
    return min(FIRST_DELAY_S * 2.0 ** min(early_deaths, 30), LONGEST_DELAY_S)


class Supervisor:
    """The workers, and the ``folder`` that they share. It is a ``Service``."""

    def __init__(self, files: SettingsFiles, settings: Settings, folder: Path, ports: Ports) -> None:
        self.settings = settings
        self.listen = settings.conf.listen
        self.workers: dict[int, WorkerProcess] = {}
        self.folder = folder
        self._question = ReadinessQuestion(folder)
        self._snapshots = SnapshotWriter(files, folder)
        self.metrics = WorkerMetrics(folder)
        self.admin = Admin(self.readiness)
        self.admin.pages["/metrics"] = self._metrics
        self.watcher = Watcher(files, settings, self.apply)
        self.draining = False
        self._started_s = monotonic()
        self._ports = ports
        self._accepts = False
        self._is_admin_open = False
        self._is_taken_over = False
        self._keepers: list[asyncio.Task[None]] = []
        self._question.create()

    async def start(self) -> None:
        """Start everything, and return when every worker is ready to accept. Raises OSError or WorkerFailed."""
        self._snapshots.write_first(self.settings)
        try:
            async with asyncio.timeout(START_S):
                workers = [await self._start_worker(number + 1) for number in range(self.listen.workers)]
                for worker in workers:
                    await worker.served()
        except TimeoutError:
            raise WorkerFailed(f"not every worker was ready within {START_S:g} s") from None
        self.watcher.start()
        self._keepers = [asyncio.create_task(self._keep_running(worker)) for worker in workers]

    async def accept(self) -> None:
        """See ``Service.accept``."""
        self._accepts = True
        self._assign_sockets()

    async def pause(self) -> None:
        """See ``Service.pause``."""
        self._accepts = False
        self._assign_sockets()

    async def open_admin(self) -> None:
        """See ``Service.open_admin``."""
        if not self._is_admin_open:
            self._is_admin_open = True
            listening = self._ports["admin"].copies()
            await self.admin.start_on(listening, self._make_console([one.getsockname() for one in listening]))

    def _make_console(self, addresses: Sequence[object]) -> Console:
        sources = Sources(
            settings=lambda: self.settings,
            readiness=self.readiness,
            metrics=self._metrics,
            file_fault=lambda: self.watcher.error or self._snapshots.fault,
            settings_age_s=lambda: self.watcher.age_s,
            find_files=self.watcher.find_changed_files,
        )
        return Console(sources, self.settings.conf.paths.database, addresses)

    async def wait(self) -> None:
        """See ``Service.wait``."""
        ended, _ = await asyncio.wait(self._keepers, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()

    def retire(self, hurry: asyncio.Event) -> None:  # noqa: ARG002  (``leave`` waits for it)
        """See ``Service.retire``."""
        self._is_taken_over = True
        self.admin.retire()

    async def leave(self, hurry: asyncio.Event) -> None:
        """After a takeover, let the workers end when their clients have ended their connections, or at ``hurry``."""
        if not self._is_taken_over:
            return
        self._log_drain()
        await self._stop_keepers()
        for worker in self.workers.values():
            worker.order("leave")
        with suppress(TimeoutError):
            async with asyncio.timeout(self.listen.drain_timeout_s + SLACK_S):
                await wait_for_first(self._all_ended(), hurry.wait())

    async def _all_ended(self) -> None:
        await asyncio.gather(*(worker.ended() for worker in self.workers.values()))

    async def _stop_keepers(self) -> None:
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    async def stop(self) -> None:
        """Drain every worker and wait until all have ended. Raises WorkerFailed when one had to be killed."""
        self.draining = True
        if self._keepers and not self._is_taken_over:
            self._log_drain()
        await self._stop_keepers()
        await self.watcher.stop()
        self._snapshots.close()
        bound_s = self.listen.drain_timeout_s + SLACK_S
        workers = list(self.workers.values())
        ended = await asyncio.gather(*(worker.stop(bound_s) for worker in workers))
        await self.admin.stop()
        killed = [f"worker {worker.number}" for worker, well in zip(workers, ended, strict=True) if not well]
        if self._keepers:
            self._log_stop(len(killed))
        if killed:
            raise WorkerFailed(f"killed {', '.join(killed)}, not ended {bound_s:g} s after SIGTERM")

    def _log_drain(self) -> None:
        count, timeout_s = len(self.workers), self.listen.drain_timeout_s
        fields = {"event": "drain begun", "workers": count, "timeout_s": timeout_s}
        log.info("draining %d workers, whose calls may take %g s", count, timeout_s, extra=fields)

    def _log_stop(self, killed: int) -> None:
        uptime_s = round(monotonic() - self._started_s, 3)
        fields = {"event": "stopped", "uptime_s": uptime_s, "killed_workers": killed}
        log.info("stopped after %g s; %d workers were killed", uptime_s, killed, extra=fields)

    def apply(self, settings: Settings) -> None:
        """Give ``settings`` to every worker, also to those that start later."""
        self.settings = settings
        self._snapshots.write(settings)

    async def readiness(self) -> Readiness:
        """Whether this gateway should get calls: yes while a worker serves. The checks are those of its workers."""
        found = _SUCCEEDED if self._is_taken_over else await self._ask_workers()
        # A takeover during the question ends workers before they answer.
        return _SUCCEEDED if self._is_taken_over else found

    async def _ask_workers(self) -> Readiness:
        question, workers = self._question.ask(), list(self.workers.values())
        answers = await asyncio.gather(*(worker.answer(question, ANSWER_S) for worker in workers))
        reports = {worker.number: answer for worker, answer in zip(workers, answers, strict=True) if answer}
        checks = merged_checks(reports)
        count = self.listen.workers
        checks["workers"] = "ok" if len(reports) == count else f"{len(reports)} of {count} running"
        # Files that do not load are reported, but the last good settings serve on.
        checks["settings"] = self.watcher.error or self._snapshots.fault or checks["settings"]
        if self.draining:
            checks["drain"] = "draining"
        ready = not self.draining and any(report.ready for report in reports.values())
        return Readiness(ready, checks)

    async def _start_worker(self, number: int) -> WorkerProcess:
        shared = {FOLDER_VARIABLE: str(self.folder), SNAPSHOT_KEY_VARIABLE: self._snapshots.key}
        sockets = [one.fileno() for one in self._ports["listen"].sockets]
        worker = await WorkerProcess.start(number, self.folder, os.environ | shared, sockets)
        self.workers[number] = worker
        log.info("worker %d started", number, extra=_event("worker started", worker))
        return worker

    def _assign_sockets(self) -> None:
        """Let each worker accept on its part of the sockets. The others accept on those of a worker that does not."""
        addresses = group_by_address(self._ports["listen"].sockets)
        serving = [number for number, worker in self.workers.items() if self._accepts and worker.serves]
        for number, sockets in spread(addresses, list(self.workers), serving).items():
            self.workers[number].order("accept", *sockets)

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
        silence = asyncio.create_task(worker.fell_silent(START_S, SILENT_S))
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
            self.metrics.worker_ended(ended.pid)
        except Exception:  # A worker may die while it writes. It is replaced all the same.
            log.exception("the counts of worker %d are lost", ended.number)

    async def _metrics(self) -> tuple[int, str, bytes]:
        gauges = {
            "tollgate_reload_failed": bool(self.watcher.error or self._snapshots.fault),
            "tollgate_settings_age_seconds": self.watcher.age_s,
        }
        return 200, *self.metrics.render(gauges)


def _event(event: str, worker: WorkerProcess) -> dict[str, object]:
    return {"event": event, "worker": worker.number, "pid": worker.pid}


async def supervise(
    files: SettingsFiles, settings: Settings, announce: Callable[[str], None], start: Start
) -> None:
    """Serve with several workers until SIGTERM, SIGINT or a takeover. Call ``announce`` with the URL when ready.

    Raises as ``opened`` does, and WorkerFailed when a worker does not start or does not end.
    """
    if sys.platform != "linux":
        raise OSError("more than one worker needs Linux, which spreads connections over processes")
    with stop_signals() as stop, opened(settings, files.conf_file, start) as opening:
        settings = settings.with_listen(port=opening.ports["listen"].number)
        with make_worker_folder(settings) as folder:
            supervisor = Supervisor(files, settings, folder, opening.ports)
            try:
                if opening.running is None:
                    await supervisor.open_admin()
                await supervisor.start()
                await opening.serve(supervisor, announce, stop)
                await supervisor.leave(stop)
            finally:
                await supervisor.stop()
