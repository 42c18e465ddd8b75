"""The SQL of PostgreSQL for the steps of ``store/money``: one statement for all rows, which are one value.

What each call does is a ``Function``, and what is rare gets its rows as JSON. Rows are touched in the order of their
keys. So two transactions never wait for each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import msgspec

from addon.store.money.attempt_schema import ATTEMPTS
from addon.store.money.engine import (
    COUNTED_APIS,
    ENTRIES,
    HOLDS,
    PAYMENTS,
    PRICES,
    REFUSALS,
    Asked,
    Row,
    Rows,
    Statement,
    Table,
)
from addon.store.money.postgres.functions import GIVEN, Function
from addon.store.money.postgres.schema import SCHEMA
from addon.store.money.postgres.sum_schema import COUNTER_PARTS
from addon.store.money.rows import USAGE
from policies.exchange import INTERRUPTED
from policies.limits import period_end, period_start
from policies.spend import CounterUse


class PostgresEngine:
    """The ``Engine`` of PostgreSQL."""

    def read_used(self, asked: Sequence[Asked]) -> Statement:
        """See ``Engine.read_used``."""
        rows: list[tuple[Any, ...]] = []
        for place, one in enumerate(asked):
            scope, period = one.limit.counter.scope, one.limit.counter.period
            whose = (one.workspace, one.key_id if one.of_key else None)
            days = (period_start(period), period_end(period))
            rows.append((place, scope, period, *whose, *days, one.except_id))
        if any(one.of_budget for one in asked):
            rows = [(*row, int(one.of_budget)) for row, one in zip(rows, asked, strict=True)]
            return _READ_USED_OF_BUDGETS(rows)
        return _READ_USED(rows)

    def find_used(self, rows: Rows, count: int) -> list[CounterUse]:  # noqa: ARG002  (each limit has its row)
        """See ``Engine.find_used``."""
        return [CounterUse(*found) for found in rows]

    def insert(self, table: Table, rows: Sequence[Sequence[Any]]) -> Sequence[Statement]:
        """See ``Engine.insert``."""
        return [_INSERTIONS[table](sorted(rows, key=itemgetter(0)))]

    def replace_interrupted(self, rows: Iterable[Row]) -> Sequence[Statement]:
        """See ``Engine.replace_interrupted``."""
        named = [{name: row[name] for name in USAGE.columns} for row in rows]
        return [Statement(_REPLACE_ROWS, (encode(named),))]

    def remove_attempts(self, ids: Sequence[str]) -> Sequence[Statement]:
        """See ``Engine.remove_attempts``."""
        return [Statement("DELETE FROM attempts WHERE call_id = ANY(?)", (list(ids),))]

    def replace_holds(self, rows: Sequence[Sequence[Any]]) -> Sequence[Statement]:
        """See ``Engine.replace_holds``."""
        named = [dict(zip(HOLDS.columns, row, strict=True)) for row in rows]
        return [Statement(_REPLACE_HOLDS, (encode(named),))]

    def find_holds(self, ids: Sequence[str]) -> Sequence[Statement]:
        """See ``Engine.find_holds``."""
        return [Statement(_FIND_HOLDS, (list(ids),))]

    def release(self, ids: Sequence[str]) -> Sequence[Statement]:
        """See ``Engine.release``."""
        return [_RELEASE([(one,) for one in ids])]

    def count(self, sums: Mapping[tuple[str, str], tuple[int, int]]) -> Statement:
        """See ``Engine.count``."""
        return _COUNT([(*place, *added) for place, added in sorted(sums.items())])

    def find_scopes(self, scopes: Sequence[str]) -> Statement:
        return Statement(_FIND_SCOPES, (list(scopes),))

    def count_scopes(self, first: str, end: str) -> Statement:
        return Statement(_COUNT_SCOPES, (first, end))

    def note_batch(self, batch_id: str) -> Statement:
        """See ``Engine.note_batch``."""
        return Statement(_NOTE_BATCH, (batch_id,))

    def count_refusals(self, rows: Sequence[Sequence[Any]]) -> Sequence[Statement]:
        """See ``Engine.count_refusals``."""
        named = [dict(zip(REFUSALS.columns, one, strict=True)) for one in rows]
        return [Statement(_COUNT_REFUSALS, (encode(named),)), Statement(_FORGET_BATCHES)]


POSTGRES: Final = PostgresEngine()


def encode(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as JSON. Raises UnicodeEncodeError, OverflowError."""
    return msgspec.json.encode(rows).decode()


_NUMBERS: Final = frozenset(
    {"place", "spent_nanousd", "requests", "amount_nanousd", "cap_tokens", "count", "of_budget", "number"}
    | {*COUNTED_APIS}
    | {name for name in USAGE.columns if f" {name} bigint" in SCHEMA[1]}
)


def _from_json(*columns: str) -> str:
    """Return the SQL of the rows in one JSON value."""
    typed = [f"{name} {'bigint' if name in _NUMBERS else 'text'}" for name in columns]
    return f"json_to_recordset(?::json) AS given ({', '.join(typed)})"


def _columns(*names: str) -> dict[str, str]:
    return {name: "bigint" if name in _NUMBERS else 'text COLLATE "C"' for name in names}


def _insertion(table: Table) -> Function:
    names, key = ", ".join(table.columns), table.columns[0]
    conflict = "" if table.known == "error" else " ON CONFLICT DO NOTHING"
    sql = f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {GIVEN}{conflict} RETURNING {key}"  # noqa: S608
    return Function(f"insert_{table.name}", _columns(*table.columns), sql, "SETOF text")


def _update(table: Table, where: str) -> str:
    sets = ", ".join(f"{name} = given.{name}" for name in table.columns)
    return f"UPDATE {table.name} SET {sets} FROM {_from_json(*table.columns)} WHERE {where}"  # noqa: S608


_INSERTIONS: Final = {
    table: _insertion(table) for table in (USAGE, HOLDS, ENTRIES, PAYMENTS, PRICES, ATTEMPTS)
}


def _read_used(name: str, within: str, *columns: str) -> Function:
    """Return the function that reads the use of limits. Of the holds of a workspace those ``within`` count."""
    given = ("place", "scope", "period", "workspace", "key_id", "begins", "ends", "except_id", *columns)
    return Function(
        name,
        _columns(*given),
        f"""
        SELECT spent.nanousd, spent.requests, held.nanousd, held.calls
        FROM {GIVEN}
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(spent_nanousd), 0)::bigint AS nanousd, coalesce(sum(requests), 0)::bigint AS requests
            FROM {COUNTER_PARTS} AS part WHERE part.scope = given.scope AND part.period = given.period
        ) AS spent
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(amount_nanousd), 0)::bigint AS nanousd, count(*) AS calls FROM holds
            WHERE holds.workspace = given.workspace AND {within} AND holds.id IS DISTINCT FROM given.except_id
        ) AS held
        ORDER BY given.place
        """,  # noqa: S608
        "TABLE (spent_nanousd bigint, requests bigint, held_nanousd bigint, calls bigint)",
    )


_OF_KEYS: Final = """
    (given.key_id IS NULL OR holds.key_id = given.key_id)
    AND holds.created_at >= given.begins AND holds.created_at < given.ends
"""
_READ_USED: Final = _read_used("read_used", _OF_KEYS)
# The scope of a budget has the period.
_READ_USED_OF_BUDGETS: Final = _read_used(
    "read_used_of_budgets",
    f"CASE WHEN given.of_budget = 1 THEN jsonb_exists(holds.budgets::jsonb, given.scope) ELSE {_OF_KEYS} END",
    "of_budget",
)
_FIND_SCOPES: Final = f"SELECT DISTINCT scope FROM {COUNTER_PARTS} WHERE scope = ANY(?)"  # noqa: S608
_COUNT_SCOPES: Final = f"SELECT count(DISTINCT scope) FROM {COUNTER_PARTS} WHERE scope >= ? AND scope < ?"  # noqa: S608
_REPLACE_ROWS: Final = _update(
    USAGE,
    "usage.id = given.id AND usage.created_at = given.created_at"
    f" AND usage.error_code = '{INTERRUPTED}' AND usage.usage_source = 'none' AND usage.duration_ms = 0"
    " RETURNING usage.id",
)
_REPLACE_HOLDS: Final = _update(HOLDS, "holds.id = given.id")
_FIND_HOLDS: Final = (
    "SELECT id, amount_nanousd, cap_tokens, owner, interrupted_row, budgets FROM holds WHERE id = ANY(?)"
)
_RELEASE: Final = Function(
    "release", _columns("id"), "DELETE FROM holds WHERE id = ANY (ARRAY(SELECT id FROM unnest($1)))"
)
_COUNT: Final = Function(
    "count_calls",
    _columns("scope", "period", "spent_nanousd", "requests"),
    f"""
    INSERT INTO {COUNTER_PARTS} (scope, period, spent_nanousd, requests, writer)
    SELECT scope, period, spent_nanousd, requests, pg_backend_pid()
    FROM {GIVEN}
    ON CONFLICT (scope, period, writer) DO UPDATE
    SET spent_nanousd = {COUNTER_PARTS}.spent_nanousd + excluded.spent_nanousd,
        requests = {COUNTER_PARTS}.requests + excluded.requests
    """,  # noqa: S608
)
FUNCTIONS: Final = (*_INSERTIONS.values(), _READ_USED, _READ_USED_OF_BUDGETS, _RELEASE, _COUNT)
"""The statements of each call."""
_NOTE_BATCH: Final = "INSERT INTO refusal_batches (id) VALUES (?) ON CONFLICT DO NOTHING RETURNING id"
_COUNT_REFUSALS: Final = f"""
    INSERT INTO refusals ({", ".join(REFUSALS.columns)})
    SELECT {", ".join(REFUSALS.columns)}
    FROM {_from_json(*REFUSALS.columns)}
    ORDER BY hour COLLATE "C", workspace COLLATE "C", key_id COLLATE "C", code COLLATE "C"
    ON CONFLICT (hour, workspace, key_id, code) DO UPDATE
    SET {", ".join(f"{name} = refusals.{name} + excluded.{name}" for name in REFUSALS.columns[4:])}
"""  # noqa: S608
_FORGET_BATCHES: Final = "DELETE FROM refusal_batches WHERE written_at < now() - interval '1 hour'"
