"""``Sources``: what the console reads of its gateway; ``GatewayState`` and ``Live``: that at one moment."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

from addon.settings.settings import Settings
from addon.settings.snapshot import Snapshot
from addon.telemetry.admin import Page, Readiness
from addon.telemetry.metric_families import FAMILIES

type ChangedFiles = Mapping[Path, datetime | None]
"""The files that were read, with the time of their last change; None for one that is gone."""


@dataclass(frozen=True, slots=True)
class GatewayState:
    """The state of the gateway at one moment. With several workers it is that of all together.

    | field | is |
    |---|---|
    | ``readiness`` | what ``/readyz`` answers |
    | ``metrics`` | what ``/metrics`` answers |
    | ``file_fault`` | why files on disk are not in use; None when all are |
    | ``settings_age_s`` | how long ago the settings in use were loaded |
    | ``files`` | only for a page that shows them |
    """

    readiness: Readiness
    metrics: str
    file_fault: str | None
    settings_age_s: float
    files: ChangedFiles = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sources:
    """Functions that return the state of the gateway now. They run on the event loop. ``metrics`` is ``/metrics``.

    ``snapshot`` is that of ``settings``.
    """

    settings: Callable[[], Settings]
    snapshot: Callable[[], Snapshot]
    readiness: Callable[[], Awaitable[Readiness]]
    metrics: Page
    file_fault: Callable[[], str | None]
    settings_age_s: Callable[[], float]
    find_files: Callable[[], ChangedFiles]

    async def read(self, *, with_files: bool = False) -> GatewayState:
        """Return the state of the gateway now."""
        readiness = await self.readiness()
        _, _, metrics = await self.metrics()
        return GatewayState(
            readiness,
            metrics.decode(),
            self.file_fault(),
            self.settings_age_s(),
            self.find_files() if with_files else {},
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of a gauge, with its labels."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Live:
    """A ``GatewayState`` with its metrics read. ``gauges`` has the samples of each gauge of docs/metrics.md by name.

    ``started_at`` is when the gateway began to serve.
    """

    readiness: Readiness
    gauges: Mapping[str, tuple[Sample, ...]]
    file_fault: str | None
    settings_age_s: float
    started_at: datetime
    files: ChangedFiles = field(default_factory=dict)

    @classmethod
    def of(cls, state: GatewayState) -> Self:
        """Return the state as pages need it."""
        gauges = _read_gauges(state.metrics)
        started = max((sample.value for sample in gauges["tollgate_start_time_seconds"]), default=0)
        return cls(
            state.readiness,
            gauges,
            state.file_fault,
            state.settings_age_s,
            datetime.fromtimestamp(started, UTC),
            state.files,
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
