"""Several workers on one port: started together, started again when they die, drained together.

The supervisor serves no call. It reserves the port, watches the files for all, has the one admin port, and leaves
everything else to the workers, so that there is little in it that could fail. Source: docs/operating.md.
"""

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Callable, Mapping

from addon.runtime.listening import base_url
from addon.serve.ports import reserve
from addon.serve.signals import stop_signals
from addon.serve.worker_process import Child, WorkerFailed
from addon.serve.worker_protocol import pack
from addon.settings.settings import Settings, SettingsFiles
from addon.settings.watcher import Watcher
from addon.telemetry.admin import Admin, Readiness
from addon.telemetry.worker_metrics import WorkerMetrics

log = logging.getLogger("tollgate.supervisor")

START_S = 60.0
"""How long all workers together may take to start."""

ANSWER_S = 2.0
"""How long a worker may take to say how it is; its own checks are bounded by much less."""

SILENT_S = 15.0
"""A worker that says nothing for as long, though it is asked, is killed: its connections wait for nobody."""

SLACK_S = 10.0
"""How long a worker may take to end after its drain, before it is killed."""

STEADY_S = 10.0
"""A worker that lived as long did not die of its start."""

CHECKS = ("settings", "store", "drain", "platform_keys", "circuits")
"""What each worker looks at."""

FIRST_DELAY_S, LONGEST_DELAY_S = 0.1, 10.0


def restart_delay_s(early_deaths: int) -> float:
    """Return how long to wait before a worker is started again that died so often in a row soon after its start."""
    return min(FIRST_DELAY_S * 2.0 ** min(early_deaths, 30), LONGEST_DELAY_S)


def merged_checks(reports: Mapping[int, Readiness]) -> dict[str, str]:
    """Return each check as the workers of these numbers found it: what all of them say, or who complains of what."""
    if not reports:
        return dict.fromkeys(CHECKS, "no worker is there to ask")
    names = next(iter(reports.values())).checks
    return {
        name: _merged({number: report.checks[name] for number, report in reports.items()}) for name in names
    }


def _merged(found: Mapping[int, str]) -> str:
    if len(said := set(found.values())) == 1:
        return said.pop()
    return "; ".join(f"worker {number}: {what}" for number, what in found.items() if what != "ok")


class Supervisor:
    """The workers and what they share. ``settings`` are the last good ones."""

    def __init__(self, files: SettingsFiles, settings: Settings) -> None:
        self.settings = settings
        self.listen = settings.conf.listen
        self.children: dict[int, Child] = {}
        # The port is ours alone, so what is in its folder is of workers that a killed supervisor left.
        self.metrics_folder = settings.conf.paths.database.with_name(
            f"metrics-{self.listen.host}-{self.listen.port}"
        )
        self.metrics = WorkerMetrics(self.metrics_folder)
        self.admin = Admin(self.readiness)
        self.admin.pages["/metrics"] = self._metrics
        self.watcher = Watcher(files, settings, self.apply)
        self.draining = False
        self._keepers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start everything; return when every worker serves. Raises OSError, or WorkerFailed."""
        shutil.rmtree(self.metrics_folder, ignore_errors=True)
        self.metrics_folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.metrics_folder.mkdir(mode=0o700)
        await self.admin.start(self.settings.conf.admin.host, self.settings.conf.admin.port)
        try:
            async with asyncio.timeout(START_S):
                children = [await self._start_worker(number + 1) for number in range(self.listen.workers)]
                for child in children:
                    await child.served()
        except TimeoutError:
            raise WorkerFailed(f"not every worker was ready within {START_S:g} s") from None
        self.watcher.start()
        self._keepers = [asyncio.create_task(self._keep(child)) for child in children]

    async def attend(self, stop: asyncio.Event) -> None:
        """Wait for ``stop``. Whatever keeps the workers from being started again is raised, not overlooked."""
        stopping = asyncio.create_task(stop.wait())
        tasks = (stopping, *self._keepers)
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for task in ended:
            task.result()

    async def stop(self) -> None:
        """Drain every worker and wait until all have ended. Raises WorkerFailed where one had to be killed."""
        self.draining = True
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await self.watcher.stop()
        patience_s = self.listen.drain_timeout_s + SLACK_S
        children = list(self.children.values())
        ended = await asyncio.gather(*(child.stop(patience_s) for child in children))
        await self.admin.stop()
        shutil.rmtree(self.metrics_folder, ignore_errors=True)
        if killed := [
            f"worker {child.number}" for child, well in zip(children, ended, strict=True) if not well
        ]:
            raise WorkerFailed(f"killed {', '.join(killed)}, not ended {patience_s:g} s after it was told to")

    def apply(self, settings: Settings) -> None:
        """Let every worker serve on ``settings``, those too that are started from now on."""
        self.settings = settings
        order = pack(settings)
        for child in self.children.values():
            child.send(order)

    async def readiness(self) -> Readiness:
        """Whether this gateway should be sent calls, as one does while a worker serves: what its workers say."""
        serving = [child for child in self.children.values() if child.is_serving]
        answers = await asyncio.gather(*(child.ask(ANSWER_S) for child in serving))
        asked = zip(serving, answers, strict=True)
        reports = {child.number: report for child, report in asked if report}
        checks = merged_checks(reports)
        count = self.listen.workers
        checks["workers"] = "ok" if len(reports) == count else f"{len(reports)} of {count} running"
        # Files that do not load are reported, but the last good ones serve on.
        checks["settings"] = self.watcher.error or checks["settings"]
        if self.draining:
            checks["drain"] = "draining"
        ready = not self.draining and any(report.ready for report in reports.values())
        return Readiness(ready, checks)

    async def _start_worker(self, number: int) -> Child:
        folder = {"PROMETHEUS_MULTIPROC_DIR": str(self.metrics_folder)}
        child = await Child.start(number, os.environ | folder)
        self.children[number] = child
        child.begin(self.settings)
        log.info("worker %d started", number, extra=_named("worker started", child))
        return child

    async def _keep(self, child: Child) -> None:
        """See to it that somebody has the place of ``child``, as long as this task runs."""
        now_s = asyncio.get_running_loop().time
        early_deaths = 0
        while True:
            started_s = now_s()
            why = f"ended with {await self._ended(child)}" + (f": {child.fault}" if child.fault else "")
            log.error("worker %d %s", child.number, why, extra=_named("worker ended", child))
            self._sum_up(child)
            early_deaths = 0 if now_s() - started_s >= STEADY_S else early_deaths + 1
            await asyncio.sleep(restart_delay_s(early_deaths))
            child = await self._successor(child.number, early_deaths)

    async def _ended(self, child: Child) -> str:
        """Wait for the end of ``child``, as ``Child.ended``; bring it about where the worker hangs or is stopped."""
        ended = asyncio.create_task(child.ended())
        silence = asyncio.create_task(child.fell_silent(START_S, SILENT_S))
        try:
            await asyncio.wait((ended, silence), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                said = (child.number, silence.result())
                log.error(
                    "worker %d says nothing for %g s: killed", *said, extra=_named("worker silent", child)
                )
                child.kill()
            return await ended
        finally:
            ended.cancel()
            silence.cancel()

    async def _successor(self, number: int, early_deaths: int) -> Child:
        while True:
            try:
                return await self._start_worker(number)
            except OSError as error:
                early_deaths += 1
                log.error("worker %d can't be started: %s", number, error)
                await asyncio.sleep(restart_delay_s(early_deaths))

    def _sum_up(self, ended: Child) -> None:
        try:
            self.metrics.worker_ended(ended.pid)
        except Exception:  # A worker may die while it writes, and its place must be taken whatever it left.
            log.exception("what worker %d counted is lost", ended.number)

    async def _metrics(self) -> tuple[int, str, bytes]:
        return 200, *self.metrics.render()


def _named(event: str, child: Child) -> dict[str, object]:
    return {"event": event, "worker": child.number, "pid": child.pid}


async def supervise(files: SettingsFiles, settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve with several workers until SIGTERM or SIGINT. Calls ``announce`` with the base URL when all are ready.

    Raises OSError where a port can't be bound, WorkerFailed where a worker does not start or does not end.
    """
    if sys.platform != "linux":
        raise OSError("more than one worker needs Linux, which spreads connections over processes")
    listen = settings.conf.listen
    with stop_signals() as stop, reserve(listen.host, listen.port) as reserved:
        port = reserved.getsockname()[1]
        supervisor = Supervisor(files, settings.with_listen(port=port))
        try:
            await supervisor.start()
            announce(base_url(listen.host, port, tls=bool(listen.tls_certificate)))
            await supervisor.attend(stop)
        finally:
            await supervisor.stop()
