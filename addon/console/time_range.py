"""``TimeRange``: the time that a page is about, and the one before it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from addon.console.query import ParameterError, Query
from policies.utc_time import format_utc

PARAMETERS: Final = frozenset({"range", "from", "to"})

_LENGTHS: Final = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "7d": timedelta(days=7),
}
EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""No ledger is older. So there is always a time before a range."""
LONGEST: Final = timedelta(days=36_525)
"""A hundred years. Charts of a longer range would have too many steps."""

NAMES: Final = (*_LENGTHS, "month", "last_month", "custom")
LABELS: Final = {
    "hour": "Last hour",
    "day": "Last 24 hours",
    "7d": "Last 7 days",
    "month": "This month",
    "last_month": "Last month",
    "custom": "Custom",
}


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The time from ``begin`` until before ``end``, both in UTC. ``name`` is one of ``NAMES``.

    ``ends_now`` is True unless the URL has an end.
    """

    name: str
    begin: datetime
    end: datetime
    ends_now: bool = False

    @classmethod
    def parse(cls, query: Query, now: datetime, default: str = "day") -> "TimeRange":
        """Return the time that ``range``, ``from`` and ``to`` ask for. Raises ParameterError.

        ``from`` and ``to`` are days or moments in ISO 8601, in UTC unless they say otherwise. They make a range
        ``custom``. ``to`` is now unless it is given.
        """
        is_given = query.text("from") or query.text("to")
        name = query.choice("range", NAMES, "custom" if is_given else default)
        if name == "custom":
            given_end = _parse_moment(query, "to")
            end = given_end or now
            begin = _parse_moment(query, "from")
            if begin is None:
                raise ParameterError("from", "is needed for a custom range")
            if begin >= end:
                raise ParameterError("to", "must be after from")
            if begin < EARLIEST:
                raise ParameterError("from", f"must not be before {EARLIEST:%Y-%m-%d}")
            if end - begin > LONGEST:
                raise ParameterError("to", "must be at most a hundred years after from")
            return cls(name, begin, end, ends_now=given_end is None)
        first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        if name == "month":
            return cls(name, first, now, ends_now=True)
        if name == "last_month":
            return cls(name, _month_before(first), first)
        return cls(name, now - _LENGTHS[name], now, ends_now=True)

    @property
    def length(self) -> timedelta:
        return self.end - self.begin

    @property
    def since(self) -> str:
        """``begin`` as the ledger writes it."""
        return format_utc(self.begin)

    @property
    def until(self) -> str:
        """``end`` as the ledger writes it."""
        return format_utc(self.end)

    def values(self) -> dict[str, str]:
        """Return the time as the data of a page names it."""
        return {"range": self.name, "from": self.since, "to": self.until}

    @property
    def filter_until(self) -> str | None:
        """The end for a ``Filter``, None for a time that ends now.

        So sums answer for the whole last hour, and calls of a machine whose clock is ahead count, too.
        """
        return None if self.ends_now else self.until

    def before(self) -> "TimeRange":
        """Return the time of the same length before this one, as far as moments reach back.

        Of this month, return the same days of the month before. Of the last month, return the whole month before.
        """
        if self.name == "last_month":
            return TimeRange(self.name, _month_before(self.begin), self.begin)
        if self.name == "month":
            begin = _month_before(self.begin)
            return TimeRange(self.name, begin, min(begin + self.length, self.begin))
        length = min(self.length, self.begin - datetime.min.replace(tzinfo=UTC))
        return TimeRange(self.name, self.begin - length, self.begin)


def _month_before(first: datetime) -> datetime:
    """Return the first moment of the month before the one that begins at ``first``."""
    return (first - timedelta(days=1)).replace(day=1)


def _parse_moment(query: Query, name: str) -> datetime | None:
    text = query.text(name)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ParameterError(
            name, "must be a day or a moment, such as 2026-11-21 or 2026-11-21T09:30"
        ) from None
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ParameterError(name, "is out of range") from None
