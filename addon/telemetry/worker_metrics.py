"""The metrics of several worker processes, added up for Prometheus by their supervisor.

Each worker writes its numbers to files in one folder. The files of a worker that ended are added to totals in memory
and deleted, so the folder holds no more files than the living workers have.
"""

from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from addon.telemetry.metrics import Rendered, render_registry


class WorkerMetrics:
    """The sums over all workers that write to ``folder``, those that ended included.

    One process and one thread call all its methods.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ended: list[Metric] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def render(self) -> Rendered:
        """Return the page of all workers together."""
        return render_registry(self._registry)

    def worker_ended(self, pid: int) -> None:
        """Remove the gauges of a worker that ended, and add its counters and histograms to the totals."""
        mark_process_dead(pid, str(self._folder))
        files = list(self._folder.glob(f"*_{pid}.db"))
        try:
            self._ended = _sum([*self._ended, *_read(files)])
        finally:
            for file in files:
                file.unlink()

    def collect(self) -> list[Metric]:
        """Return the sums, as ``CollectorRegistry`` asks for them."""
        return _sum([*_read(self._folder.glob("*.db")), *self._ended])


def _read(files: Iterable[Path]) -> list[Metric]:
    """Return the sums over ``files``. A file that was created a moment ago is still empty: skip it."""
    return list(MultiProcessCollector.merge([str(file) for file in files if file.stat().st_size]))


def _sum(metrics: Iterable[Metric]) -> list[Metric]:
    """Return one metric for each name, with the samples of equal labels added up."""
    sums: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], float]] = {}
    for metric in metrics:
        sums.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
        of_metric = values.setdefault(metric.name, {})
        for sample in metric.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            of_metric[key] = of_metric.get(key, 0.0) + sample.value
    for name, of_metric in values.items():
        for (sample_name, labels), value in of_metric.items():
            sums[name].add_sample(sample_name, dict(labels), value)
    return list(sums.values())
