"""Counts Python functions: the exact measure of what a step of a call costs, on a machine that is never quiet."""

import sys
from collections.abc import Callable
from types import FrameType


def count_calls(work: Callable[[], object]) -> int:
    """Return how many Python functions run within ``work``. Functions in C don't count."""
    names: list[str] = []

    def note(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call":
            names.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return len(names) - 1  # without ``work`` itself
