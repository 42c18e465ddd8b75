"""The prices of a model beside the published ones, at each time that has prices of its own.

Rules: docs/catalog.md, "Checking prices".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from addon.commands.published_prices import (
    PublishedPrices,
    find_dearest_published,
    find_model_info,
    moments_of,
)
from policies.model import Model
from policies.price_times import TimedPrices, find_in_force
from policies.prices import Prices

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo


@dataclass(frozen=True, slots=True)
class Period:
    """Prices of the catalog, and those published for the same time. The places of prices without a time are "".

    ``place`` is that of the time, and ``stated_at`` that of the prices: another one where the catalog lacks a change.
    """

    place: str
    stated_at: str
    prices: Prices
    published: PublishedPrices


def find_periods(model: Model, day: date) -> list[Period]:
    """Return the prices that hold on ``day`` (UTC) and from later days on; [] where nothing is published.

    A catalog without hours is compared with the dearest hour. Weekdays do not count: the package has none.
    """
    info = find_model_info(model.provider.base_url, model.upstream_model_id)
    if info is None:
        return []
    periods: dict[str, Period] = {}
    latest: dict[str, PublishedPrices] = {}
    for one in sorted({day, *_find_later_days(model, info, day)}):
        for period in _find_periods_of_day(model, info, one, is_later=one > day):
            # What has not changed since the day before is not named again.
            if latest.get(period.stated_at) != period.published:
                periods.setdefault(period.place, period)
            latest[period.stated_at] = period.published
    return list(periods.values())


def _find_later_days(model: Model, info: "ModelInfo", day: date) -> Iterator[date]:
    dated = [one.from_date for one in model.timed]
    for found in (*dated, *_find_published_days(info.prices)):
        if found is not None and found > day:
            yield found


def _find_published_days(prices: Any) -> Iterator[date | None]:
    for one in prices if isinstance(prices, list) else ():
        yield getattr(one.constraint, "start_date", None)


def _find_periods_of_day(model: Model, info: "ModelInfo", day: date, *, is_later: bool) -> Iterator[Period]:
    places: dict[str, tuple[TimedPrices | None, list[datetime]]] = {}
    for moment in moments_of(day):
        in_force = find_in_force(model.timed, moment, any_weekday=True)
        places.setdefault(in_force.place if in_force else "", (in_force, []))[1].append(moment)
    for stated_at, (in_force, moments) in places.items():
        is_written = not is_later or (in_force is not None and in_force.from_date == day)
        place = stated_at if is_written else f"dated[{day}]"
        if not is_written and in_force is not None and in_force.hours is not None:
            place += f".hours[{in_force.hours}]"
        prices = in_force.wholesale if in_force else model.wholesale
        yield Period(place, stated_at, prices, find_dearest_published(info, moments))
