"""The reader of the log stops, goes away, or has no room: nothing waits for it."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT

from addon.telemetry.log_queue import LogQueue

FULL_BYTES = 4096
"""The smallest pipe. Source: fcntl(2), F_SETPIPE_SZ."""

MAX_WAITING = 64 * 1024
LINE = b"%06d" + b"x" * 93 + b"\n"
LINE_BYTES = len(LINE % 0)


class Pipe:
    """A pipe of one page with a reader that reads only when the test says so."""

    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        fcntl.fcntl(self.writing, fcntl.F_SETPIPE_SZ, FULL_BYTES)
        self._lines = open(reading, "rb")  # noqa: SIM115  (``close`` closes it)

    def read(self) -> bytes:
        """Wait for a line."""
        return self._lines.readline()

    def close(self) -> None:
        self._lines.close()
        os.close(self.writing)


@contextmanager
def queue_to(file: int) -> Iterator[LogQueue]:
    queue = LogQueue(file, lambda count: b"%d dropped\n" % count, MAX_WAITING)
    try:
        yield queue
    finally:
        queue.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    found = Pipe()
    yield found
    found.close()


@pytest.fixture
def queue(pipe: Pipe) -> Iterator[LogQueue]:
    with queue_to(pipe.writing) as made:
        yield made


def number(line: bytes) -> int:
    return int(line[:6])


def test_lines_for_a_reader_that_stopped_are_dropped_and_counted_and_said_once(
    pipe: Pipe, queue: LogQueue
) -> None:
    put = 10 * MAX_WAITING // LINE_BYTES
    for nth in range(put):
        queue.put(LINE % nth)
    dropped = queue.dropped
    written = put - dropped
    # What waits is bounded, and the pipe has one page more.
    assert MAX_WAITING - LINE_BYTES < written * LINE_BYTES <= MAX_WAITING + FULL_BYTES + LINE_BYTES
    assert [number(pipe.read()) for _ in range(written)] == list(range(written))
    assert pipe.read() == b"%d dropped\n" % dropped
    queue.put(LINE % put)
    assert (number(pipe.read()), queue.dropped) == (put, dropped)


def test_a_gap_is_in_one_place(pipe: Pipe, queue: LogQueue) -> None:
    nth = 0
    while not queue.dropped:
        queue.put(LINE % nth)
        nth += 1
    # There is room again, but not all lines before the gap are written.
    first = [number(pipe.read()) for _ in range(MAX_WAITING // LINE_BYTES // 2)]
    queue.put(LINE % nth)
    rest = [number(pipe.read()) for _ in range(nth - 1 - len(first))]
    assert ([*first, *rest], pipe.read()) == (list(range(nth - 1)), b"2 dropped\n")


def test_a_later_gap_is_said_too(pipe: Pipe, queue: LogQueue) -> None:
    for _ in range(2):
        before = queue.dropped
        while queue.dropped - before < 5:
            queue.put(LINE % 1)
        while not (line := pipe.read()).endswith(b"dropped\n"):
            assert number(line) == 1
        assert line == b"5 dropped\n"


@pytest.mark.parametrize("fault", ["full disk", "pipe without a reader"])
def test_lines_that_the_system_does_not_take_are_dropped_and_said_once(pipe: Pipe, fault: str) -> None:
    if fault == "full disk":
        file = os.open("/dev/full", os.O_WRONLY)
    else:
        reading, file = os.pipe()
        os.close(reading)
    with queue_to(file) as queue:
        for _ in range(3):
            queue.put(b"lost\nlost as well\n")
        queue.close()
        assert queue.dropped == 6
    with queue_to(file) as queue:
        queue.put(b"lost\n")
        # The file can be written again.
        while not queue.dropped:
            os.sched_yield()
        os.dup2(pipe.writing, file)
        queue.put(b"written\n")
        assert [pipe.read(), pipe.read()] == [b"1 dropped\n", b"written\n"]
    os.close(file)


LIMITED = """
import os, resource, sys
from addon.telemetry.log_queue import LogQueue

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

queue = LogQueue(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND), lambda count: b"%d dropped\\n" % count)
limit(10)
queue.put(b"whole\\ncut in two\\nlost\\n")
while not queue.dropped:
    os.sched_yield()
limit(resource.RLIM_INFINITY)
queue.put(b"later\\n")
queue.close()
print(queue.dropped)
"""


def run(code: str, *arguments: str, stderr: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        check=True,
        timeout=BOUND_S,
    )


def test_a_line_that_was_cut_gets_its_line_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert run(LIMITED, str(log)).stdout == "2\n"
    assert log.read_text(encoding="utf-8") == "whole\ncut \n2 dropped\nlater\n"


STOPPED = """
import asyncio, logging
from addon.telemetry.logs import configure_logging, count_dropped_lines

async def serve():
    for _ in range(1_500):
        logging.getLogger("tollgate").info("x" * 3_900)
        await asyncio.sleep(0)

configure_logging()
asyncio.run(serve())
print(count_dropped_lines() > 300)
"""


def test_a_process_whose_log_no_one_reads_works_and_ends(pipe: Pipe) -> None:
    assert run(STOPPED, stderr=pipe.writing).stdout == "True\n"


FORKED = """
import os, sys
from addon.telemetry.log_queue import LogQueue

reading, writing = os.pipe()
queue = LogQueue(writing, lambda count: b"")
# More than the pipe takes: the thread is in the middle of a write.
queue.put(b"x" * 200_000 + b"\\n")
queue.put(b"of the parent\\n")
assert os.read(reading, 1) == b"x"
if not (child := os.fork()):
    os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), writing)
    queue.put(b"of the child\\n")
    queue.close()
    os._exit(0)
os.waitpid(child, 0)
with open(reading, "rb") as lines:
    print(len(lines.readline()), lines.readline(), open(sys.argv[1], "rb").read())
"""


def test_a_fork_has_a_thread_of_its_own_and_no_lines_of_its_parent(tmp_path: Path) -> None:
    said = run(FORKED, str(tmp_path / "log")).stdout
    assert said == "200000 b'of the parent\\n' b'of the child\\n'\n"
