"""The services of a gateway process: the store, the sandbox, keys and tokens, the admin port, the settings watcher.

They start and stop together, in ``serve`` and in a plain ``mitmdump``. A worker has no admin port and no watcher: its
supervisor has both.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from addon import VERSION
from addon.alerts.service import Alerts
from addon.calls.dependencies import make_dependencies
from addon.calls.public_catalog import PublicCatalog
from addon.fleet.service import make_follower
from addon.gateway.archive_keeper import ArchiveKeeper
from addon.gateway.in_use import Process, find_left, read_in_use
from addon.runtime.listening import bind
from addon.runtime.taken_ports import name_setting
from addon.sandbox.server import Sandbox
from addon.settings.errors import SettingsError
from addon.settings.settings import Settings, SettingsFiles
from addon.settings.watcher import Watcher
from addon.store.backends import find_ledger, open_store
from addon.store.measured import MeasuredStore
from addon.store.money.audit.audit_drain import AuditDrain
from addon.store.money.sums.rollup_builder import RollupBuilder
from addon.store.protocol import MAINTENANCE_INTERVAL_S, Store, StoreAway, StoreUnavailable
from addon.telemetry.admin import Admin, Readiness
from addon.telemetry.logs import count_dropped_lines
from addon.telemetry.metric_families import Gauges
from addon.telemetry.metrics import Metrics
from addon.wire.connection import Connection
from policies.circuit_breaker import CIRCUIT_KINDS, count_circuits, describe_circuits

if TYPE_CHECKING:
    from addon.console.console import Console

log = logging.getLogger("tollgate.lifecycle")

FLEET_PATIENCE_S: Final = 30.0
"""How long a fleet may be without its ledger before an alert: each process sends its own."""


class Lifecycle:
    """The services of one gateway process. ``deps`` is for its calls, with the latest good settings.

    ``files`` is None in a worker, whose supervisor watches the files and has the admin port. ``connections`` returns
    those of clients.
    """

    def __init__(
        self,
        files: SettingsFiles | None,
        settings: Settings,
        new_id: Callable[[], str],
        connections: Callable[[], Collection[Connection]] = tuple,
    ) -> None:
        self.metrics = Metrics(VERSION)
        measured = MeasuredStore(open_store(settings.conf), self.metrics)
        self._note_outage = measured.note_outage
        self.store: Store = measured
        # PostgreSQL keeps the sums in the transactions of calls.
        self.rollups = None if settings.conf.ledger.url else RollupBuilder(settings.conf.paths.database)
        place = find_ledger(settings.conf)
        self.audit = AuditDrain(settings.conf.paths.database, place)
        self.deps = make_dependencies(settings, self.store, self.metrics, new_id)
        self.platform_keys = self.deps.platform_keys
        self.process = Process(self.deps, connections, lambda: measured.held)
        self.providers: Iterable[str] = settings.providers
        self.sandbox: Sandbox | None = None
        self.sandbox_url = ""
        self.admin = Admin(self.readiness) if files else None
        if self.admin:
            self.admin.pages["/metrics"] = self._metrics
        self.watcher = Watcher(files, settings, self.apply) if files else None
        self.follower = make_follower(
            lambda: self.deps.settings, self.watcher, lambda: len(self.deps.in_flight.calls)
        )
        self.tasks: set[asyncio.Task[None]] = set()
        self.upkeep: asyncio.Task[None] | None = None
        self.draining = False
        self.fault: BaseException | None = None
        self.alerts = Alerts(
            place,
            measured,
            self.metrics,
            lambda: self.deps.settings,
            self._find_faults,
            patience_s=FLEET_PATIENCE_S if settings.conf.ledger.url else 0,
        )
        keeps_all = settings.conf.ledger.keep_months == 0
        self.archives = None if keeps_all else ArchiveKeeper(settings.conf, self.alerts)

    async def start(self) -> None:
        """Start everything but the admin port. Raises StoreUnavailable when rows can't be kept.

        Where only the PostgreSQL of the ledger is away, start: calls are refused until it is there.
        """
        try:
            await self.store.check()
            await self.store.maintain()  # The first call must know the circuits that others opened.
        except StoreAway as error:
            self._note_outage(error)
        settings = self.deps.settings
        await self._apply(settings)
        self.upkeep = asyncio.create_task(self._maintain_store())
        if self.rollups:
            self.rollups.start()
        self.audit.start()
        self.alerts.start()
        if self.archives:
            self.archives.start()
        if self.watcher:
            self.watcher.start()
        if self.follower:
            self.follower.start()

    async def open_admin(self, sockets: Sequence[socket.socket] = ()) -> None:
        """Serve the admin port on ``sockets``, or on a new socket at its address. Raises OSError when it is taken."""
        conf = self.deps.settings.conf.admin
        if self.admin:
            with name_setting("[admin]", "--admin-port", conf.port):
                listening = sockets or [bind(conf.host, conf.port)]
            await self.admin.start_on(listening, self._make_console(listening))

    def _make_console(self, listening: Iterable[socket.socket]) -> "Console":
        # Imported here, because a worker has no console.
        from addon.console.console import Console
        from addon.console.sources import Sources

        assert self.watcher  # noqa: S101  (only a process that watches the files has the admin port)
        watcher = self.watcher
        return Console(
            Sources(
                settings=lambda: self.deps.settings,
                snapshot=lambda: watcher.make_snapshot(self.deps.settings),
                readiness=self.readiness,
                gauges=self._read_gauges,
                file_fault=lambda: watcher.error,
                settings_age_s=lambda: watcher.age_s,
                find_files=watcher.find_changed_files,
                files=watcher.files,
            ),
            [one.getsockname() for one in listening],
        )

    async def stop(self) -> None:
        """Wait for the work that the last calls left, then stop everything, the store last."""
        await self.deps.in_flight.close()
        if self.upkeep:
            self.upkeep.cancel()
        if self.archives:
            await self.archives.stop()
        await self.alerts.stop()
        await self.audit.stop()
        if self.rollups:
            await self.rollups.stop()
        if self.follower:
            await self.follower.stop()
        if self.watcher:
            await self.watcher.stop()
        if self.admin:
            await self.admin.stop()
        if self.sandbox:
            await self.sandbox.stop()
        await self.deps.access_tokens.close()
        if left := find_left(self.process):
            # Of a process that lives on, this would be used up in the end.
            fields = {"event": "not given back", "in_use": left}
            log.error("calls have ended and not given back all that they took: %s", left, extra=fields)
        await self.deps.pool.close()
        await self.store.close()

    async def _maintain_store(self) -> None:
        """Maintain the store as long as the process lives."""
        while True:
            await asyncio.sleep(MAINTENANCE_INTERVAL_S)
            try:
                with suppress(StoreUnavailable):  # The store logs this.
                    await self.store.maintain()
            except Exception:
                # A fault of ours must not end this loop: it records the calls of dead processes.
                log.exception("the store could not be maintained")
            self._share_quotas()
            self._measure()

    def _share_quotas(self) -> None:
        """Divide the quotas of places among the processes that live. One that watches the files has no others."""
        workers = 1 if self.watcher else self.deps.settings.conf.listen.workers
        self.platform_keys.quotas.processes = max(workers, self.store.live_processes)

    def _measure(self, *, whole: bool = False) -> None:
        """Set the gauges of values that change without a call. In workers they are as old as the last maintenance."""
        self.platform_keys.measure()
        pool = self.deps.pool.stats()
        self.metrics.set_upstream_connections(
            open_now=pool.open, idle_now=pool.idle, opened=pool.opened, reused=pool.reused
        )
        self.metrics.set_dropped_log_lines(count_dropped_lines())
        self.metrics.set_in_use(read_in_use(self.process, whole=whole))
        if self.follower:
            self.metrics.set_files_differ(self.follower.lasting_differences)
        counts = count_circuits(self.store.open_circuits())
        known = {(name, *kind): counts[name, *kind] for name in self.providers for kind in CIRCUIT_KINDS}
        self.metrics.set_circuits_open(known)

    def apply(self, settings: Settings) -> None:
        """Apply settings that were loaded while the gateway runs."""
        task = asyncio.create_task(self._apply(settings))
        self.tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self.note_fault(None if task.cancelled() else task.exception())

    def note_fault(self, fault: BaseException | None) -> None:
        """Remember why the newest settings could not be put to use. The last good settings serve on."""
        self.fault = fault
        self.metrics.set_reload_failed(failed=fault is not None)
        if isinstance(fault, SettingsError):
            log.error("settings: could not be put to use: %s", fault)
        elif fault:
            log.error("settings: could not be put to use", exc_info=fault)

    async def _apply(self, settings: Settings) -> None:
        if settings.sandbox_enabled and self.sandbox is None:
            self.sandbox = Sandbox()
            self.sandbox_url = await self.sandbox.start()
        if self.sandbox:
            settings = settings.with_builtin_url(self.sandbox_url, self.sandbox.key)
        self.platform_keys.use_settings(settings)
        self.deps.speeds.use_models(settings.models.values())
        self.providers = settings.providers
        self.metrics.set_broken_files([problem.file for problem in settings.problems])
        self.deps.settings, self.deps.catalog = settings, PublicCatalog(settings.models)
        self.deps.pool.set_proxy(settings.egress_proxy)
        self._share_quotas()

    def _find_faults(self) -> Mapping[str, str]:
        """Return why each broken file does not load, and why the newest settings are not in use."""
        faults = {
            str(one.file): ": ".join(filter(None, (one.key, one.reason)))
            for one in self.deps.settings.problems
        }
        if self.fault:
            faults["settings"] = "could not be put to use; the log says why"
        elif self.watcher and self.watcher.fault:
            faults["settings"] = self.watcher.fault
        return faults

    async def _metrics(self) -> tuple[int, str, bytes]:
        self._measure_now()
        return 200, *self.metrics.render()

    def _read_gauges(self) -> Gauges:
        self._measure_now()
        return self.metrics.read_gauges()

    def _measure_now(self) -> None:
        self._measure(whole=True)
        if self.watcher:
            self.metrics.set_settings_age(self.watcher.age_s)
            self.metrics.set_reload_failed(failed=bool(self.watcher.error or self.fault))

    async def readiness(self) -> Readiness:
        """Return whether this process should get calls, and the result of each check."""
        put_to_use = "could not be put to use; the log says why" if self.fault else "ok"
        not_loaded = self.watcher.error if self.watcher else None
        checks = {"settings": not_loaded or put_to_use, "store": "ok", "drain": "ok"}
        try:
            await self.store.check()
        except StoreUnavailable as error:
            checks["store"] = str(error)
        if self.draining:
            checks["drain"] = "draining"
        checks["platform_keys"] = self.platform_keys.check()
        checks["circuits"] = describe_circuits(self.store.open_circuits())
        checks["ledger"] = "; ".join(self.store.warnings) or "ok"
        if self.follower:
            checks["fleet"] = self.follower.check
        # Resting keys, open circuits, warnings and files that do not load are only reported: calls can be served.
        ready = checks["store"] == "ok" and not self.draining
        return Readiness(ready, checks)
