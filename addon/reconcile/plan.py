"""``Plan``: which days are compared, in which time zone, and by what. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from types import MappingProxyType
from zoneinfo import ZoneInfo

from addon.reconcile.export_line import Export, ExportError, ExportLine


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared.

    | field | is |
    |---|---|
    | ``first``, ``last`` | the days of the vendor's, both included |
    | ``by_month`` | whether a month is compared as one day, because an export has no days |
    | ``by_model`` | whether the export is grouped by model |
    | ``tools_apart`` | whether searches have lines without a model |
    | ``keys`` | the vendor's names of the gateway's keys, empty for all |
    | ``numbered`` | those of them that are compared by themselves, each with the number of the platform key |
    | ``notes`` | what the operator should know |
    """

    first: date
    last: date
    zone: ZoneInfo
    by_month: bool
    by_model: bool
    tools_apart: bool
    keys: frozenset[str]
    notes: Sequence[str]
    numbered: Mapping[str, int] = field(default_factory=dict)

    @property
    def since(self) -> datetime:
        """The first moment of the first day, in UTC."""
        return datetime.combine(self.first, time.min, self.zone).astimezone(UTC)

    @property
    def until(self) -> datetime:
        """The first moment after the last day, in UTC."""
        return datetime.combine(self.last + timedelta(days=1), time.min, self.zone).astimezone(UTC)

    def day_of(self, moment: datetime) -> str:
        """Return the vendor's day of a moment, or the month."""
        return self.name_day(moment.astimezone(self.zone).date().isoformat())

    def name_day(self, day: str) -> str:
        """Return a day as it is compared."""
        return day[:7] if self.by_month else day

    def has_day(self, day: str) -> bool:
        """Return whether a day or month of an export is compared."""
        if len(day) == 7:
            return self.first.isoformat()[:7] <= day <= self.last.isoformat()[:7]
        return self.first.isoformat() <= day <= self.last.isoformat()

    def key_of(self, line: ExportLine) -> str:
        """Return the key that a line is compared for: a numbered one, another's, or "" for the rest of the gateway."""
        if number := self.numbered.get(line.key or ""):
            return self.key_numbered(number)
        return "" if not self.keys or line.key in self.keys else (line.key or "no key")

    def key_numbered(self, number: int | None) -> str:
        """Return the key that calls with a platform key are compared for: of a rotated one the first name."""
        return next((name for name, known in self.numbered.items() if known == number), "")


def make_plan(
    exports: Sequence[Export], month: str | None, keys: Mapping[str, int | None] = MappingProxyType({})
) -> Plan:
    """Return what can be compared. Raises ``ExportError``.

    ``keys`` are the vendor's names of the gateway's keys, each with the number of the platform key, if that is known.
    """
    zones = {export.time_zone for export in exports}
    if len(zones) > 1:
        raise ExportError(f"the files have days of different time zones: {', '.join(sorted(zones))}")
    if all(export.has_more for export in exports):
        raise ExportError("has_more is true: further pages are missing; save them too, and name all files")
    by_month = any(len(day) == 7 for export in exports for day in export.days)
    first, last = _days_of(exports, month, by_month=by_month)
    lines = [line for export in exports for line in export.lines]
    plan = Plan(
        *(first, last, ZoneInfo(zones.pop()), by_month),
        by_model=any(line.model for line in lines) or not lines,
        tools_apart=any(line.is_tool and not line.model for line in lines),
        keys=_known_keys(exports, keys),
        notes=_notes(exports, lines, keys),
        numbered={
            name: number for name, number in keys.items() if number is not None and _have_keys(exports)
        },
    )
    if exports and lines and not any(plan.has_day(line.day) for line in lines):
        raise ExportError(f"nothing in it is of {month}; export that month")
    return plan


def _days_of(exports: Sequence[Export], month: str | None, *, by_month: bool) -> tuple[date, date]:
    days = sorted({day for export in exports for day in export.days})
    if month is None:
        if not days:
            raise ExportError("it has no days; name the month with --month")
        if not by_month:
            return date.fromisoformat(days[0]), date.fromisoformat(days[-1])
    first = date.fromisoformat(f"{month or days[0][:7]}-01")
    latest = date.fromisoformat(f"{month or days[-1][:7]}-01")
    return first, _last_of_month(latest)


def _last_of_month(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)


def _known_keys(exports: Sequence[Export], keys: Iterable[str]) -> frozenset[str]:
    """Return the keys to tell apart: none where an export has no keys, because the others then can't be subtracted."""
    if not _have_keys(exports):
        return frozenset()
    named = {line.key for export in exports for line in export.lines if line.key}
    if unknown := sorted(set(keys) - named):
        raise ExportError(f'no line has the key "{unknown[0]}"; the keys are {", ".join(sorted(named)[:20])}')
    return frozenset(keys)


def _have_keys(exports: Sequence[Export]) -> bool:
    return all(any(line.key for line in export.lines) for export in exports if export.lines)


def _notes(exports: Sequence[Export], lines: Sequence[ExportLine], keys: Collection[str]) -> list[str]:
    notes = []
    if lines and not any(line.model for line in lines):
        notes.append("the export is not grouped by model: only sums of days are compared; group it by model")
    if keys and lines and not _have_keys(exports):
        notes.append("an export has no keys, so --key has no effect")
    if not any(line.cost_nanousd is not None for line in lines) and lines:
        notes.append("the export has no costs: its tokens are valued at the prices that the calls had")
    if any(export.has_more for export in exports[-1:]):
        notes.append("the last file says has_more: a further page may be missing")
    return notes


def parse_month(text: str) -> str:
    """Return a month, 2026-10. Raises ``ValueError``."""
    date.fromisoformat(f"{text}-01")
    if len(text) != 7:
        raise ValueError(text)
    return text
