"""``/audit``: the changes that were made in the console, newest first."""

from typing import Final

from addon.console.changes.forms import FORMS
from addon.console.query import ParameterError, Query
from addon.console.view import Reading, View
from addon.store.ledger.audit import find_lines
from addon.text.table import Table

PARAMETERS: Final = frozenset({"workspace", "action", "before"})
ROWS: Final = 50


def load_audit(reading: Reading) -> View:
    """Return the lines before the number ``before``, or the newest ones."""
    query = reading.query
    workspace, action = query.text("workspace"), query.text("action")
    before = _read_number(query, "before")
    found = find_lines(reading.ledger, workspace, action, before, ROWS + 1)
    lines = Table(found.columns, found.rows[:ROWS])
    older = lines.rows[-1][0] if len(found.rows) > ROWS else None
    actions = ["", *(form.action for form in FORMS.values())]
    return View({"audit": lines}, {"older_before": older}, {"actions": actions})


def _read_number(query: Query, name: str) -> int | None:
    text = query.text(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ParameterError(name, "must be the number of a line")
    return int(text)
