"""Processes of ``tollgate`` that are forked from a process with its imports, which saves a second of CPU each.

``ForkServer`` is the side of the tests. The other side is this file as a program: it imports the modules of a gateway,
forks a child for each request, and reports the end of each child. A child runs the same as ``python -c CODE``, with its
own arguments, environment, folder and standard streams. It is no child of the tests, so they need the reports.
"""

import atexit
import gc
import json
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from rig.bounds import BOUND_S

PRELOADED = (
    *("addon.cli", "mitmproxy.tools.main", "mitmproxy.tools.dump"),
    *(
        "addon.serve.server",
        "addon.serve.supervisor",
        "addon.serve.worker",
        "addon.runtime.local_http",
        "addon.store.rates.redis.rates",
        "addon.store.money.sqlite.store",
    ),
    *("redis.asyncio", "genai_prices.data_snapshot", "sqlite_utils.migrations"),
    *("cryptography.fernet", "tornado.platform.asyncio"),
)
"""The command line, its late imports, and mitmdump. The modules of all commands are imported as well."""

PROGRAM = [__file__]
"""What the fork server runs: this file, or a module that does something first."""


class ForkedProcess:
    """A child of the fork server, with the part of ``subprocess.Popen`` that the tests use."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._changed = threading.Condition()

    def note_end(self, code: int) -> None:
        """Wake the threads that wait for the end."""
        with self._changed:
            self.returncode = code
            self._changed.notify_all()

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self.returncode

    def wait(self, timeout: float = BOUND_S) -> int:
        """Wait for the end. Return the exit code, which is negative for a signal."""
        with self._changed:
            self._changed.wait_for(lambda: self.returncode is not None, timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("tollgate", timeout)
        return self.returncode

    def send_signal(self, signum: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


GROUP = [0]
"""The process group of the fork servers that these tests start; 0: a new one."""


def start_servers(count: int) -> tuple[list[socket.socket], subprocess.Popen[bytes]]:
    """Start so many fork servers, which import once. Return the socket of each, and the process that is their parent.

    A server ends when its socket is closed, the parent after all of them.
    """
    pairs = [socket.socketpair() for _ in range(count)]
    descriptors = [theirs.fileno() for _, theirs in pairs]
    process = subprocess.Popen(
        [sys.executable, *PROGRAM, ",".join(map(str, descriptors))],
        pass_fds=descriptors,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, Path(__file__).parents[1:3]))},
        stdin=subprocess.DEVNULL,
        # Ctrl-C must reach only the tests, which then end the processes that they started.
        process_group=GROUP[0],
    )
    for _, theirs in pairs:
        theirs.close()
    return [ours for ours, _ in pairs], process


class ForkServer:
    """The process that forks, and the state of its children. Each process of the tests has one.

    It is one of ``start_servers``, or one of its own.
    """

    def __init__(self, started: socket.socket | None = None) -> None:
        self._process = None
        if started is None:
            (started,), self._process = start_servers(1)
        self._socket = started
        self._one_at_a_time = threading.Lock()
        self._started: queue.Queue[ForkedProcess] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, name="fork server", daemon=True)
        self._listener.start()
        atexit.register(self._close)

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        streams: Sequence[IO[Any]],
    ) -> ForkedProcess:
        """Run ``python -c CODE ...`` with these three standard streams. The caller may close them afterwards."""
        request = json.dumps([*command[2:3], list(command[3:]), dict(environment), str(folder)])
        # The order is in a file, because an environment can be larger than one message of a socket.
        with tempfile.TemporaryFile("w+") as file, self._one_at_a_time:
            file.write(request)
            file.flush()
            socket.send_fds(self._socket, [b"\n"], [file.fileno(), *(stream.fileno() for stream in streams)])
            return self._started.get(timeout=BOUND_S)

    def _listen(self) -> None:
        running: dict[int, ForkedProcess] = {}
        with self._socket.makefile() as reports:
            for line in reports:
                pid, code = json.loads(line)
                if code is None:
                    running[pid] = ForkedProcess(pid)
                    self._started.put(running[pid])
                else:
                    running.pop(pid).note_end(code)
        for process in running.values():  # The fork server has killed them, and has ended.
            process.note_end(-signal.SIGKILL)

    def kill_children(self) -> None:
        """End all children at once, and the fork server."""
        self._socket.shutdown(socket.SHUT_WR)

    def _close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._listener.join(BOUND_S)
        self._socket.close()
        if self._process:
            self._process.wait(BOUND_S)


STARTED: list[socket.socket] = []
"""The socket of the fork server that was started for this process of the tests; empty without one."""


@cache
def fork_server() -> ForkServer:
    """Return the fork server of these tests. Start one at the first call, if none was started for them."""
    return ForkServer(*STARTED)


def kill_forked() -> None:
    """End all processes that these tests have started in a fork server."""
    if fork_server.cache_info().currsize:
        fork_server().kill_children()


def is_forkable(command: Sequence[str]) -> bool:
    """Return whether a fork can run the program instead of a new interpreter."""
    return command[1] == "-c"


def run_forked(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run ``python -c CODE ...`` to its end, like ``subprocess.run``."""
    with ExitStack() as opened:
        files = [opened.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3)]
        files[0].write(stdin)
        files[0].seek(0)
        process = fork_server().start(command, environment, folder, files)
        try:
            code = process.wait()
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        for file in files:
            file.seek(0)
        return subprocess.CompletedProcess(command, code, files[1].read(), files[2].read())


# The other side.


def _multiply(descriptors: Sequence[int]) -> socket.socket:
    """Fork a server for each descriptor. Return only in these, with the socket of each. The parent ends after them."""
    for mine in descriptors:
        if os.fork() == 0:
            for other in descriptors:
                if other != mine:
                    os.close(other)
            return socket.socket(fileno=mine)
    for one in descriptors:
        os.close(one)
    for _ in descriptors:
        os.wait()
    os._exit(0)


def _serve_forks(tests: socket.socket) -> str:
    """Fork for each request. Return only in the children, with the code to run."""
    awake, waker = socket.socketpair()
    awake.setblocking(False)
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: set[int] = set()
    while True:
        ready, _, _ = select.select([tests, awake], [], [])
        if awake in ready:
            awake.recv(65536)
            _report_ended(tests, running)
        if tests in ready and (code := _fork(tests, running, [awake, waker])) is not None:
            return code


def _report_ended(tests: socket.socket, running: set[int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        running.remove(pid)
        _report(tests, pid, os.waitstatus_to_exitcode(status))


def _report(tests: socket.socket, pid: int, code: int | None) -> None:
    with suppress(BrokenPipeError):  # The tests have ended, which is seen next.
        tests.sendall(json.dumps([pid, code]).encode() + b"\n")


def _fork(tests: socket.socket, running: set[int], others: Sequence[socket.socket]) -> str | None:
    """Return the code to run, or None in the fork server. At the end of the tests, end all children and exit."""
    mark, given = b"", []
    with suppress(ConnectionResetError):  # They have ended before they read all reports.
        mark, given, *_ = socket.recv_fds(tests, 1, 4)
    if not mark:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
        os._exit(0)
    pid = os.fork()
    if pid:
        for descriptor in given:
            os.close(descriptor)
        running.add(pid)
        _report(tests, pid, None)
        return None
    signal.set_wakeup_fd(-1)
    for one in (tests, *others):
        one.close()
    return _become(*given)


def _become(request: int, *streams: int) -> str:
    """Set up this process as the request says. Return the code to run."""
    for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(request) as file:
        file.seek(0)
        code, arguments, environment, folder = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    return code


if __name__ == "__main__":
    sys.path[0] = ""  # The same as with `python -c`.
    for module in PRELOADED:
        import_module(module)
    for command in import_module("addon.cli").COMMANDS.values():
        import_module(f"addon.commands.{command.module}")
    import_module("rig.new_ledgers").copy_new_ledgers()
    import_module("rig.shipped_catalog").read_shipped_catalog()
    assert threading.active_count() == 1, "a process with threads can't be copied"
    gc.freeze()
    exec(_serve_forks(_multiply([int(one) for one in sys.argv[1].split(",")])), {"__name__": "__main__"})
