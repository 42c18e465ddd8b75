"""The schema of prices that depend on the time, in models.toml. Source: docs/catalog.md."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from addon.settings.price_schema import ServedPricesTable, TieredPricesTable, make_prices
from addon.settings.validation import table_error
from addon.settings.value_types import Distinct, Listed
from policies.money import compute_retail_prices
from policies.price_times import DAY_MINUTES, WEEKDAYS, Hours, TimedPrices
from policies.prices import Prices

_SPAN = re.compile(r"([0-9]{2}):([0-5][0-9])-([0-9]{2}):([0-5][0-9])")


def _check_span(text: str) -> str:
    found = _SPAN.fullmatch(text)
    if found is None or max(_minutes(text)) > DAY_MINUTES:
        raise ValueError('must be two times of a day in UTC, such as "01:00-04:00"; the last one is 24:00')
    start, end = _minutes(text)
    if start >= end:
        raise ValueError(
            f'ends before it begins: past midnight, write "{text[:5]}-24:00" and "00:00-{text[6:]}"'
        )
    return text


def _minutes(text: str) -> tuple[int, int]:
    start, end = [60 * int(part[:2]) + int(part[3:]) for part in text.split("-")]
    return start, end


_PARTS = ("tiers", "service_tiers", "hours")
"""What prices have beside themselves. Prices that replace them must have it too."""


def _check_day(value: object) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise ValueError("must be a day of UTC without quotes, such as 2027-01-01")
    return value


type Day = Annotated[date, BeforeValidator(_check_day)]
type Span = Annotated[str, AfterValidator(_check_span)]


class HoursTable(ServedPricesTable):
    """``[["slug".hours]]``: other prices in certain hours of UTC."""

    utc: Annotated[Distinct[Span], Field(min_length=1)]
    weekdays: Annotated[
        Distinct[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]], Field(min_length=1)
    ] = WEEKDAYS

    @property
    def made(self) -> Hours:
        """The hours as values."""
        days = frozenset(map(WEEKDAYS.index, self.weekdays))
        return Hours(tuple(map(_minutes, self.utc)), days)

    @model_validator(mode="after")
    def _check_prices(self) -> Self:
        if not self.stated:
            raise table_error("has no price: name those that are other ones in these hours", "utc")
        spans = sorted(map(_minutes, self.utc))
        if any(start < end for (_, end), (start, _) in pairwise(spans)):
            raise table_error("has overlapping hours: write each hour once", "utc")
        return self


class HourlyPricesTable(ServedPricesTable):
    """Prices that may be other ones in certain hours."""

    hours: Listed[HoursTable] = ()

    @model_validator(mode="after")
    def _check_hours(self) -> Self:
        for index, table in enumerate(self.hours):
            check_complete(self, table, "hours", index)
            for earlier, other in enumerate(self.hours[:index]):
                if table.made.overlap(other.made):
                    reason = f"overlaps utc of hours[{earlier}]: only one price can hold at a time"
                    raise table_error(reason, "hours", index, "utc")
        return self


class DatedTable(HourlyPricesTable):
    """``[["slug".dated]]``: other prices from a day on."""

    from_date: Day

    @model_validator(mode="after")
    def _check_prices(self) -> Self:
        if not self.stated:
            raise table_error("has no price: name those that are other ones from this day on", "from_date")
        return self


class TimedPricesTable(HourlyPricesTable):
    """Prices that may be other ones in certain hours, and from certain days on."""

    dated: Listed[DatedTable] = ()

    @model_validator(mode="after")
    def _check_days(self) -> Self:
        for index, table in enumerate(self.dated):
            before_it = self.dated[index - 1] if index else self
            check_complete(before_it, table, "dated", index, named="from_date")
            if index and table.from_date <= (before := self.dated[index - 1].from_date):
                same = table.from_date == before
                reason = (
                    "is the day of the entry before it: make them one"
                    if same
                    else (
                        f"must be after {before}, the day of the entry before it: write them with rising days"
                    )
                )
                raise table_error(reason, "dated", index, "from_date")
        return self


def check_complete(
    around: ServedPricesTable, table: ServedPricesTable, *path: str | int, named: str = "utc"
) -> None:
    """Raise where prices would lose the tiers, service tiers or hours of those that they replace.

    The error is at the key ``named`` of ``table``.
    """
    empty = {"service_tiers": "{}"}
    for key in _PARTS:
        if getattr(around, key, ()) and key in type(table).model_fields and key not in table.model_fields_set:
            none = f"{key} = {empty.get(key, '[]')}"
            reason = f"has no {key}, but the prices that it replaces have: write its own, or {none} for none"
            raise table_error(reason, *path, named)


type _Path = tuple[str | int, ...]


def list_price_tables(
    table: ServedPricesTable, path: _Path = ()
) -> Iterator[tuple[_Path, TieredPricesTable]]:
    """Yield a table with prices and all those inside of it that may have tiers, each with its path."""
    yield path, table
    for name, service in table.service_tiers.items():
        yield (*path, "service_tiers", name), service
    for key in ("hours", "dated", "deployments"):
        for at, one in enumerate(getattr(table, key, ())):
            yield from list_price_tables(one, (*path, key, at))


def make_timed_prices(table: TimedPricesTable, markup_percent: Decimal) -> tuple[TimedPrices, ...]:
    """Return the prices of a model that depend on the time. A price that one does not name is that before it."""
    return tuple(_make_timed(table, markup_percent))


def reprice(timed: tuple[TimedPrices, ...], wholesale: Prices) -> tuple[TimedPrices, ...]:
    """Return the prices of a place whose own wholesale prices are always the same: retail is the model's."""
    return tuple([replace(one, wholesale=wholesale) for one in timed])


def _make_timed(table: TimedPricesTable, markup_percent: Decimal) -> Iterator[TimedPrices]:
    def made(prices: Prices, day: date | None, hours: Hours | None) -> TimedPrices:
        return TimedPrices(prices, compute_retail_prices(prices, markup_percent), day, hours)

    around = table.stated
    for one in table.hours:
        yield made(make_prices(one, around), None, one.made)
    for dated in table.dated:
        around = {**around, **dated.stated}
        yield made(make_prices(dated, around), dated.from_date, None)
        for one in dated.hours:
            yield made(make_prices(one, around), dated.from_date, one.made)
