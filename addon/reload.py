"""Hot reload: edits take effect within two seconds, and a set of files that does not load changes nothing.

Source: docs/configuration.md.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from addon.settings import NEEDS_RESTART, Settings, load_settings
from addon.settings_io import SettingsError, Sources, Stamp

_log = logging.getLogger("tollgate.reload")


def is_due(loaded: Mapping[Path, Stamp], before: Mapping[Path, Stamp], now: Mapping[Path, Stamp]) -> bool:
    """Return whether the files differ from what was loaded, and stood still since the look before this one.

    An editor may empty a file before it writes it anew; a workspace without its keys would load, and lock out.
    """
    return now != loaded and now == before


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
        self._sources = Sources()
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
            # It may have died before; that was logged, and must not disturb the end of the process.
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        # The first look always loads: a file may have changed since the process read it.
        await self._reload()
        before: Mapping[Path, Stamp] = self._sources.stamps
        while True:
            await asyncio.sleep(self._interval_s)
            now = await asyncio.to_thread(self._sources.look)
            if is_due(self._sources.stamps, before, now):
                await self._reload()
            before = now

    async def _reload(self) -> None:
        self._sources = Sources()
        error, settings = await asyncio.to_thread(self._load, self._sources)
        if await asyncio.to_thread(self._sources.look) != self._sources.stamps:
            # Somebody wrote while we read, so this may be half an edit; the next looks see the whole.
            return
        if settings is None:
            self._note_error(error)
            return
        if self.error is not None:
            _log.info("the settings load again")
            self.error = None
        self._warn_of_restart(settings)
        if settings == self._latest:
            _log.debug("the settings were read again, nothing is new")
            return
        self._latest = settings
        _log.info("settings reloaded, fingerprint %s", settings.fingerprint)
        self._apply(settings)

    def _load(self, sources: Sources) -> tuple[str, Settings | None]:
        running = self._started_with.conf
        try:
            return "", load_settings(self._conf_file, self._env, running=running, sources=sources)
        except SettingsError as error:
            return str(error), None

    def _note_error(self, error: str) -> None:
        # The same fault again is for whoever looks closely only: one edit, one line.
        level = logging.ERROR if error != self.error else logging.DEBUG
        _log.log(level, "the settings do not load, the last good ones stay: %s", error)
        self.error = error

    def _warn_of_restart(self, settings: Settings) -> None:
        waiting = tuple(
            f"[{name}]"
            for name in NEEDS_RESTART
            if getattr(settings.written, name) != getattr(self._started_with.written, name)
        )
        if waiting and waiting != self._waiting:
            _log.warning("changes of %s in proxy.conf take effect after a restart", ", ".join(waiting))
        self._waiting = waiting

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            # A watcher that died must not look like files that never change.
            self.error = "the settings are no longer reloaded; restart the gateway"
            _log.critical("%s", self.error, exc_info=fault)
