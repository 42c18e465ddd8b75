"""The standard files of a gateway. Each may be closed, or fail when it is written: a gateway serves all the same."""

import logging
import os
import sys

log = logging.getLogger("tollgate.serve")


def open_standard_files() -> None:
    """Open the null device in the place of each closed standard file.

    Otherwise a socket or the ledger would get its number, and the interpreter may write there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The system gives the lowest number that is free.
            os.open(os.devnull, os.O_RDWR)
    # Python has no stream for a file that was closed at its start.
    sys.stdin = sys.stdin or os.fdopen(0, "r", encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def print_line(line: str) -> None:
    """Print a line. Log it if standard output can't be written, such as a pipe without a reader or a full disk.

    The gateway serves already then, perhaps in the place of another one.
    """
    try:
        print(line, flush=True)
    except OSError as error:
        log.warning("%s (standard output: %s)", line, error.strerror)
        close_output()


def close_output() -> None:
    """Send to the null device all that is written to standard output from here on."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def print_notice(text: str) -> None:
    """Print a text to standard error. There is no other place if that fails."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        return
