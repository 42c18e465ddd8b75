"""Run the tests in several processes: hooks of pytest that ``conftest.py`` takes over.

One process collects the tests, then forks. So modules are imported once, and the forks share their memory. Each fork
asks for the next group of tests when it begins the last one that it has. It is the same pytest without a reporter: its
reports go through a pipe to the first process, which shows them.
"""

import gc
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest

from rig.fork_server import STARTED, start_servers
from rig.run_order import groups_of

GC_THRESHOLD = 50_000
"""How many new objects a collection of garbage waits for. The default would take some percent of the time."""

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
        forks.append(Fork(pid, ours))
    _take_server(servers, None)
    try:
        _show_reports(session, groups, {fork.connection: fork for fork in forks})
    except BaseException:
        for fork in forks:
            fork.interrupt()
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
        """Let it tear down what is set up, and end."""
        self.connection.close()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)


# The first process.


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
        self._connection.send(("start", nodeid, location))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._connection.send(("finish", nodeid, location))


def _run_as_fork(
    session: pytest.Session, groups: Sequence[Sequence[pytest.Item]], connection: Connection
) -> bool:
    config = session.config
    config.workerinput = {}  # type: ignore[attr-defined]  # Plugins see by it that others report.
    config.pluginmanager.unregister(name="terminalreporter")
    os.setpgid(0, 0)  # Ctrl-C reaches only the first process, which then tells the forks.
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


def _asked_for(groups: Sequence[Sequence[pytest.Item]], connection: Connection) -> Iterator[pytest.Item]:
    while True:
        connection.send(("next",))
        number = connection.recv()
        if number is None:
            return
        yield from groups[number]
