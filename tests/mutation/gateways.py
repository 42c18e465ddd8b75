"""Gateways of tests are other processes: they get the fault, too, and say which lines they run.

All are forked from the fork server of their tests. ``python -m mutation.gateways`` is that server with something added.
"""

import mmap
import os
import resource
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import CodeType
from typing import Any

from rig import fork_server

from mutation.faults import Fault
from mutation.lines import LineRecorder
from mutation.planting import PRODUCT, import_faulty

_THIS = "mutation.gateways"
CPU_S = 120
"""How much processor time one gateway with a fault may take."""


def plant_in_gateways(fault: Fault) -> None:
    """Let all gateways that this process starts from now on have the fault."""
    fork_server.PROGRAM[:] = ["-m", _THIS, "fault", fault.path, str(fault.number)]


class GatewayLines:
    """The lines that gateways have run. They write each line once, until ``take`` begins anew."""

    def __init__(self, file: str) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_APPEND)
        os.posix_fallocate(self._file, 0, 1)
        self._round = mmap.mmap(self._file, 1)
        self._read_to = 1

    @classmethod
    @contextmanager
    def recording(cls) -> Iterator["GatewayLines"]:
        """Let all gateways that this process starts write their lines."""
        with NamedTemporaryFile() as file:
            fork_server.PROGRAM[:] = ["-m", _THIS, "lines", file.name]
            lines = cls(file.name)
            try:
                yield lines
            finally:
                lines.close()

    def take(self) -> set[tuple[str, int]]:
        """Return the lines since the last call."""
        end = os.fstat(self._file).st_size
        written = os.pread(self._file, end - self._read_to, self._read_to).decode().splitlines()
        self._read_to = end
        self._round[0] = (self._round[0] + 1) % 256
        return {(path, int(line)) for line, _, path in (entry.partition(" ") for entry in written)}

    def close(self) -> None:
        """Close the file. The gateways' own descriptors end with them."""
        self._round.close()
        os.close(self._file)

    def round(self) -> int:
        """Return a number that changes whenever all lines are to be written again."""
        return self._round[0]

    def write(self, path: str, line: int) -> None:
        """Write a line, whole: several gateways write at a time."""
        os.write(self._file, f"{line} {path}\n".encode())


class GatewayRecorder(LineRecorder):
    """Write the lines of this process and of all that are forked from it."""

    def __init__(self, file: str) -> None:
        super().__init__(PRODUCT)
        self._written = GatewayLines(file)
        self._round = 0

    def _line(self, code: CodeType, line: int) -> Any:
        # The event stays on: what turns it on again would have to be done in each gateway.
        if self._round != self._written.round():
            self._round = self._written.round()
            self._lines.clear()
        place = code.co_filename, line
        if place not in self._lines:
            self._lines.add(place)
            self._written.write(*place)


def _serve(what: str, *arguments: str) -> None:
    sys.argv = sys.argv[-1:] * 2
    server = str(Path(fork_server.__file__))
    if what == "fault":
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, resource.RLIM_INFINITY))
        import_faulty(Fault(arguments[0], int(arguments[1]), 0))
        runpy.run_path(server, run_name="__main__")
    else:
        with GatewayRecorder(arguments[0]).running():
            runpy.run_path(server, run_name="__main__")


if __name__ == "__main__":
    _serve(*sys.argv[1:-1])
