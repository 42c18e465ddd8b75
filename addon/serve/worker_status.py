"""The status of a worker: a small file next to its metrics, which the worker touches as a sign of life.

A worker writes its readiness when it starts, and whenever the supervisor asks for it: a check writes to the store, so
none is made that no one needs.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from addon.telemetry.admin import Readiness

MAX_BYTES = 65_536
"""The most that is read of a status: a worker talks to strangers."""

CHECKS = ("settings", "store", "drain", "platform_keys", "circuits", "ledger")
"""The checks of each worker."""


class WorkerFailed(Exception):  # noqa: N818  (like StoreUnavailable: no fault of the caller)
    """A worker did not start, or did not end. The message is one line for operators."""


class ReadinessQuestion:
    """The file with which a supervisor asks all its workers for their readiness.

    Its modification time, in seconds, is the number of the question. So to ask also works on a full disk.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "question"

    def create(self) -> None:
        """Create the file, before there is a worker. Raises OSError."""
        self._file.touch()
        os.utime(self._file, (0, 0))

    def ask(self) -> int:
        """Ask a new question, and return its number. Raises OSError."""
        number = self.number() + 1
        os.utime(self._file, (number, number))
        return number

    def number(self) -> int:
        """Return the number of the last question, 0 before the first."""
        try:
            return int(self._file.stat().st_mtime)
        except OSError:
            return 0


class WorkerStatus:
    """The status file of one worker. The worker writes it, and its supervisor reads it.

    It holds the worker's readiness, or the fault that ended the worker.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self._file = folder / f"worker-{number}.json"

    def write_readiness(self, readiness: Readiness, question: int) -> None:
        """Write the answer to the question of this number."""
        self._write({"question": question, "ready": readiness.ready, "checks": dict(readiness.checks)})

    def write_fault(self, fault: str) -> None:
        """Write why the worker ends."""
        self._write({"fault": fault})

    def _write(self, fields: dict[str, object]) -> None:
        new = self._file.with_suffix(".new")
        # On a full disk the worker lives on, but does not answer.
        with suppress(OSError):
            new.write_text(json.dumps(fields), encoding="utf-8")
            new.replace(self._file)

    def touch(self) -> None:
        """Give a sign of life."""
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

    def readiness(self, question: int = 0) -> Readiness | None:
        """Return the answer to this question, or to a later one. Return None while there is none."""
        match self._read():
            case {"question": int(number), "ready": bool(ready), "checks": dict(checks)} if (
                number >= question
            ):
                return Readiness(ready, {str(name): str(result) for name, result in checks.items()})
        return None

    def fault(self) -> str | None:
        """Return the fault that ended the worker, None when there is none."""
        match self._read():
            case {"fault": str(fault)}:
                return fault
        return None

    def _read(self) -> object:
        """Return what is in the file, None when it is no JSON."""
        try:
            with self._file.open("rb") as stream:
                return json.loads(stream.read(MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return None


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
