"""What runs beside the proxy: the store, the sandbox, the admin port and the watcher of the files.

Started and stopped together, for ``serve`` and for a plain ``mitmdump`` alike.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from addon.admin import Admin, Readiness
from addon.reload import Watcher
from addon.sandbox import Sandbox
from addon.settings import Settings
from addon.store import UPKEEP_S, Store, StoreUnavailable
from addon.store.sqlite import SqliteStore

log = logging.getLogger("tollgate.lifecycle")

_STORE_LOST = {"event": "store unavailable"}
_STORE_BACK = {"event": "store recovered"}


class Lifecycle:
    """The services of one gateway process. ``adopt`` is called with every good ``Settings``, the first included."""

    def __init__(self, conf_file: Path, settings: Settings, adopt: Callable[[Settings], None]) -> None:
        self.adopt = adopt
        self.store: Store = SqliteStore(settings.conf.paths.database)
        self.sandbox: Sandbox | None = None
        self.sandbox_url = ""
        self.admin = Admin(self.readiness)
        self.watcher = Watcher(conf_file, settings, self.apply)
        self.tasks: set[asyncio.Task[None]] = set()
        self.started = False
        self.draining = False
        self.fault: BaseException | None = None

    async def start(self, settings: Settings) -> None:
        """Start everything. Raises OSError where the admin port is taken, StoreUnavailable where rows can't be kept."""
        await self.store.check()
        await self._apply(settings)
        self.upkeep = asyncio.create_task(self._keep_up())
        admin = settings.conf.admin
        port = await self.admin.start(admin.host, admin.port)
        host = f"[{admin.host}]" if ":" in admin.host else admin.host
        log.info("admin listening", extra={"event": "admin listening", "url": f"http://{host}:{port}"})
        self.watcher.start()
        self.started = True

    async def stop(self) -> None:
        """Stop everything, the store last."""
        if self.started:
            await self.watcher.stop()
            self.upkeep.cancel()
            await self.admin.stop()
        if self.sandbox:
            await self.sandbox.stop()
        await self.store.close()

    async def _keep_up(self) -> None:
        """See to the store as long as the process lives, and say once when it can't be asked, and when it can again."""
        available = True
        while True:
            await asyncio.sleep(UPKEEP_S)
            try:
                await self.store.upkeep()
            except StoreUnavailable as error:
                if available:
                    log.error("the store is unavailable, calls are refused: %s", error, extra=_STORE_LOST)
                available = False
            else:
                if not available:
                    log.info("the store is available again", extra=_STORE_BACK)
                available = True

    def apply(self, settings: Settings) -> None:
        """Take settings that were loaded while running."""
        task = asyncio.create_task(self._apply(settings))
        self.tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self.fault = None if task.cancelled() else task.exception()
        if self.fault:
            # The last good settings serve on.
            log.error("settings: could not be put to use", exc_info=self.fault)

    async def _apply(self, settings: Settings) -> None:
        if settings.sandbox_enabled and self.sandbox is None:
            self.sandbox = Sandbox()
            self.sandbox_url = await self.sandbox.start()
        if self.sandbox:
            settings = settings.with_builtin_url(self.sandbox_url, self.sandbox.key)
        if settings.not_enforced:
            log.warning("read, but not enforced by this version: %s", "; ".join(settings.not_enforced))
        self.adopt(settings)

    async def readiness(self) -> Readiness:
        """Whether this process should be sent calls, check by check."""
        put_to_use = "could not be put to use; the log says why" if self.fault else "ok"
        checks = {"settings": self.watcher.error or put_to_use, "store": "ok", "drain": "ok"}
        try:
            await self.store.check()
        except StoreUnavailable as error:
            checks["store"] = str(error)
        if self.draining:
            checks["drain"] = "draining"
        # Settings that do not load are reported, but the last good ones serve on.
        ready = checks["store"] == "ok" and not self.draining
        return Readiness(ready, checks)
