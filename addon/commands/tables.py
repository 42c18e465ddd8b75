"""Tables as the commands print them: drawn for people, JSON and CSV with exact integers for programs."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from tabulate import tabulate

from addon.store.ledger.report import Table
from policies.money import format_nanousd

LIMIT_HEADERS = ("limit", "period", "used", "in flight", "cap", "left")


def to_json(shown: Any) -> str:
    """Return JSON for programs: columns keep their names and units."""
    return json.dumps(shown, indent=2)


def to_csv(table: Table) -> str:
    """Return a table for programs, its head first; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def draw(table: Table, usd: Callable[[int], str] = format_nanousd) -> str:
    """Return a table for the eye, amounts in USD as ``usd`` writes them."""
    numeric = [any(isinstance(value, int) for value in column) for column in zip(*table.rows, strict=True)]
    return tabulate(
        [
            [_shown(name, value, usd) for name, value in zip(table.columns, row, strict=True)]
            for row in table.rows
        ],
        headers=[name.replace("_nanousd", "_usd").replace("_", "\n") for name in table.columns],
        colalign=["right" if is_numeric else "left" for is_numeric in numeric],
        disable_numparse=True,
    )


def limit_cells(row: Mapping[str, Any]) -> list[str]:
    """Return one limit, a record of ``report.find_limits``, under ``LIMIT_HEADERS``: both units share the columns."""
    named = [row["limit"].replace("_", " "), row["period"]]
    if row["limit"] == "request_cap":
        counts = (row["requests"], row["requests_in_flight"], row["request_cap"], row["requests_left"])
        return [*named, *(str(count) for count in counts)]
    amounts = (row["spent_nanousd"], row["held_nanousd"], row["cap_nanousd"], row["left_nanousd"])
    return [*named, *("" if amount is None else f"{format_nanousd(amount)} USD" for amount in amounts)]


def printable(text: str) -> str:
    """Return text that came from outside without a say over the terminal; lines stay lines."""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)


def _shown(column: str, value: Any, usd: Callable[[int], str]) -> str:
    """A value for the eye. Text that came from outside gets no say over the terminal."""
    if value is None:
        return ""
    if column.endswith("_nanousd"):
        return usd(value)
    if column == "created_at":
        return str(value)[:19].replace("T", " ")
    return printable(str(value).replace("\n", "?"))
