"""``TimedPrices``: prices of a model from a day on, or in certain hours. Frozen and pure.

Days and hours are those of UTC. Source: docs/catalog.md, "Prices that depend on the time".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from policies.prices import Prices, list_prices

WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""The days of a week, as ``date.weekday`` counts them."""
DAY_MINUTES: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class Hours:
    """Parts of certain days of each week: ``spans`` has the first minute of each part and the minute after its end."""

    spans: tuple[tuple[int, int], ...]
    weekdays: frozenset[int] = frozenset(range(7))

    def include(self, moment: datetime, *, any_weekday: bool = False) -> bool:
        """Return whether a moment of UTC is in one of these parts, or would be on a day that has them."""
        if not any_weekday and moment.weekday() not in self.weekdays:
            return False
        minute = 60 * moment.hour + moment.minute
        return any(start <= minute < end for start, end in self.spans)

    def overlap(self, other: "Hours") -> bool:
        """Return whether some minute is in both."""
        return bool(self.weekdays & other.weekdays) and any(
            start < other_end and other_start < end
            for start, end in self.spans
            for other_start, other_end in other.spans
        )

    def __str__(self) -> str:
        spans = ",".join(f"{_clock(start)}-{_clock(end)}" for start, end in self.spans)
        days = ",".join(WEEKDAYS[day] for day in sorted(self.weekdays)) if len(self.weekdays) < 7 else ""
        return " ".join(part for part in (spans, days) if part)


@dataclass(frozen=True, slots=True)
class TimedPrices:
    """Prices that hold from ``from_date`` on, None for always, and in ``hours`` only, None for all.

    A later date ends all that was before it, its hours too.
    """

    wholesale: Prices
    retail: Prices
    from_date: date | None = None
    hours: Hours | None = None

    @property
    def place(self) -> str:
        """The name of these prices in lists: ``dated[2027-01-01].hours[01:00-04:00]``."""
        dated = [] if self.from_date is None else [f"dated[{self.from_date}]"]
        return ".".join(dated if self.hours is None else [*dated, f"hours[{self.hours}]"])


def find_in_force(
    timed: Sequence[TimedPrices], moment: datetime, *, any_weekday: bool = False
) -> TimedPrices | None:
    """Return the prices that hold at a moment, None where they are those without a time.

    ``any_weekday``: those that would hold on a weekday that has hours.
    """
    if not timed:
        return None
    moment = moment.astimezone(UTC)
    begun = [one for one in timed if one.from_date is None or one.from_date <= moment.date()]
    latest = max((one.from_date for one in begun if one.from_date is not None), default=None)
    found = [one for one in begun if one.from_date == latest]
    in_hours = (
        one for one in found if one.hours is not None and one.hours.include(moment, any_weekday=any_weekday)
    )
    return next(in_hours, next((one for one in found if one.hours is None), None))


def list_timed_prices(prices: Prices, timed: Iterable[tuple[str, Prices]]) -> dict[str, int | None]:
    """Return every price as ``list_prices``, with those of certain times that differ, after the name of their place."""
    listed = list_prices(prices)
    for place, inner in timed:
        differing = {key: price for key, price in list_prices(inner).items() if listed.get(key) != price}
        listed |= {f"{place}.{key}": price for key, price in differing.items()}
    return listed


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
