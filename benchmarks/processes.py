"""Starts what is measured, each in a process of its own, and ends exactly these."""

import contextlib
import hashlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.load import Answers
from benchmarks.procfs import cpu_s
from benchmarks.traffic import SLUG, UPSTREAM_MODEL_ID, Scenario, Target

START_LIMIT_S = 30.0
STOP_LIMIT_S = 20.0
READY = "tollgate listening on "
MITMDUMP = "from mitmproxy.tools.main import mitmdump; mitmdump()"


@dataclass(frozen=True, slots=True)
class Sample:
    """One job: what the load generator saw, and the processor time that the target took."""

    answers: Answers
    cpu_s: float


class LoadGenerator:
    """The process that makes the calls."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, target: Target, scenario: Scenario) -> Sample:
        """Run one job to its end. Raises ``RuntimeError`` when the process is gone."""
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
    """Yield a load generator that lives as long as the block."""
    with _running([sys.executable, "-m", "benchmarks.load"], pipes=True) as process:
        yield LoadGenerator(process)


@contextlib.contextmanager
def upstream() -> Iterator[Target]:
    """Yield the canned provider, listening."""
    with _running([sys.executable, "-m", "benchmarks.upstream"], pipes=True) as process:
        assert process.stdout is not None
        yield Target("upstream alone", process.pid, int(process.stdout.readline()))


@contextlib.contextmanager
def stock_mitmdump(upstream_port: int, folder: Path, *, streaming: bool = False) -> Iterator[Target]:
    """Yield mitmdump as it comes, in reverse mode before the upstream.

    It keeps a streamed answer back until its end; with ``streaming`` it passes each piece on, as a gateway must.
    """
    port = _free_port()
    command = [sys.executable, "-c", MITMDUMP, "-q", "--mode", f"reverse:http://127.0.0.1:{upstream_port}"]
    command += ["--listen-host", "127.0.0.1", "--listen-port", str(port)]
    command += ["--set", "connection_strategy=lazy", "--set", f"confdir={folder / 'mitmproxy'}"]
    if streaming:
        command += ["--set", "stream_large_bodies=1"]
    with _running(command, log=folder / f"mitmdump-{port}.log") as process:
        _await_port(process, port)
        yield Target("stock, streaming" if streaming else "stock mitmdump", process.pid, port)


@contextlib.contextmanager
def gateway(
    upstream_port: int,
    folder: Path,
    *,
    workers: int = 1,
    redis_url: str = "",
    name: str = "tollgate",
    slugs: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Target]:
    """Yield the gateway before the upstream, everything on; its store is SQLite unless there is a ``redis_url``.

    ``slugs`` are the names of further models, by the dialect in which they are called.
    """
    key = "tg_" + "".join(secrets.choice("0123456789abcdefghijklmnopqrstuvwxyz") for _ in range(40))
    conf = _write_configuration(folder, upstream_port, hashlib.sha256(key.encode()).hexdigest(), redis_url)
    for dialect, slug in slugs.items():
        _add_model(folder / "catalog_data", dialect, slug, upstream_port)
    log = folder / "gateway.log"
    command = [sys.executable, "-m", "addon.cli", "serve", "--conf", str(conf), "--port", "0"]
    command += ["--workers", str(workers)]
    environment = {"BENCH_PROVIDER_KEY": "fake-provider-key"}
    with _running(command, log=log, environment=environment) as process:
        yield Target(name, process.pid, _await_readiness(process, log), key)


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Yield the URL of a Redis of our own, which keeps nothing. Raises ``OSError`` where none is installed."""
    port = _free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    with _running([*command, "--save", "", "--appendonly", "no"], log=folder / "redis.log") as process:
        _await_port(process, port)
        yield f"redis://127.0.0.1:{port}/0"


def _write_configuration(folder: Path, upstream_port: int, key_hash: str, redis_url: str) -> Path:
    """Write the files of one gateway, with every limit set; return proxy.conf's path."""
    state = f'[state]\nbackend = "redis"\nredis_url = "{redis_url}"\n' if redis_url else ""
    files = {
        "proxy.conf": f"[admin]\nport = 0\n[sandbox]\nenabled = false\n{state}",
        "catalog_data/providers.toml": f'[BENCH]\nbase_url = "http://127.0.0.1:{upstream_port}/v1"\n'
        'dialect = "openai"\nplatform_key = "env:BENCH_PROVIDER_KEY"\n',
        "catalog_data/models.toml": f'["{SLUG}"]\nprovider = "BENCH"\n'
        f'upstream_model_id = "{UPSTREAM_MODEL_ID}"\nfamily = "bench"\ninput_price_per_m = "0.15"\n'
        'output_price_per_m = "0.60"\nmax_completion_tokens = 16384\nbyok_only = false\nactive = true\n',
        "catalog_data/families.toml": '[bench]\ncap_field = "max_completion_tokens"\n',
        "policies/workspaces/bench.toml": 'name = "Benchmark"\nplan = "pro"\nrpm_override = 100000000\n'
        'monthly_spend_cap_usd = "1000000"\noverage_protection = true\n'
        f'[[keys]]\nid = "bench"\nhash = "sha256:{key_hash}"\nactive = true\n'
        'spend_cap_usd = "1000000"\nrequest_cap = 1000000000\n',
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "proxy.conf"


def _add_model(catalog: Path, dialect: str, slug: str, upstream_port: int) -> None:
    provider, family = dialect.upper(), "bench" if dialect == "openai" else f"bench-{dialect}"
    tables = {
        "providers.toml": f'[{provider}]\nbase_url = "http://127.0.0.1:{upstream_port}/v1"\n'
        f'dialect = "{dialect}"\nplatform_key = "env:BENCH_PROVIDER_KEY"\n',
        "models.toml": f'["{slug}"]\nprovider = "{provider}"\nupstream_model_id = "up"\nfamily = "{family}"\n'
        'input_price_per_m = "0.15"\noutput_price_per_m = "0.60"\nmax_completion_tokens = 16384\n'
        "byok_only = false\nactive = true\n",
        "families.toml": f"[{family}]\n" if family != "bench" else "",
    }
    for name, text in tables.items():
        with (catalog / name).open("a", encoding="utf-8") as file:
            file.write(text)


@contextlib.contextmanager
def _running(
    command: list[str],
    *,
    pipes: bool = False,
    log: Path | None = None,
    environment: dict[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run ``command`` for as long as the block; its output goes to pipes or to the file ``log``."""
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("w")) if log else subprocess.PIPE
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if log else None,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        try:
            yield process
        finally:
            _end(process)


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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_port(process: subprocess.Popen[str], port: int) -> None:
    """Wait until ``port`` accepts. Raises ``RuntimeError`` when the process ends or the time is over."""
    for _ in _while_starting(process):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
    raise RuntimeError(f"nothing listens on port {port} after {START_LIMIT_S:.0f} s")


def _await_readiness(process: subprocess.Popen[str], log: Path) -> int:
    """Return the port of the gateway's readiness line. Raises ``RuntimeError`` with what it printed instead."""
    for _ in _while_starting(process):
        for line in log.read_text(encoding="utf-8").splitlines():
            if line.startswith(READY):
                return int(line.rpartition(":")[2])
    raise RuntimeError(f"the gateway did not start:\n{log.read_text(encoding='utf-8')}")


def _while_starting(process: subprocess.Popen[str]) -> Iterator[None]:
    deadline = time.monotonic() + START_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        yield
        time.sleep(0.05)
