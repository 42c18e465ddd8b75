"""A gateway in the background: the process that was started ends when the gateway serves, or can't start.

A service manager's reload command must end. With a process of its own, the new gateway goes on.
"""

import os
import signal
import sys

from addon.serve.signals import find_signals
from addon.serve.standard_files import close_output, print_line


def detach() -> None:
    """Return in a new process, with a session of its own, whose standard output is read until its first line.

    The calling process writes this line and ends with status 0. If the new process ends before, the calling one ends
    with the same status. It passes SIGTERM, SIGINT and SIGHUP on. Call this before there is a thread.
    """
    reading, writing = os.pipe()
    if child := os.fork():
        os.close(writing)
        sys.exit(_wait_for_line(child, reading))
    os.close(reading)
    os.setsid()
    os.dup2(writing, sys.stdout.fileno())
    os.close(writing)


def _wait_for_line(child: int, pipe: int) -> int:
    """Return the exit status of the calling process."""
    for signum in find_signals():
        signal.signal(signum, lambda got, _: os.kill(child, got))
    with open(pipe, encoding="utf-8") as lines:
        line = lines.readline()
    if line:
        print_line(line.removesuffix("\n"))
        return 0
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) or 1


def announce_detached(line: str) -> None:
    """Write the one line of standard output, for a calling process that may be gone. Write nothing there later."""
    print_line(line)
    close_output()
