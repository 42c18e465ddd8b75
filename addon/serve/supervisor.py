"""Several workers on one port. They start together, are replaced when they die, and drain together.

The supervisor serves no call. It holds the listening sockets, watches the files for all workers, and has the one admin
port. The workers do everything else, so that little in the supervisor can fail. Source: docs/operating.md.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

from addon.console.console import Console
from addon.console.sources import Sources
from addon.fleet.service import make_follower
from addon.runtime.tasks import wait_for_first
from addon.serve.listening_sockets import Ports
from addon.serve.opening import Start, opened
from addon.serve.signals import stop_signals
from addon.serve.snapshot_writer import SnapshotWriter
from addon.serve.worker_folder import make_worker_folder
from addon.serve.worker_pool import WorkerPool
from addon.serve.worker_status import CHECKS, ReadinessQuestion, WorkerFailed, merged_checks
from addon.serve.worker_template import WorkerTemplate
from addon.settings.settings import Settings, SettingsFiles
from addon.settings.snapshot import SNAPSHOT_KEY_VARIABLE
from addon.settings.watcher import Watcher
from addon.telemetry.admin import Admin, Readiness
from addon.telemetry.logs import count_dropped_lines
from addon.telemetry.metric_families import Gauges
from addon.telemetry.metrics import FOLDER_VARIABLE
from addon.telemetry.worker_metrics import WorkerMetrics

log = logging.getLogger("tollgate.supervisor")

ANSWER_S = 2.0
"""A worker that does not answer within this time counts as missing. Its own checks are bounded by less."""

SLACK_S = 10.0
"""How long a worker may take to end after ``drain_timeout_s``, before it is killed."""


_SUCCEEDED = Readiness(True, dict.fromkeys((*CHECKS, "workers"), "ok"))
"""After a takeover: another process serves at this address, and answers on new connections."""


class Supervisor:
    """The workers, and the ``folder`` that they share. It is a ``Service``."""

    def __init__(
        self,
        files: SettingsFiles,
        settings: Settings,
        folder: Path,
        ports: Ports,
        template: WorkerTemplate | None,
    ) -> None:
        self.settings = settings
        self.listen = settings.conf.listen
        self._question = ReadinessQuestion(folder)
        self._snapshots = SnapshotWriter(files, folder)
        self.metrics = WorkerMetrics(folder)
        shared = {FOLDER_VARIABLE: str(folder), SNAPSHOT_KEY_VARIABLE: self._snapshots.key}
        self.workers = WorkerPool(folder, shared, ports["listen"], self.metrics, template)
        self.admin = Admin(self.readiness)
        self.admin.pages["/metrics"] = self._metrics
        self.watcher = Watcher(files, settings, self.apply)
        self.follower = make_follower(lambda: self.settings, self.watcher, self._count_calls)
        self.draining = False
        self._started_s = monotonic()
        self._ports = ports
        self._is_admin_open = False
        self._is_taken_over = False
        self._question.create()

    async def start(self) -> None:
        """Start everything, and return when every worker is ready to accept. Raises OSError or WorkerFailed."""
        self._snapshots.write_first(self.settings)
        await self.workers.start(self.listen.workers)
        self.watcher.start()
        if self.follower:
            self.follower.start()

    async def accept(self) -> None:
        """See ``Service.accept``."""
        self.workers.accept(accepts=True)

    async def pause(self) -> None:
        """See ``Service.pause``."""
        self.workers.accept(accepts=False)

    async def open_admin(self) -> None:
        """See ``Service.open_admin``."""
        if not self._is_admin_open:
            self._is_admin_open = True
            listening = self._ports["admin"].copies()
            await self.admin.start_on(listening, self._make_console([one.getsockname() for one in listening]))

    def _make_console(self, addresses: Sequence[object]) -> Console:
        sources = Sources(
            settings=lambda: self.settings,
            snapshot=lambda: self.watcher.make_snapshot(self.settings),
            readiness=self.readiness,
            gauges=self._read_gauges,
            file_fault=lambda: self.watcher.error or self._snapshots.fault,
            settings_age_s=lambda: self.watcher.age_s,
            find_files=self.watcher.find_changed_files,
            files=self.watcher.files,
        )
        return Console(sources, addresses)

    async def wait(self) -> None:
        """See ``Service.wait``."""
        await self.workers.wait()

    def retire(self, hurry: asyncio.Event) -> None:  # noqa: ARG002  (``leave`` waits for it)
        """See ``Service.retire``."""
        self._is_taken_over = True
        self.admin.retire()

    async def leave(self, hurry: asyncio.Event) -> None:
        """After a takeover, let the workers end when their clients have ended their connections, or at ``hurry``."""
        if not self._is_taken_over:
            return
        self._log_drain()
        await self.workers.stop_replacing()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.listen.drain_timeout_s + SLACK_S):
                await wait_for_first(self.workers.leave(), hurry.wait())

    async def stop(self) -> None:
        """Drain every worker and wait until all have ended. Raises WorkerFailed when one had to be killed."""
        self.draining = True
        if self.workers.has_started and not self._is_taken_over:
            self._log_drain()
        await self.workers.stop_replacing()
        if self.follower:
            await self.follower.stop()
        await self.watcher.stop()
        self._snapshots.close()
        bound_s = self.listen.drain_timeout_s + SLACK_S
        killed = [f"worker {worker.number}" for worker in await self.workers.stop(bound_s)]
        await self.admin.stop()
        if self.workers.has_started:
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
        question, workers = self._question.ask(), list(self.workers)
        answers = await asyncio.gather(*(worker.answer(question, ANSWER_S) for worker in workers))
        reports = {worker.number: answer for worker, answer in zip(workers, answers, strict=True) if answer}
        checks = merged_checks(reports)
        count = self.listen.workers
        checks["workers"] = "ok" if len(reports) == count else f"{len(reports)} of {count} running"
        # Files that do not load are reported, but the last good settings serve on.
        checks["settings"] = self.watcher.error or self._snapshots.fault or checks["settings"]
        if self.follower:
            checks["fleet"] = self.follower.check
        if self.draining:
            checks["drain"] = "draining"
        ready = not self.draining and any(report.ready for report in reports.values())
        return Readiness(ready, checks)

    async def _metrics(self) -> tuple[int, str, bytes]:
        return 200, *self.metrics.render(self._find_own_numbers())

    def _read_gauges(self) -> Gauges:
        return self.metrics.read_gauges(self._find_own_numbers())

    def _count_calls(self) -> int:
        gauges = self._read_gauges()["tollgate_in_use"]
        return round(sum(one.value for one in gauges if one.labels["resource"] == "calls"))

    def _find_own_numbers(self) -> Mapping[str, float]:
        return {
            "tollgate_reload_failed": bool(self.watcher.error or self._snapshots.fault),
            "tollgate_settings_age_seconds": self.watcher.age_s,
            "tollgate_log_lines_dropped": count_dropped_lines(),
        }


async def supervise(
    files: SettingsFiles,
    settings: Settings,
    announce: Callable[[str], None],
    start: Start,
    template: WorkerTemplate | None,
) -> None:
    """Serve with several workers until SIGTERM, SIGINT or a takeover. Call ``announce`` with the URL when ready.

    Raises as ``opened`` does, and WorkerFailed when a worker does not start or does not end.
    """
    if sys.platform != "linux":
        raise OSError("more than one worker needs Linux, which spreads connections over processes")
    with stop_signals() as stop, opened(settings, files.conf_file, start) as opening:
        settings = settings.with_listen(port=opening.ports["listen"].number)
        with make_worker_folder(settings) as folder:
            supervisor = Supervisor(files, settings, folder, opening.ports, template)
            try:
                if opening.running is None:
                    await supervisor.open_admin()
                await supervisor.start()
                await opening.serve(supervisor, announce, stop)
                await supervisor.leave(stop)
            finally:
                await supervisor.stop()
