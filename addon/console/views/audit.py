"""``/audit``: the changes of the console and of commands, newest first; and ``/audit/NUMBER``: one of them."""

from typing import Final

from addon.console.cells import Cell, whole_cell
from addon.console.changes.forms import FORMS
from addon.console.query import ParameterError, Query
from addon.console.view import NotFoundError, Reading, View
from addon.edits.diff import read_diff
from addon.store.money.audit.audit import COLUMNS, find_lines
from addon.text.table import Table

ROWS: Final = 50
OF_COMMANDS: Final = (
    *(
        "catalog add",
        "catalog price",
        "catalog update",
        "init",
        "ledger archive",
        "ledger forget",
        "ledger recount",
    ),
    *("keys enable", "ledger restore", "secrets rotate", "serve", "workspaces push"),
)
"""The actions that commands have, and no form."""
CELLS: Final = {
    "user": lambda row: whole_cell(row["user"] or row["source"]),
    "number": lambda row: Cell(str(row["number"])),
    "change": lambda row: whole_cell(row["change"].partition("\n")[0]),
}


def load_audit(reading: Reading) -> View:
    """Return the lines before the number ``before``, or the newest ones."""
    query = reading.query
    workspace, action = query.text("workspace"), query.text("action")
    before = _read_number(query, "before")
    found = find_lines(reading.ledger, workspace, action, before, ROWS + 1)
    lines = Table(found.columns, found.rows[:ROWS])
    older = lines.rows[-1][0] if len(found.rows) > ROWS else None
    actions = ["", *sorted({*OF_COMMANDS, *(form.action for form in FORMS.values())})]
    return View({"audit": lines}, {"older_before": older}, {"actions": actions, "cells": CELLS})


def load_audit_line(reading: Reading) -> View:
    """Return one line. Raises ``NotFoundError``."""
    number = int(reading.names[0])
    found = find_lines(reading.ledger, None, None, number + 1, 1)
    if not found.rows or found.rows[0][0] != number:
        raise NotFoundError(f"The audit log has no line {number}.")
    (line,) = found.records()
    summary, _, rest = line["change"].partition("\n")
    facts = [(name, line[name]) for name in COLUMNS if name not in ("number", "change")]
    return View({"audit": found}, line, {"summary": summary, "lines": read_diff(rest), "facts": facts})


def _read_number(query: Query, name: str) -> int | None:
    text = query.text(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ParameterError(name, "must be the number of a line")
    return int(text)
