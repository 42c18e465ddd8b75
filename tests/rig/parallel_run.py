"""Run the tests in several processes: hooks of pytest that ``conftest.py`` takes over.

One process collects the tests, then forks. So modules are imported once, and the forks share their memory. Each fork
asks for the next group of tests when it begins the last one that it has. It is the same pytest without a reporter: its
reports go through a pipe to the first process, which shows them.
"""

import gc
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest

from rig.fork_server import GROUP, STARTED, kill_forked, start_servers
from rig.run_order import groups_of

GC_THRESHOLD = 50_000
"""How many new objects a collection of garbage waits for. The default would take some percent of the time."""

TEARDOWN_S = 3.0
"""How long an interrupted run may take to tear down what its tests have set up."""

MANY_GROUPS = 100
"""A run of more groups needs a fork server in each fork. They start together, which imports the program once."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option, with the name that it has in pytest-xdist."""
    group = parser.getgroup("terminal reporting")
    group._addoption(
        *("-n", "--processes"),
        type=int,
        default=0,
        help="fork so many processes; 0: run all tests in this one",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in forks. Return None to leave them to this process."""
    option = session.config.option
    groups = groups_of(session.items)
    count = min(option.processes, len(groups))
    if count < 1 or option.collectonly or option.usepdb or session.testsfailed:
        return None
    forks: list[Fork] = []
    servers, server = start_servers(count) if len(groups) > MANY_GROUPS else ([], None)
    for number in range(count):
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            for connection in (ours, *(fork.connection for fork in forks)):
                connection.close()
            _take_server(servers, number)
            if server:
                server.returncode = 0  # It is no child of this process.
            return _run_as_fork(session, groups, theirs)
        theirs.close()
        os.setpgid(pid, pid)  # Whichever of the two is first.
        forks.append(Fork(pid, ours))
    _take_server(servers, None)
    try:
        _show_reports(session, groups, {fork.connection: fork for fork in forks})
    except BaseException:
        _end(forks)
        if server:
            os.killpg(server.pid, signal.SIGKILL)
        raise
    finally:
        for fork in forks:
            os.waitpid(fork.pid, 0)
        if server:
            server.wait()
    return True


def _take_server(servers: Sequence[socket.socket], number: int | None) -> None:
    """Keep the fork server with this number, and close all others."""
    for place, server in enumerate(servers):
        if place == number:
            STARTED.append(server)
        else:
            server.close()


@dataclass
class Fork:
    """A process that runs tests, as the first process sees it."""

    pid: int
    connection: Connection
    running: str = "no test"

    def interrupt(self) -> None:
        """Tell it to end."""
        self.connection.close()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)


# The first process.


def _end(forks: Sequence[Fork]) -> None:
    """Let the forks tear down what is set up, for some seconds, and end them with all that they started."""
    for fork in forks:
        fork.interrupt()
    running = [os.pidfd_open(fork.pid) for fork in forks]
    until_s = time.monotonic() + TEARDOWN_S
    while running and (ended := wait(running, max(0, until_s - time.monotonic()))):
        for one in ended:
            os.close(one)
            running.remove(one)
    for fork in forks:
        # The process is not waited for yet, so this is still its group.
        os.killpg(fork.pid, signal.SIGKILL)


def _show_reports(
    session: pytest.Session, groups: Sequence[Sequence[pytest.Item]], forks: dict[Any, Fork]
) -> None:
    """Hand out the groups and show the reports, until all forks have ended."""
    session.config.pluginmanager.get_plugin("terminalreporter").showfspath = False
    numbers = iter(range(len(groups)))
    while forks:
        for connection in wait(forks):
            fork = forks[connection]
            try:
                kind, *values = fork.connection.recv()
            except EOFError:
                if fork.running:
                    session.shouldfail = f"the process that ran {fork.running} has died"
                del forks[connection]
                kind = ""
            if kind == "next":
                fork.connection.send(next(numbers, None))
            elif kind == "end":
                fork.running = ""
            elif kind:
                _show(session, fork, kind, *values)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)


def _show(session: pytest.Session, fork: Fork, kind: str, *values: Any) -> None:
    hook = session.config.hook
    if kind == "report":
        report = hook.pytest_report_from_serializable(config=session.config, data=values[0])
        hook.pytest_runtest_logreport(report=report)
    elif kind == "start":
        fork.running = values[0]
        hook.pytest_runtest_logstart(nodeid=values[0], location=values[1])
    else:
        hook.pytest_runtest_logfinish(nodeid=values[0], location=values[1])


# The forks.


class Sender:
    """The plugin of a fork that sends its reports."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._send("start", nodeid, location)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._send(
            "report", self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        )

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._send("finish", nodeid, location)

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        try:
            yield
        finally:
            if session.exitstatus == pytest.ExitCode.INTERRUPTED:
                os._exit(1)  # What the end of a gateway broke is of no interest.

    def _send(self, *message: Any) -> None:
        with suppress(BrokenPipeError):  # The run was interrupted.
            self._connection.send(message)


def _run_as_fork(
    session: pytest.Session, groups: Sequence[Sequence[pytest.Item]], connection: Connection
) -> bool:
    config = session.config
    config.workerinput = {}  # type: ignore[attr-defined]  # Plugins see by it that others report.
    config.pluginmanager.unregister(name="terminalreporter")
    os.setpgid(0, 0)  # Ctrl-C reaches only the first process, which then tells the forks.
    GROUP[0] = os.getpid()
    signal.signal(signal.SIGINT, _interrupt)
    # The forks must not share the file that holds what a test prints.
    capture = config.pluginmanager.get_plugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    config.pluginmanager.register(Sender(config, connection))
    gc.set_threshold(GC_THRESHOLD)
    for item, following in pairwise(chain(_asked_for(groups, connection), [None])):
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection.send(("end",))
    return True


def _interrupt(_number: int, _frame: object) -> None:
    """Let no fixture wait for a gateway that finishes its calls first."""
    kill_forked()
    raise KeyboardInterrupt


def _asked_for(groups: Sequence[Sequence[pytest.Item]], connection: Connection) -> Iterator[pytest.Item]:
    while True:
        connection.send(("next",))
        number = connection.recv()
        if number is None:
            return
        yield from groups[number]
