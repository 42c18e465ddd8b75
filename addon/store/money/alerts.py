"""The ledger's queue of alerts, the marks of what was alerted, and what the rows of calls say that alerts need.

Each function runs in the caller's transaction. Source: docs/ledger.md, docs/alerts.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from addon.store.money.ledger import Ledger
from addon.text.table import Table

MAX_WAITING: Final = 10_000
"""How many alerts may wait. One more is dropped."""

MAX_ENDED: Final = 1_000
"""How many alerts are kept after they were sent or dropped, for ``tollgate alerts list``."""

LIST_COLUMNS: Final = (
    "id",
    "created_at",
    "type",
    "workspace",
    "status",
    "attempts",
    "next_at",
    "ended_at",
    "answer",
)


@dataclass(frozen=True, slots=True)
class NewAlert:
    """An alert for the queue. ``body`` is its JSON, ``text`` the sentence in it."""

    id: str
    created_at: str
    type: str
    workspace: str | None
    text: str
    body: str


class WaitingAlert(NamedTuple):
    """An alert that is due. ``attempts`` counts those that failed."""

    id: str
    created_at: str
    type: str
    attempts: int
    body: str


class Rescue(NamedTuple):
    """Calls of one workspace that were repeated with a platform key after one with the customer's had failed."""

    workspace: str
    provider: str
    calls: int
    retail_nanousd: int


class NewRows(NamedTuple):
    """The new rows up to ``last``: their callers, and the fallbacks with a platform key by provider."""

    last: int
    callers: frozenset[tuple[str, str]]
    fallbacks: Sequence[Rescue]


# The queue.


def enqueue(
    connection: Ledger,
    alerts: Iterable[NewAlert],
    marks: Mapping[str, str | None],
    *,
    is_sent: bool,
) -> tuple[list[NewAlert], list[NewAlert]]:
    """Add alerts and change marks. None removes a mark.

    Return the alerts that are new, and those among them that the queue has no room for. Where alerts are not sent at
    all, they are kept as ``unsent``.
    """
    room = MAX_WAITING - count_waiting(connection)
    new, dropped = [], []
    for alert in alerts:
        status = "unsent" if not is_sent else "waiting" if room > 0 else "dropped"
        if _insert(connection, alert, status):
            new.append(alert)
            room -= status == "waiting"
            if status == "dropped":
                dropped.append(alert)
    _change_marks(connection, marks)
    if new:
        _forget_old(connection)
    return new, dropped


def _insert(connection: Ledger, alert: NewAlert, status: str) -> bool:
    """Add an alert. Return whether its id is new."""
    is_waiting = status == "waiting"
    next_at, ended_at = (alert.created_at, None) if is_waiting else (None, alert.created_at)
    name = (alert.id, alert.created_at, alert.type, alert.workspace)
    return bool(connection.execute(_INSERT, (*name, status, next_at, ended_at, alert.body)).rowcount)


def _change_marks(connection: Ledger, marks: Mapping[str, str | None]) -> None:
    for name, value in marks.items():
        if value is None:
            connection.execute("DELETE FROM alert_marks WHERE name = ?", (name,))
        else:
            connection.execute(_MARK, (name, value))


_MARK = """
    INSERT INTO alert_marks (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_INSERT = """
    INSERT INTO alerts (id, created_at, type, workspace, status, attempts, next_at, ended_at, body)
    VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?) ON CONFLICT (id) DO NOTHING
"""


def _forget_old(connection: Ledger) -> None:
    connection.execute(
        "DELETE FROM alerts WHERE status <> 'waiting' AND id NOT IN"
        " (SELECT id FROM alerts WHERE status <> 'waiting' ORDER BY ended_at DESC LIMIT ?)",
        (MAX_ENDED,),
    )


def count_waiting(connection: Ledger) -> int:
    """Return how many alerts wait."""
    found: int = connection.execute("SELECT count(*) FROM alerts WHERE status = 'waiting'").fetchone()[0]
    return found


def find_due(connection: Ledger, now: str, limit: int) -> list[WaitingAlert]:
    """Return the alerts whose next attempt is due, the oldest first."""
    sql = (
        "SELECT id, created_at, type, attempts, body FROM alerts"
        " WHERE status = 'waiting' AND next_at <= ? ORDER BY created_at, rowid LIMIT ?"
    )
    return [WaitingAlert(*row) for row in connection.execute(sql, (now, limit))]


def note_sent(connection: Ledger, alert_id: str, now: str, answer: str) -> None:
    """Record that an alert was taken."""
    sql = (
        "UPDATE alerts SET status = 'sent', attempts = attempts + 1, next_at = NULL, ended_at = ?, answer = ?"
    )
    connection.execute(f"{sql} WHERE id = ?", (now, answer, alert_id))


def note_failed(connection: Ledger, alert_id: str, answer: str, next_at: str) -> None:
    """Record a failed attempt, and when the next one is due."""
    sql = "UPDATE alerts SET attempts = attempts + 1, next_at = ?, answer = ? WHERE id = ?"
    connection.execute(sql, (next_at, answer, alert_id))


def drop_old(connection: Ledger, before: str, now: str, only: str | None = None) -> list[WaitingAlert]:
    """Drop and return the waiting alerts that are older, or ``only`` the one with this id."""
    sql = (
        "UPDATE alerts SET status = 'dropped', next_at = NULL, ended_at = ?"
        " WHERE status = 'waiting' AND created_at < ? AND id = coalesce(?, id)"
        " RETURNING id, created_at, type, attempts, body"
    )
    return [WaitingAlert(*row) for row in connection.execute(sql, (now, before, only)).fetchall()]


def list_alerts(connection: Ledger, limit: int) -> Table:
    """Return the newest alerts, those that wait first. A ledger of an older version has none."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'alerts'").fetchone():
        return Table(LIST_COLUMNS, [])
    sql = (
        f"SELECT {', '.join(LIST_COLUMNS)} FROM alerts"  # noqa: S608
        " ORDER BY status <> 'waiting', created_at DESC, id DESC LIMIT ?"
    )
    return Table(LIST_COLUMNS, connection.execute(sql, (limit,)).fetchall())


def read_marks(connection: Ledger) -> dict[str, str]:
    """Return all marks by name."""
    return dict(connection.execute("SELECT name, value FROM alert_marks"))


# What calls and wallets say.


def last_row(connection: Ledger, newest_row: str) -> int:
    """Return the number of the newest row of a call. ``newest_row`` is that of the ``LedgerPlace``."""
    found: int = connection.execute(newest_row).fetchone()[0]
    return found


def read_new_rows(connection: Ledger, newest_row: str, after: int) -> NewRows:
    """Return what was recorded after a row. It reads these rows only.

    A ledger whose rows end before that one is another one: it has no new rows yet.
    """
    callers, fallbacks, last = set(), [], last_row(connection, newest_row)
    for row in connection.execute(_NEWS, (after, last)):
        workspace, key_id, provider, is_fallback, calls, retail_nanousd = row
        callers.add((workspace, key_id))
        if is_fallback:
            fallbacks.append(Rescue(workspace, provider, calls, retail_nanousd))
    return NewRows(last, frozenset(callers), fallbacks)


def read_fallbacks(connection: Ledger, since: str, last: int) -> list[Rescue]:
    """Return the fallbacks with a platform key since a time, up to a row, by workspace and provider."""
    sql = (
        f"SELECT workspace, provider, count(*), sum(retail_nanousd) FROM usage"  # noqa: S608
        f" WHERE created_at >= ? AND rowid <= ? AND {_IS_FALLBACK} GROUP BY 1, 2"
    )
    return [Rescue(*row) for row in connection.execute(sql, (since, last))]


_IS_FALLBACK = "fallback = 1 AND mode = 'payg' AND status < 400"
_NEWS = f"""
    SELECT workspace, key_id, provider, {_IS_FALLBACK}, count(*), sum(retail_nanousd)
    FROM usage WHERE rowid > ? AND rowid <= ? GROUP BY 1, 2, 3, 4
"""  # noqa: S608
