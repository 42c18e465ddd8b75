"""The metrics of several worker processes, combined for Prometheus by their supervisor.

Each worker writes its numbers to a file in one folder. The file of a worker that ended is added to totals in memory
and deleted, so the folder holds no more files than the living workers have.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from prometheus_client import CollectorRegistry, Metric

from addon.telemetry.metric_cells import Series, read_cells
from addon.telemetry.metric_families import FAMILIES, Gauges, Numbers, Rendered, render_registry

type _Sums = dict[Series, list[float]]

_NO_GAUGES: Mapping[str, float] = MappingProxyType({})


class WorkerMetrics:
    """The metrics of all workers that write to ``folder``, those that ended included.

    One process and one thread call all its methods.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ended: _Sums = {}
        self._own: _Sums = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def render(self, gauges: Mapping[str, float] = _NO_GAUGES) -> Rendered:
        """Return the page of all workers together. ``gauges`` without labels are those of the supervisor itself."""
        self._own = {(name, ()): [value] for name, value in gauges.items()}
        return render_registry(self._registry)

    def worker_ended(self, pid: int) -> None:
        """Forget the gauges of a worker that ended, and add its counters and histograms to the totals."""
        files = list(self._folder.glob(f"*_{pid}.db"))
        try:
            ended = _combine(self._ended, files)
            self._ended = {
                series: sums for series, sums in ended.items() if FAMILIES[series[0]].kind != "gauge"
            }
        finally:
            for file in files:
                file.unlink()

    def read_gauges(self, gauges: Mapping[str, float] = _NO_GAUGES) -> Gauges:
        """Return the gauges of the page."""
        self._own = {(name, ()): [value] for name, value in gauges.items()}
        numbers = self._find_numbers()
        return {
            name: family.find_samples(numbers[name])
            for name, family in FAMILIES.items()
            if family.kind == "gauge"
        }

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, as ``CollectorRegistry`` asks for them."""
        numbers = self._find_numbers()
        for name, family in FAMILIES.items():
            yield family.to_metric(numbers[name])

    def _find_numbers(self) -> Mapping[str, Numbers]:
        """Return the numbers of all workers together, by the name of the metric."""
        numbers: dict[str, dict[tuple[str, ...], list[float]]] = {name: {} for name in FAMILIES}
        known = {**self._ended, **self._own}
        for (name, labels), cells in _combine(known, self._folder.glob("*.db")).items():
            numbers[name][labels] = cells
        return numbers


def _combine(ended: _Sums, files: Iterable[Path]) -> _Sums:
    """Return the numbers of ``ended`` and of all ``files`` together."""
    sums = dict(ended)
    for file in files:
        for series, cells in read_cells(file):
            known = sums.get(series)
            sums[series] = FAMILIES[series[0]].combine(known, cells) if known else cells
    return sums
