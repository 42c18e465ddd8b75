"""The memory and processor time of a gateway process, as Linux tells it."""

import re
import time
from contextlib import suppress
from pathlib import Path

from rig.gateway import Gateway


def _status_mb(gateway: Gateway, name: str) -> float:
    found = re.search(rf"^{name}:\s*(\d+) kB$", Path(f"/proc/{gateway.pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 1024 / 1e6


class Growth:
    """How much memory one gateway took since this was made."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        with suppress(PermissionError):  # Then the peak is that of the whole life, which is no less.
            Path(f"/proc/{gateway.pid}/clear_refs").write_text("5")
        self._before_mb = _status_mb(gateway, "VmRSS")

    @property
    def peak_mb(self) -> float:
        """The most resident memory there was over what was resident at first."""
        return _status_mb(self._gateway, "VmHWM") - self._before_mb

    @property
    def now_mb(self) -> float:
        """The resident memory over what was resident at first."""
        return _status_mb(self._gateway, "VmRSS") - self._before_mb


def cpu_s(gateway: Gateway) -> float:
    """Return the processor time that it used so far, in seconds."""
    return time.clock_gettime((~gateway.pid << 3) | 2)
