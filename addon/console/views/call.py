"""``/calls/ID``: everything of one ledger row."""

import json
import shlex
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from addon.console.cells import Cell
from addon.console.charts.timeline import draw_timeline
from addon.console.display import duration
from addon.console.view import NotFoundError, Reading, View
from addon.console.views.call_price import WORDS, price_call
from addon.console.views.call_words import describe_end, describe_route
from addon.store.money.ledger import Ledger
from addon.store.money.price_set_schema import NOT_KEPT
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.call_pages import CallPosition, find_page
from addon.store.money.reports.calls_by_id import find_attempts, find_call
from addon.store.money.reports.price_sets import find_price_set
from addon.store.money.reports.report import find_entry
from addon.text.table import Table
from policies.utc_time import format_utc

_ENTRY: Final = ("id", "created_at", "workspace", "amount_nanousd", "reference")
_AROUND: Final = timedelta(minutes=5)


def load_call(reading: Reading) -> View:
    """Return one call. Raises NotFoundError."""
    found = find_call(reading.ledger, reading.names[0])
    if found is None:
        raise NotFoundError(
            "No call has this ID. A refused call has no row: only the log has its ID."
            " To look for the ID that a client gave its call, use the search on the page Calls."
        )
    table, position = found
    (call,) = table.records()
    prices = _price(reading, call)
    entry = find_entry(reading.ledger, call["id"])
    entries = [] if entry is None else [[getattr(entry, name) for name in _ENTRY]]
    for row in entries:
        row[1] = format_utc(row[1])
    values = {
        "route": list(describe_route(call)),
        "end": list(describe_end(call)),
        "prices": prices.values,
        "earlier_id": _find_neighbour(reading.ledger, before=position),
        "later_id": _find_neighbour(reading.ledger, after=position),
        "usage_command": _write_command(call),
        "log_command": f"jq -c {shlex.quote(f'select(.id == {json.dumps(call["id"])})')}",
    }
    attempts = find_attempts(reading.ledger, call["id"])
    tables = {
        "call": table,
        "attempts": attempts,
        "price_parts": prices.parts,
        "wallet_entries": Table(_ENTRY, entries),
    }
    return View(tables, values, {"call": call, **_show(reading, call)})


class _Prices(NamedTuple):
    """What the page says of the prices of a call, and its tokens by price."""

    values: Mapping[str, Any] | None
    parts: Table = Table(("tokens_of",), [])


def _price(reading: Reading, call: Mapping[str, Any]) -> _Prices:
    """Return what the call cost at the prices of its moment. There are none where it used nothing of ours."""
    if call["usage_source"] == "none" or call["mode"] == "byok":
        return _Prices(None)
    if call["price_set"] == NOT_KEPT:
        return _Prices({"state": "not kept"})
    prices = find_price_set(reading.ledger, call["price_set"])
    if prices is None:
        return _Prices({"state": "unreadable"})
    model = reading.settings.models.get(call["model_slug"])
    priced = price_call(call, prices)
    values = {
        "state": "kept",
        "wholesale_nanousd": priced.wholesale_nanousd,
        "retail_nanousd": priced.retail_nanousd,
        "are_recorded": priced.is_recorded(call),
        "is_reported": priced.is_reported,
        "markup_percent": f"{prices.markup_percent.normalize():f}",
        "are_of_today": model and model.at(_moment_of(call)).price_set == prices,
    }
    return _Prices(values, priced.parts)


def _moment_of(call: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(call["created_at"])


def _find_neighbour(
    ledger: Ledger, *, before: CallPosition | None = None, after: CallPosition | None = None
) -> str | None:
    rows = find_page(ledger, Filter(), 1, before=before, after=after).calls.records()
    return rows[0]["id"] if rows else None


def _write_command(call: Mapping[str, Any]) -> str:
    """Return the command that shows this call, ready for a shell."""
    begin = _moment_of(call)
    options = {
        "--workspace": call["workspace"],
        "--key": call["key_id"],
        "--since": call["created_at"],
        "--until": format_utc(begin + timedelta(milliseconds=1)),
    }
    words = [f"{name} {shlex.quote(value)}" for name, value in options.items()]
    return f"tollgate usage {' '.join(words)} --json"


def _show(reading: Reading, call: Mapping[str, Any]) -> dict[str, Any]:
    begin = _moment_of(call)
    end = begin + timedelta(milliseconds=min(call["duration_ms"], 10**12))
    first_byte_ms, duration_ms = call["first_byte_ms"], call["duration_ms"]
    first = "no byte of an answer" if first_byte_ms is None else f"first byte after {duration(first_byte_ms)}"
    model = reading.settings.models.get(call["model_slug"])
    workspace = reading.settings.workspaces.get(call["workspace"])
    words = f"{first}, end after {duration(duration_ms)}"
    return {
        "ended_at": end,
        "timeline": draw_timeline(first_byte_ms, duration_ms, words),
        "timeline_words": f"{words[:1].upper()}{words[1:]}.",
        "model": model,
        "price_words": WORDS,
        "exact_cell": _exact_cell,
        "workspace": workspace,
        "around": {
            "from_": _minute(begin - _AROUND),
            "to_": _minute(begin + _AROUND + timedelta(minutes=1)),
        },
    }


def _minute(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M")


def _exact_cell(picousd: int) -> Cell:
    """Return an amount in USD with all its digits: twelve decimals at most."""
    whole, fraction = divmod(picousd, 10**12)
    return Cell(f"${whole:,}.{f'{fraction:012}'.rstrip('0').ljust(2, '0')}", kind="number")
