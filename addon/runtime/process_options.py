"""Options of this process in the Linux kernel."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

NICENESS: Final = 5
"""How much calls go before a process beside them where both wait for a processor."""
FIRST_TO_END: Final = 1000
"""Without memory, the kernel ends this process before all others. Source: proc_pid_oom_score_adj(5)."""
_END_WITH_PARENT: Final = 1
"""PR_SET_PDEATHSIG: get a signal when the parent ends."""


def end_with_parent() -> None:
    """Let the kernel kill this process when the process that started it has ended."""
    set_process_option(_END_WITH_PARENT, signal.SIGKILL)


def give_way() -> None:
    """Let calls go first where they and this process wait for a processor, or need more memory than there is."""
    with suppress(OSError):
        os.nice(NICENESS)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(f"{FIRST_TO_END}", encoding="ascii")


def set_process_option(option: int, value: int) -> bool:
    """Set an option of prctl(2). Return False where the system does not have it."""
    try:
        from ctypes import CDLL

        return bool(CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (AttributeError, ImportError, MemoryError, OSError):
        return False
