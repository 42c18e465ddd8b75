"""Pages of calls: each begins where another ended, and each takes a bounded time. Source: docs/console.md.

Calls are sorted by ``created_at`` and by their ids, so a position is the same in both engines and in a copy. A call is
written when it ends, so it may come below calls that are already shown. ``count_written`` finds those, too.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol, Self

from addon.store.money.ledger import Ledger, find_columns
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.recent_calls import find_times
from addon.store.money.sums.rollup_schema import AFTER_ALL
from addon.text.table import Table


class SearchBounds(NamedTuple):
    """How many rows are looked at in one statement, and how many for one page. A page says how far it came."""

    step: int = 10_000
    page: int = 250_000


DEFAULT_BOUNDS: Final = SearchBounds()

MAX_COUNTED: Final = 10_000
"""How many of the rows that were written later are looked at."""

_POSITION = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z_([ -~]{0,200})", re.ASCII)

type _Time = tuple[str, str]
"""A time, from its first text until before its second."""


@dataclass(frozen=True, slots=True)
class CallPosition:
    """A position in the order of calls: that of one call, or one before or after all calls of a moment.

    Before them the id is "", and after them ``AFTER_ALL``.
    """

    created_at: str
    id: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the position that ``str`` wrote. Raises ValueError."""
        found = _POSITION.fullmatch(text)
        if found is None:
            raise ValueError("must be a position such as 2026-01-31T12:00:00.000Z_req_123")
        return cls(f"{found[1]}+00:00", found[2])

    def __str__(self) -> str:
        return f"{self.created_at.removesuffix('+00:00')}Z_{self.id}"


@dataclass(frozen=True, slots=True)
class CallPage:
    """Some calls, the newest first.

    There may be more of the wanted calls before the position ``older``, and after ``newer``. None: there are no more.
    ``is_whole`` says that no row was left out because too many had to be looked at.
    """

    calls: Table
    older: CallPosition | None
    newer: CallPosition | None
    is_whole: bool


class CallSearch(Protocol):
    """A search for calls from a position on, in one direction. ``stopped_at``: too many rows were looked at."""

    columns: Sequence[str]
    stopped_at: CallPosition | None

    @property
    def is_whole(self) -> bool: ...

    def find(self, limit: int) -> list[Any]: ...


def find_page(
    ledger: Ledger,
    wanted: Filter,
    limit: int,
    *,
    before: CallPosition | None = None,
    after: CallPosition | None = None,
    bounds: SearchBounds = DEFAULT_BOUNDS,
) -> CallPage:
    """Return the newest calls, the newest of those before a position, or the oldest of those after it."""
    search = _Search(ledger, wanted, before or after, bounds, newest_first=after is None)
    return fill_page(search, limit, before, after)


def fill_page(
    search: CallSearch, limit: int, before: CallPosition | None, after: CallPosition | None
) -> CallPage:
    """Return the page of a search that began at one of both positions, or at the newest call."""
    rows = search.find(limit + 1)
    has_more, rows = len(rows) > limit, rows[:limit]
    if after is not None:
        rows.reverse()
    first, last = (position_of(rows[0]), position_of(rows[-1])) if rows else (None, None)
    # The next page begins at the last row of this one, or where the search ended.
    onward = (last if after is None else first) if has_more else search.stopped_at
    calls = Table(search.columns, [row[:-2] for row in rows])
    # A page without calls leads back to its own position, and no wanted call of that moment is beyond it.
    if after is not None:
        return CallPage(calls, last or CallPosition(after.created_at, AFTER_ALL), onward, search.is_whole)
    newer = before and (first or CallPosition(before.created_at, ""))
    return CallPage(calls, onward, newer, search.is_whole)


def find_last_written(ledger: Ledger) -> int:
    """Return the number of the row that was written last. Each row has a higher one than those before it."""
    (rowid,) = ledger.execute("SELECT coalesce(max(rowid), 0) FROM usage").fetchone()
    return int(rowid)


def count_written(ledger: Ledger, wanted: Filter, after: int) -> tuple[int, bool]:
    """Return how many wanted calls were written after the row ``after``, and whether all rows since were looked at."""
    where, values = wanted.rows()
    sql = f"""
        SELECT count(*) FILTER (WHERE {where}), count(*)
        FROM (SELECT * FROM usage WHERE rowid > ? ORDER BY rowid LIMIT ?) AS written
    """  # noqa: S608
    found, looked_at = ledger.execute(sql, (*values, after, MAX_COUNTED)).fetchone()
    return found, looked_at < MAX_COUNTED


class _Search:
    """A search for calls from ``start`` on, in one direction."""

    def __init__(
        self,
        ledger: Ledger,
        wanted: Filter,
        start: CallPosition | None,
        bounds: SearchBounds,
        *,
        newest_first: bool,
    ) -> None:
        self._ledger = ledger
        self._start = start
        self._bounds = bounds
        self._newest_first = newest_first
        self._wanted = wanted if start is None else _narrow(wanted, start, newest_first=newest_first)
        self._order = "DESC" if newest_first else "ASC"
        self._looked_at = 0
        self.columns: Sequence[str] = find_columns(ledger, "usage")
        self.stopped_at: CallPosition | None = None

    @property
    def is_whole(self) -> bool:
        return self.stopped_at is None

    def find(self, limit: int) -> list[Any]:
        """Return at most ``limit`` rows, each with its position as its last two values."""
        rows = list[Any]()
        for begin, end in self._steps():
            rows += self._select(begin, end, limit - len(rows))
            if len(rows) == limit:
                break
        return rows

    def _steps(self) -> Iterator[_Time]:
        """Return the times of some rows each, until there are no more, or until too many were looked at."""
        for begin, end in find_times(self._ledger, self._wanted, newest_first=self._newest_first):
            rest: tuple[str, str] | None = (begin, end)
            while rest is not None:
                step, rest, count, last = self._split(*rest)
                yield step
                self._looked_at += count
                if self._looked_at >= self._bounds.page:
                    self.stopped_at = CallPosition(last, "" if self._newest_first else AFTER_ALL)
                    return

    def _split(self, begin: str, end: str) -> tuple[_Time, _Time | None, int, str]:
        """Return the time of the next step, the rest, how many rows the step has, and the moment of its last one."""
        count, moment = self._look(begin, end)
        if count < self._bounds.step:
            return (begin, end), None, count, moment
        if self._newest_first:
            return (moment, end), (begin, moment), count, moment
        return (begin, moment + AFTER_ALL), (moment + AFTER_ALL, end), count, moment

    def _look(self, begin: str, end: str) -> tuple[int, str]:
        """Return how many rows the next step has, and the moment of the last one of them. Only an index is read."""
        workspace = self._wanted.workspace
        narrowed, values = ("workspace = ? AND ", [workspace]) if workspace is not None else ("", [])
        sql = f"""
            SELECT count(*), {"min" if self._newest_first else "max"}(created_at)
            FROM (SELECT created_at FROM usage WHERE {narrowed}created_at >= ? AND created_at < ?
                  ORDER BY created_at {self._order} LIMIT ?) AS looked_at
        """  # noqa: S608
        count, moment = self._ledger.execute(sql, (*values, begin, end, self._bounds.step)).fetchone()
        return count, moment or ""

    def _select(self, begin: str, end: str, limit: int) -> list[Any]:
        where, values = replace(self._wanted, since=begin, until=end).rows()
        if self._start is not None:
            sign = "<" if self._newest_first else ">"
            where += f" AND (created_at <> ? OR id {sign} ?)"
            values += [self._start.created_at, self._start.id]
        sql = f"""
            SELECT {", ".join(self.columns)}, created_at, id FROM usage WHERE {where}
            ORDER BY created_at {self._order}, id {self._order} LIMIT ?
        """  # noqa: S608
        return self._ledger.execute(sql, (*values, limit)).fetchall()


def _narrow(wanted: Filter, start: CallPosition, *, newest_first: bool) -> Filter:
    """Return the filter for calls up to, or from, the moment of ``start``."""
    if newest_first:
        end = start.created_at + (AFTER_ALL if start.id else "")
        return replace(wanted, until=min(end, wanted.until or AFTER_ALL))
    begin = start.created_at + (AFTER_ALL if start.id == AFTER_ALL else "")
    return replace(wanted, since=max(begin, wanted.since or ""))


def position_of(row: Sequence[Any]) -> CallPosition:
    """Return the position of a row that has it as its last two values."""
    return CallPosition(row[-2], row[-1])
