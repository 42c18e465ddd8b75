"""The statements of each call as functions in PostgreSQL: one of its processes plans such a statement once.

To plan a plain statement takes longer than to run it, and a prepared one belongs to a session, which a pooler gives to
others. The name of a function ends with the digest of its text. So each version of Tollgate has its own functions, and
several versions work on the same tables.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from addon.store.money.engine import Statement


class Function:
    """A function that runs ``sql``, where ``given`` are the rows with these columns, each with its type.

    ``returns`` is what the statement returns. Without, it returns nothing.
    """

    def __init__(self, name: str, columns: Mapping[str, str], sql: str, returns: str = "") -> None:
        typed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        body = f"BEGIN {'RETURN QUERY ' if returns else ''}{sql}; END"
        text = f"RETURNS {returns or 'void'} LANGUAGE plpgsql AS $$ #variable_conflict use_column\n{body} $$"
        self.name = f"{name}_{blake2b((typed + text).encode(), digest_size=4).hexdigest()}"
        self.creation = (
            f"CREATE TYPE {self.name}_row AS ({typed})",
            f"CREATE FUNCTION {self.name}({self.name}_row[]) {text}",
        )
        self._call = f"SELECT * FROM {self.name}(?)"  # noqa: S608

    def __call__(self, rows: Sequence[Sequence[Any]]) -> Statement:
        """Return the statement that calls it."""
        return Statement(self._call, (_array_of(rows),))


GIVEN: Final = "unnest($1) AS given"
"""The rows that a function gets."""


def _array_of(rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as an array of records of PostgreSQL: JSON has the same quotes, but no control characters in them.

    Raises UnicodeEncodeError.
    """
    if not rows:
        return "{}"
    text = msgspec.json.encode([[_NULL if one is None else one for one in row] for row in rows]).decode()
    if any(one in text for one in _CONTROLS):
        text = _ESCAPED.sub(
            lambda found: found[0] if found[1] else msgspec.json.decode(f'"{found[0]}"'), text
        )
    is_one = len(rows) == 1
    if not is_one and text.count(_BETWEEN) >= len(rows):  # A text has it, too.
        return "{" + ",".join([_array_of([row])[1:-1] for row in rows]) + "}"
    text = text[2:-2].replace("\\", "\\\\").replace('"', '\\"')
    return '{"(' + (text if is_one else text.replace(_BETWEEN, ')","(')) + ')"}'


_NULL: Final = msgspec.Raw(b"")
_BETWEEN: Final = "],["
_CONTROLS: Final = ("\\b", "\\f", "\\n", "\\r", "\\t", "\\u")
_ESCAPED: Final = re.compile(r"""\\(?:(["\\])|u[0-9a-f]{4}|.)""")
