"""The memory and processor time of a gateway process, from Linux's /proc."""

import re
import time
from contextlib import suppress
from pathlib import Path

from rig.gateway import Gateway


def _status_mb(gateway: Gateway, name: str) -> float:
    found = re.search(rf"^{name}:\s*(\d+) kB$", Path(f"/proc/{gateway.pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 1024 / 1e6


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process now."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * 4096


class Growth:
    """The memory that a gateway took since this object was made."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        # Without permission the peak is that of the whole run, which is at least as high.
        with suppress(PermissionError):
            Path(f"/proc/{gateway.pid}/clear_refs").write_text("5")
        self._before_mb = _status_mb(gateway, "VmRSS")

    @property
    def peak_mb(self) -> float:
        """Return the growth of the peak resident memory, in MB."""
        return _status_mb(self._gateway, "VmHWM") - self._before_mb

    @property
    def now_mb(self) -> float:
        """Return the growth of the resident memory, in MB."""
        return _status_mb(self._gateway, "VmRSS") - self._before_mb


def cpu_s(gateway: Gateway) -> float:
    """Return the processor time that the gateway used, in seconds."""
    return time.clock_gettime((~gateway.pid << 3) | 2)
