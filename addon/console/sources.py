"""``Sources``: what the console reads of the gateway that it belongs to, and ``Live``: what it read for one page."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from addon.settings.settings import Settings
from addon.telemetry.admin import Page, Readiness
from addon.telemetry.metric_families import FAMILIES


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of a gauge, with its labels."""

    labels: Mapping[str, str]
    value: float


type FindFiles = Callable[[], Mapping[Path, datetime | None]]


@dataclass(frozen=True, slots=True)
class Live:
    """The state of the gateway at one moment. With several workers it is that of all together.

    | field | is |
    |---|---|
    | ``readiness`` | what ``/readyz`` answers |
    | ``gauges`` | the samples of each gauge of docs/metrics.md by name |
    | ``file_fault`` | why files on disk are not in use; None when all are |
    | ``settings_age_s`` | how long ago the settings in use were loaded |
    | ``started_at`` | when the gateway began to serve |
    | ``find_files`` | returns the files that were read, with the time of their last change; None for one that is gone |
    """

    readiness: Readiness
    gauges: Mapping[str, tuple[Sample, ...]]
    file_fault: str | None
    settings_age_s: float
    started_at: datetime
    find_files: FindFiles


@dataclass(frozen=True, slots=True)
class Sources:
    """Functions that return the state of the gateway now. They run on the event loop. ``metrics`` is ``/metrics``."""

    settings: Callable[[], Settings]
    readiness: Callable[[], Awaitable[Readiness]]
    metrics: Page
    file_fault: Callable[[], str | None]
    settings_age_s: Callable[[], float]
    find_files: FindFiles

    async def read(self) -> Live:
        """Return the state of the gateway now."""
        readiness = await self.readiness()
        _, _, page = await self.metrics()
        gauges = _read_gauges(page.decode())
        started = max((sample.value for sample in gauges["tollgate_start_time_seconds"]), default=0)
        return Live(
            readiness,
            gauges,
            self.file_fault(),
            self.settings_age_s(),
            datetime.fromtimestamp(started, UTC),
            self.find_files,
        )


def _read_gauges(page: str) -> Mapping[str, tuple[Sample, ...]]:
    """Return the gauges of a page of metrics. Histograms, which are most of its lines, are not parsed."""
    names = {name for name, family in FAMILIES.items() if family.kind == "gauge"}
    lines = [line for line in page.splitlines() if line.split("{")[0].split(" ")[0] in names]
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    # Without its comments, a page has a family for each sample.
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        samples[family.name] += (Sample(sample.labels, sample.value) for sample in family.samples)
    return {name: tuple(found) for name, found in samples.items()}
