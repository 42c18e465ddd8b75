"""Hot reload: edits take effect within two seconds, and a set of files that does not load changes nothing.

Source: design.md §2.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from addon.settings import NEEDS_RESTART, Settings, load_settings
from addon.settings_io import SettingsError, Sources

_log = logging.getLogger("tollgate.reload")


class Watcher:
    """One task that watches the files and hands each new good ``Settings`` to ``apply``, on the event loop.

    ``running`` is what the process started with. ``error`` is why the files on disk do not load, None while
    they do. ``env`` is ``os.environ`` unless given.
    """

    def __init__(
        self,
        conf_file: Path,
        running: Settings,
        apply: Callable[[Settings], None],
        *,
        env: Mapping[str, str] | None = None,
        interval_s: float = 0.5,
    ) -> None:
        self.error: str | None = None
        self._conf_file = conf_file
        self._started_with = running
        self._latest = running
        self._apply = apply
        self._env = env
        self._interval_s = interval_s
        self._sources: Sources | None = None
        self._waiting: tuple[str, ...] = ()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch, on the running event loop."""
        self._task = asyncio.create_task(self._watch(), name="settings reload")
        self._task.add_done_callback(self._note_end)

    async def stop(self) -> None:
        """Stop watching and wait until the task has ended."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self) -> None:
        while True:
            # The first look always loads: a file may have changed since the process read it.
            if self._sources is None or await asyncio.to_thread(self._sources.changed):
                await self._reload()
            await asyncio.sleep(self._interval_s)

    async def _reload(self) -> None:
        self._sources = Sources()
        try:
            settings = await asyncio.to_thread(self._load, self._sources)
        except SettingsError as error:
            self._note_error(str(error))
            return
        if self.error is not None:
            _log.info("settings the files load again")
            self.error = None
        self._warn_of_restart(settings)
        if settings != self._latest:
            self._latest = settings
            _log.info("settings reloaded, fingerprint %s", settings.fingerprint)
            self._apply(settings)

    def _load(self, sources: Sources) -> Settings:
        return load_settings(self._conf_file, self._env, running=self._started_with.conf, sources=sources)

    def _note_error(self, error: str) -> None:
        if error != self.error:
            _log.error("settings kept the last good ones: %s", error)
        self.error = error

    def _warn_of_restart(self, settings: Settings) -> None:
        waiting = tuple(
            f"[{name}]"
            for name in NEEDS_RESTART
            if getattr(settings.written, name) != getattr(self._started_with.written, name)
        )
        if waiting and waiting != self._waiting:
            _log.warning("settings changes of %s take effect after a restart", ", ".join(waiting))
        self._waiting = waiting

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            # A watcher that died must not look like files that never change.
            self.error = "settings are no longer reloaded; restart the gateway"
            _log.critical("settings %s", self.error, exc_info=fault)
