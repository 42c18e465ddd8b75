"""The processes of a benchmark: each target and the load generator in its own process, ended with its block."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.load_generator import Answers
from benchmarks.procfs import cpu_s
from benchmarks.traffic import Scenario, Target

START_LIMIT_S = 30.0
STOP_LIMIT_S = 20.0
OWN_REDIS = Path(__file__).resolve().parents[1] / ".redis" / "server" / "redis-server"
"""The server that the tests unpack when there is none on the path."""
MITMDUMP = "from mitmproxy.tools.main import mitmdump; mitmdump()"


@dataclass(frozen=True, slots=True)
class Sample:
    """One job: the measurements of the load generator, and the processor time of the target."""

    answers: Answers
    cpu_s: float


class LoadGenerator:
    """The process that makes the calls."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, target: Target, scenario: Scenario) -> Sample:
        """Run one job to its end. Raise ``RuntimeError`` when the process is gone."""
        before_s = cpu_s(target.pid)
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"target": asdict(target), "scenario": asdict(scenario)}) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise RuntimeError("the load generator ended")
        return Sample(Answers(**json.loads(line)), cpu_s(target.pid) - before_s)


@contextlib.contextmanager
def load_generator() -> Iterator[LoadGenerator]:
    """Yield a load generator that runs until the block ends."""
    with running([sys.executable, "-m", "benchmarks.load_generator"], pipes=True) as process:
        yield LoadGenerator(process)


@contextlib.contextmanager
def upstream(certificate: Path | None = None) -> Iterator[Target]:
    """Yield the canned provider, listening. With ``certificate``, a PEM file with its key, it uses TLS."""
    command = [sys.executable, "-m", "benchmarks.upstream", *([str(certificate)] if certificate else [])]
    with running(command, pipes=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Target("upstream alone", process.pid, port, tls=bool(certificate))


@contextlib.contextmanager
def stock_mitmdump(upstream_port: int, folder: Path, *, streaming: bool = False) -> Iterator[Target]:
    """Yield stock mitmdump, in reverse mode in front of the upstream.

    It buffers a streamed answer until its end. With ``streaming`` it passes each piece on, as a gateway must.
    """
    port = free_port()
    command = [sys.executable, "-c", MITMDUMP, "-q", "--mode", f"reverse:http://127.0.0.1:{upstream_port}"]
    command += ["--listen-host", "127.0.0.1", "--listen-port", str(port)]
    command += ["--set", "connection_strategy=lazy", "--set", f"confdir={folder / 'mitmproxy'}"]
    if streaming:
        command += ["--set", "stream_large_bodies=1"]
    with running(command, log=folder / f"mitmdump-{port}.log") as process:
        await_port(process, port)
        yield Target("stock, streaming" if streaming else "stock mitmdump", process.pid, port)


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A running Redis that saves nothing."""

    pid: int
    port: int

    def url(self, database: int = 0) -> str:
        """Return the URL of one of its 16 databases."""
        return f"redis://127.0.0.1:{self.port}/{database}"


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    """Yield a new Redis with its files in ``folder``. Raise ``OSError`` if Redis is not installed."""
    port = free_port()
    program = str(OWN_REDIS) if OWN_REDIS.exists() else "redis-server"
    folder.mkdir()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    with running([*command, "--save", "", "--appendonly", "no"], log=folder / "redis.log") as process:
        await_port(process, port)
        yield RedisServer(process.pid, port)


@contextlib.contextmanager
def running(
    command: list[str],
    *,
    pipes: bool = False,
    log: Path | None = None,
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run ``command`` until the block ends. Its output goes to pipes or to the file ``log``.

    The process gets our environment and ``environment``. With a ``home``, the folder in which it runs, it gets nothing
    of the user's: no credentials, no proxies, no settings.
    """
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("w")) if log else subprocess.PIPE
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if log else None,
            text=True,
            env={**(_bare_environment(home) if home else os.environ), **(environment or {})},
            cwd=home,
        )
        try:
            yield process
        finally:
            _end(process)


def _bare_environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "NO_PROXY": "*"}


def _end(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.terminate()
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_port(process: subprocess.Popen[str], port: int, limit_s: float = START_LIMIT_S) -> None:
    """Wait until ``port`` accepts. Raise ``RuntimeError`` when the process ends or the time is over."""
    for _ in while_starting(process, limit_s):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
    how = f"ended with {process.returncode}" if process.poll() is not None else f"{limit_s:.0f} s are over"
    raise RuntimeError(f"nothing listens on port {port}: {how}")


def while_starting(process: subprocess.Popen[str], limit_s: float = START_LIMIT_S) -> Iterator[None]:
    """Yield repeatedly until ``process`` ends or its time to start is over."""
    deadline = time.monotonic() + limit_s
    while process.poll() is None and time.monotonic() < deadline:
        yield
        time.sleep(0.05)
