"""Reports of calls that are no longer here: which months lack, and which calls a file has already."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from addon.store.money.archives.archives import find_archives, has_archives
from addon.store.money.ledger import Ledger
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.sum_sources import DAYS, ROWS, needs_rows, split_time
from addon.store.money.sums.rollup_schema import AFTER_ALL


class Missing(NamedTuple):
    """Archived months whose calls a report lacks, and their files. ``in_sums``: its sums lack them, too."""

    months: list[str]
    files: list[str]
    in_sums: bool


def find_missing(ledger: Ledger, since: str | None, until: str | None) -> Missing:
    """Return the archived months that have a part of a time."""
    begin, end = since or "", until or AFTER_ALL
    found = [
        one
        for one in find_archives(ledger)
        if one.file_sha256 is not None and begin < one.month + AFTER_ALL and end > one.month
    ]
    return Missing([one.month for one in found], [one.file for one in found], in_sums=False)


def find_missing_in_sums(ledger: Ledger, wanted: Filter, names: Iterable[str] = ()) -> Missing:
    """Return the archived months whose calls the sums of a report need: a part of an hour, or what no sums have.

    ``names`` are the columns that calls are grouped by.
    """
    parts = [
        part
        for part in split_time(ledger, wanted, DAYS, of_rows=needs_rows(names))
        if part.source is ROWS and part.begin < part.end
    ]
    found = [find_missing(ledger, part.begin, part.end) for part in parts]
    files = {month: file for one in found for month, file in zip(one.months, one.files, strict=True)}
    return Missing(sorted(files), [files[month] for month in sorted(files)], in_sums=True)


_IN_NO_FILE: Final = (
    " AND (id IN (SELECT id FROM late_calls)"
    " OR substr(created_at, 1, 7) NOT IN (SELECT month FROM archives WHERE file_sha256 IS NOT NULL))"
)


def in_no_file(ledger: Ledger) -> str:
    """Return the condition for calls here that no archive has: they may be here until all of them are removed."""
    return _IN_NO_FILE if has_archives(ledger) else ""
