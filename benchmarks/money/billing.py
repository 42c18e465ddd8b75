"""A provider as a process of its own, and what it billed so far."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from benchmarks.money.provider import Bill
from benchmarks.processes import running

FLAT: Final = "benchmarks.money.provider"
"""Bills by two prices, and answers as long as it is asked to."""
AS_DOCUMENTED: Final = "benchmarks.money.vendor"
"""Bills as the pages of the vendors say."""


class Provider:
    """The running provider."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        self.port = int(process.stdout.readline())

    def bill(self) -> Bill:
        """Return what it billed so far."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Bill(**json.loads(self._process.stdout.readline()))


@contextlib.contextmanager
def provider(module: str = FLAT) -> Iterator[Provider]:
    """Yield a provider that has billed nothing yet."""
    with running([sys.executable, "-m", module], pipes=True) as process:
        yield Provider(process)
