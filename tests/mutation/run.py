"""Run the tests that cover each fault, in forks of one process that has collected them, and say what no test caught."""

import itertools
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from mutation.faults import Fault
from mutation.gateways import GatewayLines, plant_in_gateways
from mutation.idleness import Idleness
from mutation.lines import LineRecorder
from mutation.planting import PRODUCT, ROOT, plant_in_functions

COVERING_TEST_S = 20.0
"""How long the tests of one fault may take together, as measured without a fault."""
GATEWAY_TEST_S = 40.0
"""The same for those with a gateway, which run after the others."""
BOUND_S = 900.0
"""How long one fault may take on a busy machine. A fault that takes longer is caught: it makes something endless."""

KEPT_FILES = 8
"""How many files of what tests cover are kept: each has some megabytes."""
NO_FAULT = Fault("", 0, 0)

Outcome = Literal["caught", "survived", "uncovered"]
_CAUGHT, _SURVIVED = 1, 0


type TestsOfLines = dict[tuple[str, int], list[str]]


@dataclass
class Coverage:
    """Which tests run which line, and how long each takes. Only tests that pass without a fault are here."""

    tests_of: TestsOfLines = field(default_factory=dict)
    gateway_tests_of: TestsOfLines = field(default_factory=dict)
    """Tests whose gateways, which are other processes, run the line."""
    duration_s: dict[str, float] = field(default_factory=dict)

    def covering(self, fault: Fault) -> list[str]:
        """Return the ids of the tests that run the line: first those that do it in this process."""
        own = f"test_{Path(fault.path).stem}"
        here = _tests_of(fault, self.tests_of)
        here_sorted = sorted(here, key=lambda test: (own not in test, self.duration_s[test]))
        # What a gateway runs when it starts counts for the test that started it: take all tests of a file. Those of a
        # file stay together, because they share a gateway.
        exact = _tests_of(fault, self.gateway_tests_of) - here
        files = {_file(test) for test in exact}
        there = [test for test in self.duration_s if _file(test) in files and test not in here]
        there.sort(key=lambda test: (own not in test, _file(test), test not in exact))
        return self._first(here_sorted, COVERING_TEST_S) + self._first(there, GATEWAY_TEST_S)

    def _first(self, tests: list[str], bound_s: float) -> list[str]:
        total_s = itertools.accumulate(self.duration_s[test] for test in tests)
        return [test for test, until_s in zip(tests, total_s, strict=True) if until_s <= bound_s]


def _tests_of(fault: Fault, tests_of: TestsOfLines) -> set[str]:
    """Return the tests that run the line, or the nearest line before it in a statement of several lines."""
    path = str(ROOT / fault.path)
    if not fault.function_line:
        return {test for (file, _), tests in tests_of.items() if file == path for test in tests}
    lines = ((path, line) for line in range(fault.line, fault.function_line, -1))
    return set(next((tests_of[line] for line in lines if line in tests_of), ()))


def _file(test: str) -> str:
    return test.partition("::")[0]


@dataclass
class MutationRun:
    """A plugin of pytest that runs ``faults`` in place of the collected tests, ``processes`` at a time."""

    faults: list[Fault]
    processes: int
    coverage_file: Path
    outcomes: dict[Fault, Outcome] = field(default_factory=dict)
    _running: dict[int, tuple[Fault, float, Idleness]] = field(default_factory=dict)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Find what each test covers, then run each fault in a fork. Forks end with this process."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            self._run_faults(session)
        finally:
            for pid in self._running:
                _end_group(pid)
        return True

    def _run_faults(self, session: pytest.Session) -> None:
        items = {item.nodeid: item for item in session.items}
        coverage = self._coverage(session)
        for fault in self.faults:
            tests = coverage.covering(fault)
            if not tests:
                self._note(fault, "uncovered")
                continue
            while len(self._running) >= self.processes:
                self._await_one()
            bounds_s = {items[test]: 10 + 5 * coverage.duration_s[test] for test in tests}
            pid = _fork(_test_fault, session, fault, bounds_s)
            self._running[pid] = fault, time.monotonic() + BOUND_S, Idleness(pid)
        while self._running:
            self._await_one()

    def _coverage(self, session: pytest.Session) -> Coverage:
        if not self.coverage_file.exists():
            print("finding what the tests cover", flush=True)
            pid = _fork(_record, session, self.coverage_file)
            self._running[pid] = NO_FAULT, 0.0, Idleness(pid)
            status = os.waitpid(pid, 0)[1]
            del self._running[pid]
            if status:
                raise RuntimeError("the tests could not be run to find what they cover")
        coverage: Coverage = pickle.loads(self.coverage_file.read_bytes())
        return coverage

    def _await_one(self) -> None:
        while True:
            for pid, (fault, ends_at, idleness) in self._running.items():
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended or time.monotonic() > ends_at or idleness.is_over():
                    _end_group(pid)
                    del self._running[pid]
                    self._note(fault, "survived" if ended and status == 0 else "caught")
                    return
            time.sleep(0.02)

    def _note(self, fault: Fault, outcome: Outcome) -> None:
        self.outcomes[fault] = outcome
        print(f"{len(self.outcomes)}/{len(self.faults)} {outcome}: {fault}", flush=True)


def _end_group(pid: int) -> None:
    """End what the fork of a fault has started and left behind."""
    try:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError, PermissionError):
        pass


def _fork[**P](run: Callable[P, int], *args: P.args, **kwargs: P.kwargs) -> int:
    """Call ``run`` in a fork that is the first of its process group and prints nothing. Return its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 2
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        code = run(*args, **kwargs)
    finally:
        os._exit(code)


def _test_fault(session: pytest.Session, fault: Fault, bounds_s: dict[pytest.Item, float]) -> int:
    """Run tests with the fault. Each may take as much processor time as ``bounds_s`` says."""
    if not plant_in_functions(fault):
        _limit_cpu(sum(bounds_s.values()))
        return _test_in_new_process(fault, [item.nodeid for item in bounds_s])
    plant_in_gateways(fault)
    tests = list(bounds_s)
    _limit_cpu(bounds_s[tests[0]])
    for _, following in zip(_running(session, tests), [*tests[1:], tests[-1]], strict=True):
        if session.testsfailed:
            return _CAUGHT
        _limit_cpu(bounds_s[following])
    return _SURVIVED


def _limit_cpu(more_s: float) -> None:
    """End this process when it has used so much more processor time. Its gateways have a limit of their own."""
    used_s = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(used_s + more_s), resource.RLIM_INFINITY))


def _test_in_new_process(fault: Fault, tests: Iterable[str]) -> int:
    command = [sys.executable, "-m", "mutation.planted", fault.path, str(fault.number)]
    done = subprocess.run(command, input="\n".join(tests), text=True, cwd=ROOT, check=False)
    return _CAUGHT if done.returncode else _SURVIVED


def _running(session: pytest.Session, items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Run each of the tests, and yield it when it has run."""
    for item, following in itertools.zip_longest(items, items[1:]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        yield item


def _record(session: pytest.Session, file: Path) -> int:
    recorder = LineRecorder(PRODUCT)
    coverage = Coverage()
    with recorder.running(), GatewayLines.recording() as gateways:
        failed, began = 0, time.perf_counter()
        for item in _running(session, session.items):
            here, there, now = recorder.take(), gateways.take(), time.perf_counter()
            if session.testsfailed == failed:
                coverage.duration_s[item.nodeid] = now - began
                _add(coverage.tests_of, item.nodeid, here)
                _add(coverage.gateway_tests_of, item.nodeid, there)
            failed, began = session.testsfailed, now
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(pickle.dumps(coverage))
    for old in sorted(file.parent.iterdir(), key=lambda found: found.stat().st_mtime)[:-KEPT_FILES]:
        old.unlink()
    return 0


def _add(tests_of: TestsOfLines, test: str, lines: set[tuple[str, int]]) -> None:
    for line in lines:
        tests_of.setdefault(line, []).append(test)
