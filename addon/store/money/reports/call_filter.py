"""``Filter``: the calls that a report is about, as conditions of SQL."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

FAILED: Final = "error"
"""The status of ``Filter`` for all calls that failed: 400 or more."""

MODES: Final = ("payg", "byok")


def is_status(text: str) -> bool:
    """Return whether ``text`` is a status of ``Filter``."""
    return text == FAILED or re.fullmatch("[1-5](xx|[0-9]{2})", text) is not None


@dataclass(frozen=True, slots=True)
class Filter:
    """The calls to report, None for all. ``since`` is inclusive, ``until`` is not.

    ``status`` is a status (``429``), a class (``4xx``) or ``FAILED``. ``mode`` is one of ``MODES``.
    """

    workspace: str | None = None
    model: str | None = None
    since: str | None = None
    until: str | None = None
    key: str | None = None
    provider: str | None = None
    status: str | None = None
    mode: str | None = None
    end_user: str | None = None
    error_code: str | None = None
    deployment: str | None = None
    api: str | None = None

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
            "mode = ?": self.mode,
        }

    def columns(self) -> list[str]:
        """Return the columns of sums that the filter needs."""
        named = [condition.split()[0] for condition, value in self.names().items() if value is not None]
        return named if self.status is None else [*named, "status_class"]

    @property
    def selects_sent_calls(self) -> bool:
        """Whether the filter asks for something that only calls have that were sent upstream."""
        of_names = (self.model, self.provider, self.status, self.mode)
        of_rows = (self.end_user, self.error_code, self.deployment)
        return any(value is not None for value in (*of_names, *of_rows))

    @property
    def needs_rows(self) -> bool:
        """Whether only rows can answer: sums know the class of a status, no text of a client, no place and no API."""
        return self._has_exact_status or any(value is not None for value in self._texts().values())

    @property
    def is_rare(self) -> bool:
        """Whether the filter may match few calls of many, and no index finds them."""
        names = (self.model, self.key, self.provider, self.mode, self.status)
        return self.needs_rows or any(name is not None for name in names)

    def for_sums(self) -> "Filter":
        """Return the filter that sums can answer: all calls of this one match it, and maybe others."""
        status = self.status
        if status is not None and self._has_exact_status:
            status = f"{status[0]}xx"
        elif status is None and self.error_code is not None:
            status = FAILED  # Only a call that failed has an error code.
        return replace(self, status=status, end_user=None, error_code=None, deployment=None, api=None)

    def conditions(self, *, of_rows: bool) -> dict[str, str | None]:
        """Return the conditions but those of the time, for rows of ``usage`` or for sums."""
        if of_rows:
            return self.names() | self._status_of_rows() | self._texts()
        if self.status == FAILED:
            return self.names() | {"status_class >= ?": "4"}
        return self.names() | {"status_class = ?": self.status}

    @property
    def _has_exact_status(self) -> bool:
        return self.status is not None and self.status.isdigit()

    def _texts(self) -> dict[str, str | None]:
        """Return the conditions that no sums have."""
        return {
            "end_user = ?": self.end_user,
            "error_code = ?": self.error_code,
            "deployment = ?": self.deployment,
            "api = ?": self.api,
        }

    def _status_of_rows(self) -> dict[str, str | None]:
        if self.status is None:
            return {}
        if self.status == FAILED:
            return {"status >= CAST(? AS INTEGER)": "400"}
        if self._has_exact_status:
            return {"status = CAST(? AS INTEGER)": self.status}
        return {"status / 100 = CAST(? AS INTEGER)": self.status[0]}


def join_conditions(conditions: Mapping[str, str | None]) -> tuple[str, list[str]]:
    """Return the conditions whose value is not None as one, and their values."""
    given = {condition: value for condition, value in conditions.items() if value is not None}
    return (" AND ".join(given) or "TRUE"), list(given.values())
