"""``Sources``: what the console reads of the gateway that it belongs to, and ``Live``: what it read for one page."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from addon.settings.settings import Settings, SettingsFiles
from addon.settings.snapshot import Snapshot
from addon.telemetry.admin import Readiness
from addon.telemetry.metric_families import Gauges

type ChangedFiles = Mapping[Path, datetime | None]
"""The files that were read, with the time of their last change; None for one that is gone."""


@dataclass(frozen=True, slots=True)
class Live:
    """The state of the gateway at one moment. With several workers it is that of all together.

    | field | is |
    |---|---|
    | ``readiness`` | what ``/readyz`` answers |
    | ``gauges`` | the samples of each gauge of docs/metrics.md by name |
    | ``file_fault`` | why files on disk are not in use; None when all are |
    | ``settings_age_s`` | how long ago the settings in use were loaded |
    | ``files`` | the files of the settings, only for a page that shows them |
    """

    readiness: Readiness
    gauges: Gauges
    file_fault: str | None
    settings_age_s: float
    files: ChangedFiles = field(default_factory=dict)

    @property
    def started_at(self) -> datetime:
        """The moment at which the gateway began to serve."""
        samples = self.gauges.get("tollgate_start_time_seconds", ())
        return datetime.fromtimestamp(max((one.value for one in samples), default=0), UTC)


@dataclass(frozen=True, slots=True)
class Sources:
    """Functions that return the state of the gateway now. They run on the event loop.

    ``snapshot`` is that of ``settings``, and ``files`` are those that they were loaded from.
    """

    settings: Callable[[], Settings]
    snapshot: Callable[[], Snapshot]
    readiness: Callable[[], Awaitable[Readiness]]
    gauges: Callable[[], Gauges]
    file_fault: Callable[[], str | None]
    settings_age_s: Callable[[], float]
    find_files: Callable[[], ChangedFiles]
    files: SettingsFiles

    async def read(self, *, with_files: bool = False) -> Live:
        """Return the state of the gateway now."""
        readiness, files = await self.readiness(), self.find_files() if with_files else {}
        return Live(readiness, self.gauges(), self.file_fault(), self.settings_age_s(), files)
