"""Output of commands: tables for people, JSON and CSV with exact integers for programs."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from tabulate import tabulate

from addon.store.ledger.report import Table
from policies.money import format_nanousd

LIMIT_HEADERS = ("limit", "period", "used", "in flight", "cap", "left")


def format_json(value: Any) -> str:
    """Return JSON for programs. Columns keep their names and units."""
    return json.dumps(value, indent=2)


def format_csv(table: Table) -> str:
    """Return a table for programs, with its header. None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def format_table(table: Table, format_usd: Callable[[int], str] = format_nanousd) -> str:
    """Return a table for people. ``format_usd`` formats its amounts."""
    numeric = [any(isinstance(value, int) for value in column) for column in zip(*table.rows, strict=True)]
    return tabulate(
        [
            [_format_cell(name, value, format_usd) for name, value in zip(table.columns, row, strict=True)]
            for row in table.rows
        ],
        headers=[name.replace("_nanousd", "_usd").replace("_", "\n") for name in table.columns],
        colalign=["right" if is_numeric else "left" for is_numeric in numeric],
        disable_numparse=True,
    )


def format_limit(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of one limit under ``LIMIT_HEADERS``. ``row`` is a record of ``report.find_limits``.

    Counts of requests and amounts of money share the columns.
    """
    name = [row["limit"].replace("_", " "), row["period"]]
    if row["limit"] == "request_cap":
        counts = (row["requests"], row["requests_in_flight"], row["request_cap"], row["requests_left"])
        return [*name, *(str(count) for count in counts)]
    amounts = (row["spent_nanousd"], row["held_nanousd"], row["cap_nanousd"], row["left_nanousd"])
    return [*name, *("" if amount is None else f"{format_nanousd(amount)} USD" for amount in amounts)]


def replace_unprintable(text: str) -> str:
    """Replace each unprintable character but line ends by ``?``: text of others must not control the terminal."""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)


def _format_cell(column: str, value: Any, format_usd: Callable[[int], str]) -> str:
    if value is None:
        return ""
    if column.endswith("_nanousd"):
        return format_usd(value)
    if column == "created_at":
        return str(value)[:19].replace("T", " ")
    return replace_unprintable(str(value).replace("\n", "?"))
