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

_NOTHING: Mapping[str, float] = MappingProxyType({})


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

    def render(self, own: Mapping[str, float] = _NOTHING) -> Rendered:
        """Return the page of all processes together. ``own`` has numbers without labels of the supervisor itself."""
        self._own = {(name, ()): [value] for name, value in own.items()}
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

    def read_gauges(self, own: Mapping[str, float] = _NOTHING) -> Gauges:
        """Return the gauges of the page. ``own`` is as for ``render``."""
        self._own = {(name, ()): [value] for name, value in own.items()}
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
        """Return the numbers of all processes together, by the name of the metric."""
        numbers: dict[str, dict[tuple[str, ...], list[float]]] = {name: {} for name in FAMILIES}
        sums = _combine(self._ended, self._folder.glob("*.db"))
        _add(sums, self._own.items())
        for (name, labels), cells in sums.items():
            numbers[name][labels] = cells
        return numbers


def _combine(ended: _Sums, files: Iterable[Path]) -> _Sums:
    """Return the numbers of ``ended`` and of all ``files`` together."""
    sums = dict(ended)
    for file in files:
        _add(sums, read_cells(file))
    return sums


def _add(sums: _Sums, numbers: Iterable[tuple[Series, list[float]]]) -> None:
    for series, cells in numbers:
        known = sums.get(series)
        sums[series] = FAMILIES[series[0]].combine(known, cells) if known else cells
