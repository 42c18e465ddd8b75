"""A load generator and an upstream in C, which use little processor time. Without `cc`, those in Python."""

import contextlib
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from benchmarks.load_generator import Answers, is_right, is_whole
from benchmarks.processes import Sample, load_generator, running, upstream
from benchmarks.procfs import cpu_s
from benchmarks.traffic import Scenario, Target, request_to, whole_answer

SOURCE: Final = Path(__file__).with_name("light.c")
FLAGS: Final = ("-std=c11", "-D_DEFAULT_SOURCE", "-O2")
_PROBE_LIMIT_S: Final = 30.0
_JOB_LIMIT_S: Final = 120.0


class Load(Protocol):
    """A load generator."""

    def run(self, target: Target, scenario: Scenario) -> Sample:
        """Run one job to its end."""


@dataclass(frozen=True, slots=True)
class Tools:
    """A load generator, the upstream, and their name in the output."""

    name: str
    load: Load
    alone: Target


@contextlib.contextmanager
def tools(folder: Path) -> Iterator[Tools]:
    """Yield the lightest load generator and upstream for whole answers that this machine can have."""
    if (program := _compile(folder)) is None:
        with load_generator() as load, upstream() as alone:
            yield Tools("Python, because there is no C compiler `cc`", load, alone)
        return
    answer = folder / "answer.http"
    answer.write_bytes(whole_answer())
    with running([str(program), "serve", str(answer)], pipes=True) as process:
        assert process.stdout is not None
        alone = Target("upstream alone", process.pid, int(process.stdout.readline()))
        yield Tools("C", _CompiledLoad(program, folder), alone)


def _compile(folder: Path) -> Path | None:
    """Return the compiled program, or None without a compiler."""
    compiler, program = shutil.which("cc"), folder / "light"
    if compiler is None:
        return None
    done = subprocess.run(
        [compiler, *FLAGS, "-o", str(program), str(SOURCE)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"cc could not compile {SOURCE.name}:\n{done.stderr}")
    return program


class _CompiledLoad:
    """The load generator of ``light.c``, one process for each job. It checks the length of each answer."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._lengths: dict[str, int] = {}

    def run(self, target: Target, scenario: Scenario) -> Sample:
        """Run one job of whole answers to its end."""
        request = self._folder / "request.http"
        request.write_bytes(request_to(target, scenario.kind))
        if target.name not in self._lengths:
            self._lengths[target.name] = probed_length(target, scenario)
        arguments = (target.port, scenario.connections, scenario.calls, request, self._lengths[target.name])
        before_s = cpu_s(target.pid)
        done = subprocess.run(
            [str(self._program), "load", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=True,
            timeout=_JOB_LIMIT_S,
        )
        return Sample(answers_of(done.stdout), cpu_s(target.pid) - before_s)


def probed_length(target: Target, scenario: Scenario) -> int:
    """Return the length of the target's answer to one call. Raise ``RuntimeError`` when the answer is not right."""
    answer = bytearray()
    with socket.create_connection(("127.0.0.1", target.port), timeout=_PROBE_LIMIT_S) as connection:
        connection.sendall(request_to(target, scenario.kind))
        while not is_whole(answer):
            if not (received := connection.recv(65536)):
                break
            answer += received
    if not is_right(scenario.kind, bytes(answer)):
        raise RuntimeError(
            f"{target.name} gave a wrong answer: {json.dumps(answer.decode(errors='replace'))}"
        )
    return len(answer.partition(b"\r\n\r\n")[2])


def answers_of(output: str) -> Answers:
    """Return the measurements that ``light.c`` printed."""
    first, *latencies = output.splitlines()
    elapsed_s, errors = first.split()
    return Answers(float(elapsed_s), int(errors), [float(line) for line in latencies])
