"""``/calls``: the recorded calls, the newest first; and ``/calls/new``: how many were written since."""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from addon.console.query import CALL_FILTERS, NAME_FILTERS, ParameterError
from addon.console.time_range import PARAMETERS as TIMES
from addon.console.time_range import TimeRange
from addon.console.view import Reading, View
from addon.console.views.call_query import (
    parse_filter,
    parse_limit,
    parse_number,
    parse_positions,
)
from addon.settings.settings import Settings
from addon.store.money.reports.call_counts import COUNTED, count_calls
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.call_pages import (
    CallPage,
    count_written,
    find_last_written,
    find_page,
)
from addon.store.money.reports.calls_by_id import find_call, find_client_calls, find_unlisted_end
from addon.store.money.reports.report import find_refusals
from addon.text.table import Table
from policies.exchange import KNOWN_APIS

MAX_NAMES: Final = 200
"""How many names of each kind are counted, and suggested in the form."""

SHOWN_COUNTS: Final = 6
"""How many of them the page shows."""

_MOST: Final = 10**18 - 1
_NAMES: Final = {"filter_names": CALL_FILTERS, "name_filters": NAME_FILTERS, "api_names": KNOWN_APIS}


def load_calls(reading: Reading) -> View:
    """Return a page of calls, and how many there are by each filter."""
    find = reading.query.text("find")
    if find is not None:
        return _find(reading, find)
    query = reading.query
    time = TimeRange.parse(query, reading.now)
    wanted = parse_filter(query, time)
    before, after = parse_positions(query)
    page = find_page(reading.ledger, wanted, parse_limit(query), before=before, after=after)
    counts = count_calls(reading.ledger, wanted, MAX_NAMES)
    refused = (
        None
        if wanted.selects_sent_calls
        else sum(row["count"] for row in find_refusals(reading.ledger, wanted, None).records())
    )
    values = {
        **time.values(),
        "matching_calls": None if counts is None else _count_all(counts),
        "refused_calls": refused,
        **_positions(reading, page),
    }
    tables = {"calls": page.calls} | ({} if counts is None else {"counts": counts})
    shown = {
        "time": time,
        **_NAMES,
        "groups": _group(counts, wanted),
        "shown_counts": SHOWN_COUNTS,
        "max_names": MAX_NAMES,
        "names": _find_names(reading.settings, counts, wanted),
        "in_flight": _count_in_flight(reading),
        "new_url": None if query.text("to") else _new_url(reading, values["written_until"]),
        "find": None,
    }
    return View(tables, values, shown)


def load_new_calls(reading: Reading) -> View:
    """Return how many wanted calls were written after the row ``written_after``."""
    query = reading.query
    if query.text("written_after") is None:
        raise ParameterError("written_after", "is needed: the written_until of an earlier answer")
    after = 0 if query.text("written_after") == "0" else parse_number(query, "written_after", _MOST, 1)
    wanted = parse_filter(query, TimeRange.parse(query, reading.now))
    new_calls, is_exact = count_written(reading.ledger, wanted, after)
    table = Table(("new_calls", "is_exact"), [(new_calls, is_exact)])
    return View({"counts": table}, {"new_calls": new_calls, "is_exact": is_exact})


def _find(reading: Reading, find: str) -> View:
    """Return the call with an id, else those whose clients gave them this id. Time and filters do not apply."""
    found = find_call(reading.ledger, find)
    if found is not None:
        page = CallPage(found[0], None, None, is_whole=True)
    else:
        before, after = parse_positions(reading.query)
        page = find_client_calls(reading.ledger, find, parse_limit(reading.query), before=before, after=after)
    shown = {
        "time": TimeRange.parse(reading.query, reading.now),
        **_NAMES,
        "groups": {},
        "names": _find_names(reading.settings, None, Filter()),
        "in_flight": None,
        "new_url": None,
        "find": find,
        "unlisted_end": None if page.is_whole else find_unlisted_end(reading.ledger),
    }
    values = {"matching_calls": None, "refused_calls": None, **_positions(reading, page)}
    return View({"calls": page.calls}, values, shown)


def _positions(reading: Reading, page: CallPage) -> dict[str, Any]:
    return {
        "older": page.older and str(page.older),
        "newer": page.newer and str(page.newer),
        "is_whole": page.is_whole,
        "written_until": find_last_written(reading.ledger),
    }


def _count_all(counts: Table) -> int:
    """Return the number of all calls: each has one of the two modes."""
    return sum(calls for name, _, calls in counts.rows if name == "mode")


def _group(counts: Table | None, wanted: Filter) -> Mapping[str, list[tuple[str, int]]]:
    """Return the counts to show by filter. A filter that is chosen has only one value, so it is left out."""
    if counts is None:
        return {}
    # A key's id is unique within a workspace only.
    names = [name for name in COUNTED if name != "key" or wanted.workspace is not None]
    found = {name: [(value, calls) for one, value, calls in counts.rows if one == name] for name in names}
    return {name: values for name, values in found.items() if values and getattr(wanted, name) is None}


def _find_names(settings: Settings, counts: Table | None, wanted: Filter) -> Mapping[str, list[str]]:
    """Return names for the form to suggest: those of the settings, and of calls in the wanted time.

    A browser shows them as they are, so a name with unprintable characters is not suggested.
    """
    workspaces = settings.workspaces.values()
    keys = (key.id for one in workspaces if wanted.workspace in (None, one.id) for key in one.keys)
    names: dict[str, Iterable[str]] = {
        "workspace": settings.workspaces,
        "key": keys,
        "model": settings.models,
        "provider": settings.providers,
    }
    recorded = [row for row in counts.rows if row[1].isprintable()] if counts else []
    return {
        kind: sorted({*known, *(value for name, value, _ in recorded if name == kind)})[:MAX_NAMES]
        for kind, known in names.items()
    }


def _count_in_flight(reading: Reading) -> int:
    return int(sum(sample.value for sample in reading.live.gauges["tollgate_holds_in_flight"]))


def _new_url(reading: Reading, written_until: int) -> str:
    kept = {name: value for name, value in reading.query.given().items() if name in {*TIMES, *CALL_FILTERS}}
    return "/calls/new?" + urlencode(kept | {"written_after": str(written_until)})
