"""The keys of ``/workspaces/ID``: their settings, their state and their use. No secret and no hash is in them."""

from collections import Counter
from typing import Any, Final

from addon.console.query import ParameterError
from addon.console.time_range import TimeRange
from addon.console.view import Reading
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.last_use import find_last_hours
from addon.store.money.reports.report import find_refusals, find_totals
from addon.text.table import Table
from policies.model import Key, Workspace
from policies.utc_time import format_utc

KEY_ROWS: Final = 100
COLUMNS: Final = (
    *("key_id", "label", "state", "active", "expires_at", "previous_until", "models"),
    *("spend_cap_nanousd", "spend_reset", "request_cap", "request_reset", "tpm"),
    *("calls", "failed_calls", "retail_nanousd", "refused_calls", "last_call_hour"),
)


def choose_keys(workspace: Workspace | None, reading: Reading) -> tuple[tuple[Key, ...], str | None]:
    """Return a page of keys in the order of the file, and the ``keys_after`` of the next page."""
    keys = workspace.keys if workspace else ()
    first, after = 0, reading.query.text("keys_after")
    if after is not None:
        places = {key.id: place for place, key in enumerate(keys)}
        if after not in places:
            raise ParameterError("keys_after", "must be the next_keys_after of a page")
        first = places[after] + 1
    page = keys[first : first + KEY_ROWS]
    return page, page[-1].id if len(keys) > first + KEY_ROWS else None


def make_keys_table(reading: Reading, workspace_id: str, keys: tuple[Key, ...], time: TimeRange) -> Table:
    """Return the keys with their use in the chosen time."""
    wanted = Filter(workspace_id, since=time.since, until=time.filter_until)
    totals = {row["key_id"]: row for row in find_totals(reading.ledger, "key", wanted, None).records()}
    refused: Counter[str] = Counter()
    for row in find_refusals(reading.ledger, wanted, None).records():
        refused[row["key_id"]] += row["count"]
    last_hours = find_last_hours(reading.ledger, workspace_id)
    rows = []
    for key in keys:
        used = totals.get(key.id, {})
        amounts = [used.get(name, 0) for name in ("calls", "failed_calls", "retail_nanousd")]
        rows.append((*_describe(key, reading), *amounts, refused[key.id], last_hours.get(key.id)))
    return Table(COLUMNS, rows)


def _describe(key: Key, reading: Reading) -> tuple[Any, ...]:
    has_old_secret = key.previous_until is not None and key.previous_until > reading.now
    return (
        key.id,
        key.label,
        _state_of(key, reading),
        key.active,
        format_utc(key.expires_at) if key.expires_at else None,
        format_utc(key.previous_until) if key.previous_until and has_old_secret else None,
        ", ".join(key.models.patterns) if key.models else None,
        *(key.spend_cap_nanousd, None if key.spend_cap_nanousd is None else key.spend_reset),
        *(key.request_cap, None if key.request_cap is None else key.request_reset),
        key.tpm,
    )


def _state_of(key: Key, reading: Reading) -> str:
    if not key.active:
        return "not active"
    return "active" if key.why_refused(reading.now) is None else "expired"
