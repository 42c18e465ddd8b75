"""The snapshot of the settings that a supervisor writes for its workers."""

import asyncio
import logging
from pathlib import Path
from typing import Final

from addon.settings.errors import describe_error
from addon.settings.file_content import make_absolute
from addon.settings.sealed_secrets import make_master_key
from addon.settings.settings import Settings, SettingsFiles
from addon.settings.snapshot import SNAPSHOT_FILE, Snapshot

log = logging.getLogger("tollgate.supervisor")

WRITE_AGAIN_S: Final = 1.0
"""How soon the snapshot is written again after it could not be written."""


class SnapshotWriter:
    """Writes the latest settings into ``folder``. ``fault`` says why the workers do not have them, or is None.

    Its secrets are sealed with ``key``, which only the environment of the workers has.
    """

    def __init__(self, files: SettingsFiles, folder: Path) -> None:
        self.key = make_master_key()
        self.fault: str | None = None
        self._files = files
        self._file = folder / SNAPSHOT_FILE
        self._started_conf = files.built_from().shared_files[make_absolute(files.conf_file)]
        self._next_write: asyncio.TimerHandle | None = None

    def write_first(self, settings: Settings) -> None:
        """Write before the first worker starts. Raises OSError."""
        self._snapshot(settings).write(self._file, self.key)

    def write(self, settings: Settings) -> None:
        """Write, and try again later when the file can't be written."""
        self._write(self._snapshot(settings))

    def close(self) -> None:
        """Try no more."""
        if self._next_write:
            self._next_write.cancel()
            self._next_write = None

    def _snapshot(self, settings: Settings) -> Snapshot:
        return Snapshot.of(settings, self._files.built_from(), self._started_conf)

    def _write(self, snapshot: Snapshot) -> None:
        self.close()
        try:
            snapshot.write(self._file, self.key)
            self.fault = None
        except OSError as error:
            if self.fault is None:
                log.error("the settings do not reach the workers: %s", error)
            self.fault = f"the last edits do not reach the workers: {describe_error(error)}"
            loop = asyncio.get_running_loop()
            self._next_write = loop.call_later(WRITE_AGAIN_S, self._write, snapshot)
