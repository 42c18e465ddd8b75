"""Hot reload: edits take effect within two seconds, and a file that does not load is only reported.

Source: docs/configuration.md, "Edits".
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from addon.settings.builder import BuiltFrom
from addon.settings.changes import describe_changes
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import Problem
from addon.settings.file_content import make_absolute
from addon.settings.overview import FileWarning, find_file_warnings
from addon.settings.served_prices import FILE_NAME, ServedPrices
from addon.settings.settings import NEEDS_RESTART, Settings, SettingsFiles
from addon.settings.settings_log import SettingsLog
from addon.settings.snapshot import Snapshot

_log = logging.getLogger("tollgate.reload")

MAX_REPORTED: Final = 10
"""The most broken files that ``Watcher.error`` names."""

_NOT_READ: Final = "the files can't be checked, the last good settings stay; the log says why"
_DIED: Final = "the settings are no longer reloaded; restart the gateway"


class _Loaded(NamedTuple):
    """New settings, made in the thread: whether they differ from those before, and their warnings."""

    settings: Settings
    is_new: bool
    warnings: Sequence[FileWarning]


class Watcher:
    """A task that looks for edits and calls ``apply`` with each new ``Settings``, on the event loop.

    ``running`` are the settings that the process started with, from the same ``files``.
    """

    def __init__(
        self,
        files: SettingsFiles,
        running: Settings,
        apply: Callable[[Settings], None],
        *,
        interval_s: float = 0.5,
    ) -> None:
        self.files = files
        self._started_with = running
        self._latest = running
        self._apply = apply
        self._interval_s = interval_s
        self._built_from = files.built_from()
        self._started_conf = self._built_from.shared_files[make_absolute(files.conf_file)]
        self._changes = ""
        self._loaded_s = monotonic()
        self._settings_log = SettingsLog()
        self._needs_restart: tuple[str, ...] = ()
        self.fault: str | None = None
        """Why the files can't be checked, None while they can."""
        self._is_last_good_kept = True
        self._prices = ServedPrices(running.conf.paths.database.with_name(FILE_NAME))
        # DNS lookups may occupy all of asyncio's own threads.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="settings")
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look now: a file has changed."""
        self._woken.set()

    @property
    def built_from(self) -> BuiltFrom:
        """What the latest settings were built from."""
        return self._built_from

    @property
    def error(self) -> str | None:
        """The files that do not load, with the reasons; None while all load."""
        return self.fault or describe_problems(self._latest.problems)

    @property
    def age_s(self) -> float:
        """How long ago the settings in use were loaded."""
        return monotonic() - self._loaded_s

    def find_changed_files(self) -> Mapping[Path, datetime | None]:
        """Return the files that were read with the time of their last change, as ``SettingsFiles`` does."""
        return self.files.find_changed_files()

    def make_snapshot(self, settings: Settings) -> Snapshot:
        """Return the snapshot of ``settings``, the latest ones, for another process."""
        return Snapshot.of(settings, self._built_from, self._started_conf)

    def start(self) -> None:
        """Start to watch, on the running event loop."""
        self._settings_log.log_start(self._latest)
        self._log_problems({}, self._latest.problems)
        self._task = asyncio.create_task(self._watch(), name="settings reload")
        self._task.add_done_callback(self._note_end)

    async def stop(self) -> None:
        """Stop watching and wait until the task has ended."""
        if self._task is not None:
            self._task.cancel()
            # If the task has failed before, this was logged, and must not disturb the end of the process.
            await asyncio.wait([self._task])
        self._thread.shutdown(wait=False)

    async def _watch(self) -> None:
        loop, running = asyncio.get_running_loop(), self._started_with.conf
        while True:
            if loaded := await self._look(loop.time(), running):
                self._apply_if_new(loaded)
            await loop.run_in_executor(self._thread, self._keep)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._interval_s)
            self._woken.clear()

    async def _look(self, now_s: float, running: ProxyConf) -> _Loaded | None:
        loop = asyncio.get_running_loop()
        try:
            loaded = await loop.run_in_executor(self._thread, self._look_at_files, now_s, running)
        except Exception:  # noqa: BLE001  (a fault of ours must not end the reload: the next look may succeed)
            if self.fault is None:
                _log.exception("%s", _NOT_READ, extra={"event": "file broken"})
            self.fault = _NOT_READ
            return None
        self.fault = None
        return loaded

    def _look_at_files(self, now_s: float, running: ProxyConf) -> _Loaded | None:
        settings = self.files.look(now_s, running)
        if settings is self._latest:
            return None
        before, self._built_from = self._built_from, self.files.built_from()
        changes = describe_changes(before, self._built_from, self.files.texts)
        self._changes = "; ".join(filter(None, (self._changes, changes)))
        # With many workspaces both take long, and the event loop has calls to serve.
        return _Loaded(settings, settings != self._latest, find_file_warnings(settings))

    def _apply_if_new(self, loaded: _Loaded) -> None:
        settings = loaded.settings
        before, self._latest = self._latest, settings
        changes, self._changes = self._changes, ""
        self._log_problems({problem.file: problem for problem in before.problems}, settings.problems)
        self._warn_of_restart(settings)
        if not loaded.is_new:
            _log.debug("the files were read again, nothing is new")
            return
        if changes:
            self._loaded_s = monotonic()
            self._settings_log.log_reload(settings, changes, loaded.warnings)
        self._apply(settings)

    def _log_problems(self, before: Mapping[Path, Problem], now: tuple[Problem, ...]) -> None:
        for problem in now:
            if before.get(problem.file) != problem:
                fields = {"event": "file broken", "file": str(problem.file)}
                _log.error("%s: %s", problem.consequence, problem, extra=fields)
        # proxy.conf and the catalog are one set, of which another file may be broken now.
        broken = {problem.workspace for problem in now}
        for problem in before.values():
            if problem.workspace not in broken:
                subject = "the settings load" if problem.workspace is None else f"{problem.file} loads"
                _log.info("%s again", subject, extra={"event": "file mended", "file": str(problem.file)})

    def _keep(self) -> None:
        try:
            self.files.keep()
            self._keep_prices(self._latest)
        except OSError as error:
            if self._is_last_good_kept:
                _log.warning("the last good settings can't be kept for the next start: %s", error)
            self._is_last_good_kept = False
        else:
            self._is_last_good_kept = True

    def _keep_prices(self, settings: Settings) -> None:
        if changes := self._prices.note(settings.models):
            _log.warning("prices changed: %s", changes, extra={"event": "prices changed"})

    def _warn_of_restart(self, settings: Settings) -> None:
        changed = tuple(
            f"[{name}]"
            for name in NEEDS_RESTART
            if getattr(settings.written, name) != getattr(self._started_with.written, name)
        )
        if changed and changed != self._needs_restart:
            _log.warning("changes of %s in proxy.conf take effect after a restart", ", ".join(changed))
        self._needs_restart = changed

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            # Without this, a failed watcher would look like files that never change.
            self.fault = _DIED
            _log.critical("%s", _DIED, exc_info=fault)


def describe_problems(problems: tuple[Problem, ...]) -> str | None:
    """Return the first problems in one line, None when there is none."""
    lines = [str(problem) for problem in problems[:MAX_REPORTED]]
    if len(problems) > MAX_REPORTED:
        lines.append(f"{len(problems) - MAX_REPORTED} more files do not load")
    return "; ".join(lines) or None
