"""The memory and processor time of a process and its children, from Linux's /proc. NaN on other systems."""

import math
import re
import time
from pathlib import Path
from typing import Final

_PROCESS_CLOCK: Final = 2


def resident_mb(pid: int) -> float:
    """Return the resident memory in MB (10⁶ bytes)."""

    def own(folder: Path) -> float:
        found = re.search(r"^VmRSS:\s*([0-9]+) kB$", (folder / "status").read_text(), re.MULTILINE)
        return int(found[1]) * 1024 / 1e6 if found else math.nan

    return sum(own(folder) for folder in _family(pid)) or math.nan


def peak_mb(pid: int) -> float:
    """Return the peak of the resident memory since ``reset_peak``, in MB."""

    def own(folder: Path) -> float:
        found = re.search(r"^VmHWM:\s*([0-9]+) kB$", (folder / "status").read_text(), re.MULTILINE)
        return int(found[1]) * 1024 / 1e6 if found else math.nan

    return sum(own(folder) for folder in _family(pid)) or math.nan


def reset_peak(pid: int) -> None:
    """Reset the peak of the resident memory."""
    for folder in _family(pid):
        (folder / "clear_refs").write_text("5")


def cpu_s(pid: int) -> float:
    """Return the processor time used so far, user and system, in seconds."""

    def own(folder: Path) -> float:
        # The kernel's clock of another process counts nanoseconds; /proc counts ticks of 10 ms.
        return time.clock_gettime((~int(folder.name) << 3) | _PROCESS_CLOCK)

    return sum(own(folder) for folder in _family(pid)) or math.nan


def process_ids(pid: int) -> list[int]:
    """Return the process and its children, and theirs."""
    return [int(folder.name) for folder in _family(pid)]


def _family(pid: int) -> list[Path]:
    folder = Path(f"/proc/{pid}")
    listed = folder / "task" / str(pid) / "children"
    if not listed.exists():
        return []
    return [folder, *(path for child in listed.read_text().split() for path in _family(int(child)))]
