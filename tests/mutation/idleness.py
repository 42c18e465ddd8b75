"""Whether a process waits for ever: it is not slow but idle, however busy the machine is."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

IDLE_S = 60.0
"""Who takes no processor time for so long has ended in all but name: no wait of a test is a tenth of it."""
LOOK_EVERY_S = 5.0
_LEAST_S = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Idleness:
    """How long the processes of one session have been idle. ``session`` is the id of its first process."""

    session: int
    _cpu_s: float = 0.0
    _since_s: float = field(default_factory=time.monotonic)
    _looked_at_s: float = 0.0

    def is_over(self) -> bool:
        """Return whether they have been idle for ``IDLE_S``."""
        now_s = time.monotonic()
        if now_s < self._looked_at_s + LOOK_EVERY_S:
            return False
        self._looked_at_s = now_s
        cpu_s = _cpu_s(self.session)
        if abs(cpu_s - self._cpu_s) >= _LEAST_S:
            self._cpu_s, self._since_s = cpu_s, now_s
        return now_s >= self._since_s + IDLE_S


def _cpu_s(session: int) -> float:
    """Return the processor time of the processes of a session, with that of their children that have ended."""
    ticks = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (
                (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            )
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has just ended.
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS
