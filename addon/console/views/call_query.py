"""The parameters of ``/calls``: which calls, of which time, and where the page begins."""

from typing import Final

from addon.console.query import CALL_FILTERS, ParameterError, Query
from addon.console.time_range import TimeRange
from addon.store.money.reports.call_filter import MODES, Filter, is_status
from addon.store.money.reports.call_pages import CallPosition
from policies.exchange import KNOWN_APIS

USUAL_ROWS: Final = 50
MAX_ROWS: Final = 500


def parse_filter(query: Query, time: TimeRange) -> Filter:
    """Return the wanted calls. Raises ParameterError."""
    status = query.text("status")
    if status is not None and not is_status(status):
        raise ParameterError("status", "must be a status (429), a class (4xx) or error")
    query.choice("mode", MODES, MODES[0])
    query.choice("api", KNOWN_APIS, KNOWN_APIS[0])
    named = {name: query.text(name) for name in CALL_FILTERS}
    return Filter(**named, since=time.since, until=time.filter_until)


def parse_limit(query: Query) -> int:
    """Return how many rows a page has."""
    return parse_number(query, "limit", MAX_ROWS, USUAL_ROWS)


def parse_number(query: Query, name: str, most: int, default: int) -> int:
    text = query.text(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise ParameterError(name, f"must be a number from 1 to {most}")
    return int(text)


def parse_positions(query: Query) -> tuple[CallPosition | None, CallPosition | None]:
    """Return the position before which the page is, and the one after which it is: at most one of both."""
    before, after = _parse_position(query, "before"), _parse_position(query, "after")
    if before and after:
        raise ParameterError("after", "can't be used with before")
    return before, after


def _parse_position(query: Query, name: str) -> CallPosition | None:
    text = query.text(name)
    try:
        return CallPosition.parse(text) if text else None
    except ValueError as error:
        raise ParameterError(name, str(error)) from None
