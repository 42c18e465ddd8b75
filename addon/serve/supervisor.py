"""Several workers on one port. They start together, are replaced when they die, and drain together.

The supervisor serves no call. It reserves the port, watches the files for all workers, and has the one admin port. The
workers do everything else, so that little in the supervisor can fail. Source: docs/operating.md.

It shares one folder with its workers, ``workers-HOST-PORT-*`` next to the ledger:

| file | written by | what |
|---|---|---|
| `settings.snapshot` | the supervisor | the last settings that loaded |
| `question` | the supervisor | nothing; its time is the number of the last question for the workers' readiness |
| `worker-N.json` | worker N | its readiness, or the fault that ended it; touched as a sign of life |
| `*.db` | each worker | its metrics |
"""

import asyncio
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from addon.runtime.listening import base_url
from addon.serve.ports import reserve
from addon.serve.signals import stop_signals
from addon.serve.worker_process import WorkerFailed, WorkerProcess
from addon.serve.worker_status import ReadinessQuestion
from addon.settings.errors import describe_error
from addon.settings.file_content import make_absolute
from addon.settings.sealed_secrets import make_master_key
from addon.settings.settings import Settings, SettingsFiles
from addon.settings.snapshot import SNAPSHOT_FILE, SNAPSHOT_KEY_VARIABLE, Snapshot
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

WRITE_AGAIN_S = 1.0
"""How soon the snapshot is written again after it could not be written."""

SLACK_S = 10.0
"""How long a worker may take to end after ``drain_timeout_s``, before it is killed."""

STEADY_S = 10.0
"""A worker that lived for so long did not die of its start."""

CHECKS = ("settings", "store", "drain", "platform_keys", "circuits")
"""The checks of each worker."""

FIRST_DELAY_S, LONGEST_DELAY_S = 0.1, 10.0


def restart_delay_s(early_deaths: int) -> float:
    """Return the wait before the next start of a worker that died so often in a row soon after its start."""
    return min(FIRST_DELAY_S * 2.0 ** min(early_deaths, 30), LONGEST_DELAY_S)


def merged_checks(reports: Mapping[int, Readiness]) -> dict[str, str]:
    """Return the checks of all workers: the result that they share, or each complaint with its worker's number."""
    if not reports:
        return dict.fromkeys(CHECKS, "no worker is there to ask")
    names = next(iter(reports.values())).checks
    return {
        name: _merged({number: report.checks[name] for number, report in reports.items()}) for name in names
    }


def _merged(found: Mapping[int, str]) -> str:
    if len(results := set(found.values())) == 1:
        return results.pop()
    return "; ".join(f"worker {number}: {result}" for number, result in found.items() if result != "ok")


class Supervisor:
    """The workers, and the ``folder`` that they share."""

    def __init__(self, files: SettingsFiles, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.listen = settings.conf.listen
        self.workers: dict[int, WorkerProcess] = {}
        self.folder = folder
        self._key = make_master_key()
        self._question = ReadinessQuestion(folder)
        self._files = files
        self._started_conf = files.built_from().shared_files[make_absolute(files.conf_file)]
        self._write_fault: str | None = None
        self._next_write: asyncio.TimerHandle | None = None
        self.metrics = WorkerMetrics(folder)
        self.admin = Admin(self.readiness)
        self.admin.pages["/metrics"] = self._metrics
        self.watcher = Watcher(files, settings, self.apply)
        self.draining = False
        self._started_s = monotonic()
        self._keepers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start everything, and return when every worker serves. Raises OSError or WorkerFailed."""
        self._question.create()
        self._snapshot(self.settings).write(self.folder / SNAPSHOT_FILE, self._key)
        await self.admin.start(self.settings.conf.admin.host, self.settings.conf.admin.port)
        try:
            async with asyncio.timeout(START_S):
                workers = [await self._start_worker(number + 1) for number in range(self.listen.workers)]
                for worker in workers:
                    await worker.served()
        except TimeoutError:
            raise WorkerFailed(f"not every worker was ready within {START_S:g} s") from None
        self.watcher.start()
        self._keepers = [asyncio.create_task(self._keep_running(worker)) for worker in workers]

    async def wait(self, stop: asyncio.Event) -> None:
        """Wait for ``stop``. Raise the fault of a task that keeps the workers running."""
        stopping = asyncio.create_task(stop.wait())
        tasks = (stopping, *self._keepers)
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for task in ended:
            task.result()

    async def stop(self) -> None:
        """Drain every worker and wait until all have ended. Raises WorkerFailed when one had to be killed."""
        self.draining = True
        if self._keepers:
            self._log_drain()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await self.watcher.stop()
        if self._next_write:
            self._next_write.cancel()
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
        self._write(self._snapshot(settings))

    def _snapshot(self, settings: Settings) -> Snapshot:
        return Snapshot.of(self._files, settings, self._started_conf)

    def _write(self, snapshot: Snapshot) -> None:
        """Write ``snapshot`` for the workers. Try again later when it can't be written."""
        if self._next_write:
            self._next_write.cancel()
            self._next_write = None
        try:
            snapshot.write(self.folder / SNAPSHOT_FILE, self._key)
            self._write_fault = None
        except OSError as error:
            if self._write_fault is None:
                log.error("the settings do not reach the workers: %s", error)
            self._write_fault = f"the last edits do not reach the workers: {describe_error(error)}"
            loop = asyncio.get_running_loop()
            self._next_write = loop.call_later(WRITE_AGAIN_S, self._write, snapshot)

    async def readiness(self) -> Readiness:
        """Whether this gateway should get calls: yes while a worker serves. The checks are those of its workers."""
        question, workers = self._question.ask(), list(self.workers.values())
        answers = await asyncio.gather(*(worker.answer(question, ANSWER_S) for worker in workers))
        reports = {worker.number: answer for worker, answer in zip(workers, answers, strict=True) if answer}
        checks = merged_checks(reports)
        count = self.listen.workers
        checks["workers"] = "ok" if len(reports) == count else f"{len(reports)} of {count} running"
        # Files that do not load are reported, but the last good settings serve on.
        checks["settings"] = self.watcher.error or self._write_fault or checks["settings"]
        if self.draining:
            checks["drain"] = "draining"
        ready = not self.draining and any(report.ready for report in reports.values())
        return Readiness(ready, checks)

    async def _start_worker(self, number: int) -> WorkerProcess:
        shared = {FOLDER_VARIABLE: str(self.folder), SNAPSHOT_KEY_VARIABLE: self._key}
        worker = await WorkerProcess.start(number, self.folder, os.environ | shared)
        self.workers[number] = worker
        log.info("worker %d started", number, extra=_event("worker started", worker))
        return worker

    async def _keep_running(self, worker: WorkerProcess) -> None:
        """Replace the worker whenever it ends."""
        now_s = asyncio.get_running_loop().time
        early_deaths = 0
        while True:
            started_s = now_s()
            how = f"ended with {await self._ended(worker)}" + (f": {worker.fault}" if worker.fault else "")
            log.error("worker %d %s", worker.number, how, extra=_event("worker ended", worker))
            self._keep_counts(worker)
            early_deaths = 0 if now_s() - started_s >= STEADY_S else early_deaths + 1
            await asyncio.sleep(restart_delay_s(early_deaths))
            worker = await self._start_successor(worker.number, early_deaths)

    async def _ended(self, worker: WorkerProcess) -> str:
        """Return how ``worker`` ended, as ``WorkerProcess.ended``. Kill one that hangs or is stopped."""
        ended = asyncio.create_task(worker.ended())
        silence = asyncio.create_task(worker.fell_silent(START_S, SILENT_S))
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
            ended.cancel()
            silence.cancel()

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
            "tollgate_reload_failed": bool(self.watcher.error or self._write_fault),
            "tollgate_settings_age_seconds": self.watcher.age_s,
        }
        return 200, *self.metrics.render(gauges)


@contextmanager
def _worker_folder(settings: Settings) -> Iterator[Path]:
    """Give a new folder to share with the workers. Remove those that killed supervisors of the same port have left."""
    folder, listen = settings.conf.paths.database.parent, settings.conf.listen
    prefix = f"workers-{listen.host}-{listen.port}-"
    for old in folder.glob(f"{prefix}*"):
        shutil.rmtree(old, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A new name: workers of a killed supervisor may still drain, and write to their own folder.
    new = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
    try:
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _event(event: str, worker: WorkerProcess) -> dict[str, object]:
    return {"event": event, "worker": worker.number, "pid": worker.pid}


async def supervise(files: SettingsFiles, settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve with several workers until SIGTERM or SIGINT. Call ``announce`` with the base URL when all are ready.

    Raises OSError when a port can't be bound, WorkerFailed when a worker does not start or does not end.
    """
    if sys.platform != "linux":
        raise OSError("more than one worker needs Linux, which spreads connections over processes")
    listen = settings.conf.listen
    with stop_signals() as stop, reserve(listen.host, listen.port) as reserved:
        port = reserved.getsockname()[1]
        settings = settings.with_listen(port=port)
        with _worker_folder(settings) as folder:
            supervisor = Supervisor(files, settings, folder)
            try:
                await supervisor.start()
                announce(base_url(listen.host, port, tls=bool(listen.tls_certificate)))
                await supervisor.wait(stop)
            finally:
                await supervisor.stop()
