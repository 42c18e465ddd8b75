"""The status of a worker: a small file next to its metrics, which the worker touches as a sign of life."""

import json
import logging
import os
from contextlib import suppress
from pathlib import Path

from addon.telemetry.admin import Readiness

log = logging.getLogger("tollgate.workers")


MAX_BYTES = 65_536
"""The most that is read of a status: a worker talks to strangers."""


class WorkerStatus:
    """The status file of one worker. The worker writes it, and its supervisor reads it.

    It holds the worker's readiness, or the fault that ended the worker.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self._file = folder / f"worker-{number}.json"
        self._written = ""

    def write(self, status: Readiness | str) -> None:
        """Give a sign of life, and replace the file if the status is new."""
        fields = (
            {"fault": status} if isinstance(status, str) else {"ready": status.ready, "checks": status.checks}
        )
        text = json.dumps(fields, default=dict)
        try:
            if text != self._written:
                new = self._file.with_suffix(".new")
                new.write_text(text, encoding="utf-8")
                new.replace(self._file)
                self._written = text
        except OSError as error:
            log.debug("the status can't be written: %s", error)
        # This also works on a full disk, where only the status itself grows old.
        with suppress(OSError):
            os.utime(self._file)

    def remove(self) -> None:
        """Remove the status of an earlier worker with the same number."""
        self._file.unlink(missing_ok=True)

    def last_sign(self) -> int | None:
        """Return a number that changes with every sign of life, None before the first."""
        try:
            return self._file.stat().st_mtime_ns
        except OSError:
            return None

    def read(self) -> Readiness | str | None:
        """Return the last status. Return None before the first, and for a text that is none."""
        try:
            with self._file.open("rb") as stream:
                status = json.loads(stream.read(MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return None
        match status:
            case {"fault": str(fault)}:
                return fault
            case {"ready": bool(ready), "checks": dict(checks)}:
                return Readiness(ready, {str(name): str(found) for name, found in checks.items()})
        return None
