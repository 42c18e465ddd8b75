"""``Filter``: the calls that a report is about, as conditions of SQL."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

FAILED: Final = "error"
"""The status of ``Filter`` for all calls that failed: 400 or more."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The calls to report, None for all. ``since`` is inclusive, ``until`` is not.

    ``status`` is a status (``429``), a class (``4xx``) or ``FAILED``.
    """

    workspace: str | None = None
    model: str | None = None
    since: str | None = None
    until: str | None = None
    key: str | None = None
    provider: str | None = None
    status: str | None = None

    def rows(self) -> tuple[str, list[str]]:
        """Return the SQL condition for rows of ``usage``, with a value for each ``?``."""
        return join_conditions(
            self.conditions(of_rows=True) | {"created_at >= ?": self.since, "created_at < ?": self.until}
        )

    def names(self) -> dict[str, str | None]:
        """Return the conditions that are the same for rows and for sums, with their values."""
        return {
            "workspace = ?": self.workspace,
            "model_slug = ?": self.model,
            "key_id = ?": self.key,
            "provider = ?": self.provider,
        }

    def columns(self) -> list[str]:
        """Return the columns of sums that the filter needs."""
        named = [condition.split()[0] for condition, value in self.names().items() if value is not None]
        return named if self.status is None else [*named, "status_class"]

    @property
    def has_exact_status(self) -> bool:
        """Whether only rows can answer: sums know the class of a status."""
        return self.status is not None and self.status.isdigit()

    @property
    def is_rare(self) -> bool:
        """Whether the filter may match few calls of many, and no index finds them."""
        return any((self.model, self.key, self.provider, self.status))

    def with_status_class(self) -> "Filter":
        """Return the filter that sums can answer: the class of an exact status instead of it."""
        if self.status is None or not self.has_exact_status:
            return self
        return replace(self, status=f"{self.status[0]}xx")

    def conditions(self, *, of_rows: bool) -> dict[str, str | None]:
        """Return the conditions but those of the time, for rows of ``usage`` or for sums."""
        if of_rows:
            return self.names() | self._status_of_rows()
        if self.status == FAILED:
            return self.names() | {"status_class >= ?": "4"}
        return self.names() | {"status_class = ?": self.status}

    def _status_of_rows(self) -> dict[str, str | None]:
        if self.status is None:
            return {}
        if self.status == FAILED:
            return {"status >= CAST(? AS INTEGER)": "400"}
        if self.has_exact_status:
            return {"status = CAST(? AS INTEGER)": self.status}
        return {"status / 100 = CAST(? AS INTEGER)": self.status[0]}


def join_conditions(conditions: Mapping[str, str | None]) -> tuple[str, list[str]]:
    """Return the conditions whose value is not None as one, and their values."""
    given = {condition: value for condition, value in conditions.items() if value is not None}
    return (" AND ".join(given) or "TRUE"), list(given.values())
