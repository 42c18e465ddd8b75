"""``Table``: rows with the names of their columns. Pure.

Reports return it. Commands print it, and the console shows it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with the names of their columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as mappings from column to value."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]
