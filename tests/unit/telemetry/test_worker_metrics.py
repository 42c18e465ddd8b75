"""The sums over real worker processes, read back as Prometheus reads them."""

import ast
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import prometheus_client
import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.large import large_only
from rig.metrics import read, value

from addon.telemetry.worker_metrics import WorkerMetrics

WORKER = """
import sys
from rig.metrics import CATALOG, EXCHANGE
from addon.telemetry.metrics import Metrics

metrics = Metrics("1.2.3")
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        metrics.call_ended(EXCHANGE, CATALOG, 3.5)
        metrics.call_refused("bad_request")
    metrics.holds_in_flight[0] = int(line)
    metrics.set_platform_keys({("TESTER", "ready"): 2, ("TESTER", "resting"): int(line)})
    metrics.set_circuits_open({("TESTER", "byok", "workspace"): int(line)})
    metrics.set_dropped_log_lines(int(line))
    print("done", flush=True)
"""


class Worker:
    """A process that counts calls on request, in a folder that it shares with others."""

    def __init__(self, folder: Path) -> None:
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        environment = os.environ | {"TOLLGATE_WORKERS_FOLDER": str(folder), "PYTHONPATH": paths}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._expect("ready")

    def count(self, calls: int) -> None:
        self.request(calls)
        self._expect("done")

    def request(self, calls: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{calls}\n")
        self.process.stdin.flush()

    def wait_until_counted(self) -> None:
        self._expect("done")

    def end(self, signum: signal.Signals = signal.SIGKILL) -> int:
        """End the process, and return its id."""
        self.process.send_signal(signum)
        self.process.communicate(timeout=BOUND_S)
        return self.process.pid

    def _expect(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == word


@contextmanager
def workers(folder: Path, count: int) -> Iterator[list[Worker]]:
    folder.mkdir(exist_ok=True)
    running: list[Worker] = []
    try:
        for _ in range(count):
            running.append(Worker(folder))  # noqa: PERF401  (those that started must be ended if one does not)
        yield running
    finally:
        for worker in running:
            if worker.process.poll() is None:
                worker.end()


CALLS = {"model": "tester-large", "provider": "TESTER", "mode": "payg", "status": "200"}


def test_workers_are_added_up_and_the_counts_of_a_killed_one_stay(tmp_path: Path):
    folder = tmp_path / "metrics"
    metrics = WorkerMetrics(folder)
    with workers(folder, 2) as (one, other):
        one.count(3)
        other.count(4)
        samples = read(metrics.render())
        assert value(samples, "tollgate_calls_total", **CALLS) == 7
        assert value(samples, "tollgate_holds_in_flight") == 7
        assert value(samples, "tollgate_platform_keys", provider="TESTER", state="ready") == 4
        assert value(samples, "tollgate_platform_keys", provider="TESTER", state="resting") == 7
        assert (
            value(samples, "tollgate_circuits_open", provider="TESTER", mode="byok", scope="workspace") == 4
        )
        assert value(samples, "tollgate_workers") == 2
        assert value(samples, "tollgate_build_info", version="1.2.3") == 1
        metrics.worker_ended(one.end())
        other.count(1)
        samples = read(metrics.render())
        assert value(samples, "tollgate_calls_total", **CALLS) == 8
        assert value(samples, "tollgate_refusals_total", code="bad_request") == 8
        assert value(
            samples, "tollgate_cost_usd_total", price="retail", model="tester-large", mode="payg"
        ) == (pytest.approx(8 * 1.56))
        whole = {"provider": "TESTER", "stream": "false"}
        assert value(samples, "tollgate_call_seconds_count", **whole) == 8
        assert value(samples, "tollgate_call_seconds_sum", **whole) == pytest.approx(20)
        assert value(samples, "tollgate_call_seconds_bucket", le="2.5", **whole) == 8
        assert value(samples, "tollgate_call_seconds_bucket", le="1.0", **whole) == 0
        assert value(samples, "tollgate_holds_in_flight") == 1
        assert value(samples, "tollgate_platform_keys", provider="TESTER", state="ready") == 2
        assert (
            value(samples, "tollgate_circuits_open", provider="TESTER", mode="byok", scope="workspace") == 1
        )
        assert value(samples, "tollgate_workers") == 1
        assert value(samples, "tollgate_worker_starts_total") == 2
        # The supervisor counts, too.
        samples = read(metrics.render({"tollgate_log_lines_dropped": 5}))
        assert value(samples, "tollgate_log_lines_dropped_total") == 3 + 1 + 5


def test_workers_that_ended_leave_no_file_and_their_sums_stay(tmp_path: Path):
    folder = tmp_path / "metrics"
    metrics = WorkerMetrics(folder)
    for _ in range(3):
        with workers(folder, 1) as (worker,):
            worker.count(2)
            metrics.worker_ended(worker.end())
            metrics.worker_ended(worker.process.pid)
    assert list(folder.iterdir()) == []
    samples = read(metrics.render())
    assert value(samples, "tollgate_calls_total", **CALLS) == 6
    assert value(samples, "tollgate_call_seconds_count", provider="TESTER", stream="false") == 6
    assert value(samples, "tollgate_call_seconds_bucket", le="2.5", provider="TESTER", stream="false") == 6
    assert "tollgate_workers" not in samples


@large_only
def test_the_page_is_whole_while_workers_count_and_the_sums_never_fall(tmp_path: Path):
    folder = tmp_path / "metrics"
    metrics = WorkerMetrics(folder)
    with workers(folder, 2) as running:
        for worker in running:
            worker.request(5_000)
        seen = []
        for _ in range(50):
            samples = read(metrics.render()).get("tollgate_calls_total", {})
            seen.append(sum(samples.values()))
        for worker in running:
            worker.wait_until_counted()
        assert seen == sorted(seen)
        assert value(read(metrics.render()), "tollgate_calls_total", **CALLS) == 10_000


def test_an_empty_file_of_a_new_worker_is_skipped(tmp_path: Path):
    metrics = WorkerMetrics(tmp_path)
    (tmp_path / "counter_1.db").touch()
    (tmp_path / "gauge_livesum_1.db").touch()
    assert read(metrics.render()) == {}
    metrics.worker_ended(1)
    assert read(metrics.render()) == {}
    assert not (tmp_path / "counter_1.db").exists()


def test_a_broken_file_of_a_worker_that_ended_does_not_break_the_page(tmp_path: Path):
    metrics = WorkerMetrics(tmp_path)
    (tmp_path / "counter_1.db").write_bytes(b"\xff\x7f\x00\x00" + bytes(100))
    with pytest.raises(Exception, match=r"\w"):
        metrics.worker_ended(1)
    assert read(metrics.render()) == {}


PUBLIC = {
    "prometheus_client": set(prometheus_client.__all__),
    "prometheus_client.core": {"CounterMetricFamily", "GaugeMetricFamily", "HistogramMetricFamily"},
    "prometheus_client.parser": {"text_string_to_metric_families"},
}
SOURCES = [
    file for folder in ("addon", "policies", "benchmarks", "tests") for file in (ROOT / folder).rglob("*.py")
]


@large_only
def test_only_documented_names_of_prometheus_client_are_imported():
    imported = {
        (node.module, alias.name)
        for file in SOURCES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prometheus_client")
        for alias in node.names
    }
    assert imported
    assert {(module, name) for module, name in imported if name not in PUBLIC.get(str(module), ())} == set()


def test_no_private_attribute_of_another_object_is_used_for_metrics():
    private = {
        f"{file.name}: {ast.unparse(node)}"
        for file in (ROOT / "addon" / "telemetry").glob("*metrics.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and re.match("_[a-z]", node.attr)
        and ast.unparse(node.value) != "self"
    }
    assert private == set()
