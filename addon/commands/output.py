"""Output of commands: tables for people, JSON and CSV with exact integers for programs.

Every listing command takes ``options.listing_options`` and prints its table with ``echo_table``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import click

from addon.commands.text_table import Column, Kind, TextTable, format_columns
from addon.text.table import Table
from addon.text.table_formats import format_csv, format_json
from addon.text.unprintable import escape_line
from policies.money import format_nanousd

type Form = Literal["table", "wide", "json", "csv"]
"""A table of at most ``TABLE_WIDTH`` columns, one with whole texts and all columns, or a format for programs."""

TABLE_WIDTH: Final = 100
LIMIT_HEADERS = ("limit", "period", "used", "in flight", "cap", "left")

_IDS: Final = frozenset({"id", "workspace", "key_id", "slug", "model_slug", "reference"})
_TEXTS: Final = frozenset({"name", "label", "models", "error_code", "code"})
"""The columns that may be shortened. All others, such as moments and plans, stay whole or are left out."""


def echo_table(
    table: Table, form: Form, nothing: str, optional: Sequence[str] = (), missing: str = ""
) -> None:
    """Print a table in ``form``, or ``nothing`` to people when it has no rows. See ``format_table``."""
    if form == "json":
        click.echo(format_json(table.records()))
    elif form == "csv":
        click.echo(format_csv(table), nl=False)
    else:
        click.echo(format_table(table, form, optional, missing=missing) if table.rows else nothing)


def format_table(
    table: Table,
    form: Form = "table",
    optional: Sequence[str] = (),
    format_usd: Callable[[int], str] = format_nanousd,
    missing: str = "",
) -> str:
    """Return a table for people.

    | argument | is |
    |---|---|
    | ``optional`` | the columns to leave out first when the table is too wide; a line names those that are left out |
    | ``format_usd`` | formats amounts |
    | ``missing`` | the cell of a value that does not exist |
    """
    columns = [
        Column(
            name.replace("_nanousd", "_usd").replace("_", "\n"),
            _kind_of(name, values),
            [missing if value is None else _format_cell(name, value, format_usd) for value in values],
        )
        for place, name in enumerate(table.columns)
        for values in [[row[place] for row in table.rows]]
    ]
    width = None if form == "wide" else TABLE_WIDTH
    found = format_columns(columns, width, [table.columns.index(name) for name in optional])
    return name_left_out(found, table.columns)


def name_left_out(shown: TextTable, names: Sequence[str]) -> str:
    """Return a table as text, with a last line that names the columns that did not fit."""
    if not shown.left_out:
        return shown.text
    left_out = ", ".join(names[place] for place in shown.left_out)
    return f"{shown.text}\n\nNot shown: {left_out} (--wide shows all)"


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 call``, ``2 calls``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def join_list(value: Any) -> Any:
    """Return the items of a list as one cell, and any other value as it is."""
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def format_limit(row: Mapping[str, Any], format_usd: Callable[[int], str] = format_nanousd) -> list[str]:
    """Return the cells of one limit under ``LIMIT_HEADERS``. ``row`` is a record of ``report.find_limits``.

    Counts of requests and amounts of money share the columns.
    """
    name = [row["limit"].replace("_", " "), row["period"]]
    if row.get("budget"):
        name[0] += escape_line(f" of {row['budget']} {row['value']}")
    if row["limit"] == "request_cap":
        counts = (row["requests"], row["requests_in_flight"], row["request_cap"], row["requests_left"])
        return [*name, *(str(count) for count in counts)]
    amounts = (row["spent_nanousd"], row["held_nanousd"], row["cap_nanousd"], row["left_nanousd"])
    return [*name, *("" if amount is None else f"{format_usd(amount)} USD" for amount in amounts)]


def _kind_of(column: str, values: Sequence[Any]) -> Kind:
    if any(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return "number"
    if column in _IDS:
        return "id"
    return "text" if column in _TEXTS else "word"


def _format_cell(column: str, value: Any, format_usd: Callable[[int], str]) -> str:
    if column.endswith("_nanousd"):
        return format_usd(value)
    if column == "created_at":
        value = str(value)[:19].replace("T", " ")
    return escape_line(str(value))
