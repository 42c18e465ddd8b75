"""JSON and CSV of tables, for programs."""

import csv
import io
import json
from typing import Any, Final

from addon.text.table import Table

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Some spreadsheets read the full-width forms of these signs as the signs."""


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


def format_spreadsheet(table: Table) -> str:
    """Return CSV in which no text is a formula for a spreadsheet: an apostrophe precedes such text."""
    rows = [[_disarm(cell) for cell in row] for row in table.rows]
    return format_csv(Table(table.columns, rows))


def _disarm(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell
