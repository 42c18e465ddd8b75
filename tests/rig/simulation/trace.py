"""The events of a run in order: a hash to compare, and lines to find the first difference."""

import hashlib
from itertools import zip_longest

MAX_LINES = 200_000


class Trace:
    """The events of one run. The hash covers all of them, ``lines`` the first ``MAX_LINES``."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.lines: list[str] = []

    def add(self, now_s: float, what: str, *values: object) -> None:
        """Add an event. The ``repr`` of the values must be the same in each run: plain values, no addresses."""
        line = f"{now_s:.9f} {what} {' '.join(map(repr, values))}"
        self._hash.update(line.encode())
        if len(self.lines) < MAX_LINES:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        """The hash of all events so far."""
        return self._hash.hexdigest()


def first_difference(one: Trace, other: Trace) -> str:
    """Return the first event where two runs differ, or "" if they are the same."""
    for number, (left, right) in enumerate(
        zip_longest(one.lines, other.lines, fillvalue="(the run is over)")
    ):
        if left != right:
            return f"event {number}:\n  {left}\n  {right}"
    return "" if one.digest == other.digest else f"after {MAX_LINES} events"
