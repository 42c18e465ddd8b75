"""The tables of ``tollgate usage``, as text, JSON or CSV."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from addon.commands.output import LIMIT_HEADERS, TABLE_WIDTH, Form, format_limit, format_table, name_left_out
from addon.commands.text_table import Column, Kind, format_columns
from addon.text.table import Table
from addon.text.table_formats import format_csv, format_json
from addon.text.unprintable import escape_line
from policies.money import format_nanousd, format_nanousd_rounded

_CALL_COLUMNS = (
    "created_at",
    "workspace",
    "key_id",
    "model_slug",
    "mode",
    "api",
    "fallback",
    "status",
    "error_code",
    "prompt_tokens",
    "completion_tokens",
    "usage_source",
    "retail_nanousd",
    "duration_ms",
)
_CALLS_OPTIONAL = (
    *("usage_source", "fallback", "api", "mode", "duration_ms", "error_code"),
    *("completion_tokens", "prompt_tokens"),
)
_TOTALS_OPTIONAL = ("wholesale_nanousd", "cached_tokens", "failed_calls")
_LIMITS_OPTIONAL = ("label", "in flight", "period", "used", "cap")
_BUDGETS_OPTIONAL = ("requests_in_flight", "requests", "held_nanousd", "period")
"""The columns that a table leaves out first when it is too wide."""


@dataclass(frozen=True, slots=True)
class UsageTables:
    """The tables to print. Those that are None are not printed."""

    recent: Table | None
    totals: Mapping[str, Table]
    refusals: Table | None
    limits: Table | None
    budgets: Table | None = None

    @property
    def first(self) -> Table:
        """The first table, the only one that CSV prints."""
        others = (self.refusals, self.limits, self.budgets)
        first = next((table for table in (self.recent, *self.totals.values(), *others) if table), None)
        assert first is not None  # noqa: S101  (one of them was asked for)
        return first

    def format_as(self, form: Form, nothing: str) -> str:
        """Return the tables in ``form``. For ``nothing`` see ``format_text``."""
        if form == "json":
            return self.format_json()
        return format_csv(self.first) if form == "csv" else self.format_text(form, nothing)

    def format_json(self) -> str:
        """Return all tables as JSON, each under its name."""
        shown: dict[str, Any] = {} if self.recent is None else {"recent": self.recent.records()}
        if self.totals:
            shown["totals"] = {name: table.records() for name, table in self.totals.items()}
        if self.refusals is not None:
            shown["refusals"] = self.refusals.records()
        if self.limits is not None:
            shown["limits"] = self.limits.records()
        if self.budgets is not None:
            shown["budgets"] = self.budgets.records()
        return format_json(shown)

    def format_text(self, form: Form, nothing: str) -> str:
        """Return all tables as text, each under its title. ``nothing`` replaces the calls when there are none."""
        parts = list(self._format_parts(form)) if any(table.rows for table in self.totals.values()) else []
        if (self.totals and not parts) or (not self.totals and self.refusals and not self.refusals.rows):
            parts.append(nothing)
        if self.refusals and self.refusals.rows:
            parts.append(f"Refused calls (UTC)\n\n{format_table(_place_labels(self.refusals), form)}")
        if self.limits and self.limits.rows:
            parts.append(f"Limits (UTC)\n\n{_format_limits(self.limits, form)}")
        if self.budgets is not None:
            if not self.budgets.rows:
                return "No user and no tag has spent anything of a budget in this period."
            shown = format_table(self.budgets, form, _BUDGETS_OPTIONAL, format_nanousd_rounded)
            parts.append(f"Budgets of users and tags (UTC)\n\n{shown}")
        return "\n\n".join(parts) or "There is no limit."

    def _format_parts(self, form: Form) -> Iterator[str]:
        if self.recent:
            yield f"Recent calls (UTC)\n\n{_format_calls(self.recent, form)}"
        for name, table in self.totals.items():
            shown = format_table(_place_labels(table), form, _TOTALS_OPTIONAL, format_nanousd_rounded)
            yield f"By {name.replace(',', ' and ')}\n\n{shown}"


def _format_calls(recent: Table, form: Form) -> str:
    # A ledger of an earlier version has no API.
    columns = [name for name in _CALL_COLUMNS if name in recent.columns]
    rows = [[call[name] for name in columns] for call in recent.records()]
    optional = [name for name in _CALLS_OPTIONAL if name in columns]
    return format_table(Table(columns, rows), form, optional, format_nanousd_rounded)


def _format_limits(limits: Table, form: Form) -> str:
    """Return the limits as text. Requests and USD share the columns, because each limit has only one of them."""
    placed = _place_labels(limits)
    names = [name for name in ("workspace", "key_id", "label") if name in placed.columns]
    headers = [*("key" if name == "key_id" else name for name in names), *LIMIT_HEADERS]
    format_usd = format_nanousd if form == "wide" else _format_short
    rows = [
        [*(escape_line(row[name] or "") for name in names), *format_limit(row, format_usd)]
        for row in placed.records()
    ]
    kinds: list[Kind] = ["text" if name == "label" else "id" for name in names]
    kinds += ["word", "word", "number", "number", "number", "number"]
    columns = [
        Column(header, kind, [row[place] for row in rows])
        for place, (header, kind) in enumerate(zip(headers, kinds, strict=True))
    ]
    optional = [headers.index(name) for name in _LIMITS_OPTIONAL if name in headers]
    return name_left_out(format_columns(columns, None if form == "wide" else TABLE_WIDTH, optional), headers)


def _format_short(amount_nanousd: int) -> str:
    """Return an amount with at most six decimals: nine in each column do not fit into a table."""
    is_exact = amount_nanousd % 1_000 == 0
    return (format_nanousd if is_exact else format_nanousd_rounded)(amount_nanousd)


def _place_labels(table: Table) -> Table:
    """Return a table for people. Labels follow the ids of their keys. Without any label, there is no such column."""
    if "label" not in table.columns:
        return table
    columns = [name for name in table.columns if name != "label"]
    if any(row["label"] for row in table.records()):
        columns.insert(columns.index("key_id") + 1, "label")
    return Table(columns, [[row[name] for name in columns] for row in table.records()])
