"""The sums of calls in PostgreSQL: two tables for each of SQLite's, and a view with its name that adds them up.

Triggers on ``usage`` add up the rows of each statement in ``rollup_parts``, in rows that only their own process of the
server writes (``writer``): no two transactions wait for each other. ``merging`` moves the rows of ended hours into
the tables ``…_merged``, which have one row a group. The views have both, so they are right at every moment.
Counters are kept in the same way, in ``spend_parts`` with the view ``spend``.

The distribution of durations is one number: twelve decimal digits for each bucket, the first bucket last. So
distributions are added, and subtracted, like any sum, and a row of a writer may be negative.
Source: docs/ledger.md, docs/decisions/triggers-keep-the-rollups.md.
"""

from collections.abc import Iterator
from typing import Final

from addon.store.money.sums.distribution_numbers import BUCKET_DIGITS
from addon.store.money.sums.rollup_schema import (
    BUCKET_BOUNDS_MS,
    BUCKETS,
    ENDED_TABLES,
    HOURS,
    TABLES,
    RollupTable,
    add_up,
)
from addon.store.money.sums.rollups import DAY_DIGITS

_TEXT: Final = 'text COLLATE "C" NOT NULL'
PARTS: Final = "rollup_parts"
"""The sums by hour that are not merged yet."""
COUNTER_PARTS: Final = "spend_parts"
"""The counters of each writer. Those that are merged have the writer 0."""

_HOT: Final = "fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000"
"""The settings of a table whose few rows change with every call."""

_DAYS_UNTIL: Final = "(SELECT days_until FROM rollup_progress)"
LATE: Final = f"{PARTS}.hour < {_DAYS_UNTIL}"
"""The condition for a part of an hour that was merged before: calls of it ended, or were changed, later."""


MERGING_LOCK: Final = "hashtextextended('tollgate:merging', 0)"
"""The advisory lock of who merges sums, or repairs them."""


def sum_calls(table: RollupTable) -> str:
    """Return the SQL that adds up the calls between two moments in the groups of ``table``."""
    groups = [f"{value} AS {name}" for name, value in table.groups.items()]
    sums = [f"{add_up(value)} AS {name}" for name, value in table.sums.items()]
    buckets = [f"coalesce(sum(bucket_unit({value})), 0) AS {name}" for name, value in table.buckets.items()]
    return (
        f"SELECT {', '.join([*groups, *sums, *buckets])} FROM usage AS call"  # noqa: S608
        f" WHERE call.created_at >= ? AND call.created_at < ? GROUP BY {', '.join(table.groups.values())}"
    )


def merged(table: RollupTable) -> str:
    """Return the name of the table of merged sums."""
    return f"{table.name}_merged"


def add_groups(table: RollupTable, source: str) -> str:
    """Return the SQL that adds up rows of ``table`` in each group. The groups are those of all rows in ``source``."""
    groups = ", ".join(table.groups)
    sums = [f"sum({name})::bigint AS {name}" for name in table.sums]
    buckets = [f"sum({name}) AS {name}" for name in table.buckets]
    return f"SELECT {groups}, {', '.join(sums + buckets)} FROM {source} GROUP BY {groups}"  # noqa: S608


def derive(table: RollupTable, source: str) -> str:
    """Return the SQL that makes rows of ``table`` from rows by hour, one from each."""
    made = {"day": f"substr(hour, 1, {DAY_DIGITS})", "failed_calls": "iif(status_class >= '4', calls, 0)"}
    columns = [f"{made[name]} AS {name}" if name in made else name for name in table.columns]
    return f"SELECT {', '.join(columns)} FROM {source}"  # noqa: S608


def _tables() -> Iterator[str]:
    yield _table(PARTS, HOURS, ", writer bigint NOT NULL", ", writer", f" WITH ({_HOT})")
    for table in TABLES:
        yield _table(merged(table), table)


def _table(name: str, table: RollupTable, more: str = "", more_key: str = "", settings: str = "") -> str:
    columns = [
        *(f"{one} {_TEXT}" for one in table.groups),
        *(f"{one} bigint NOT NULL" for one in table.sums),
        *(f"{one} numeric NOT NULL" for one in table.buckets),
    ]
    key = ", ".join(table.groups)
    return f"CREATE TABLE {name} ({', '.join(columns)}{more}, PRIMARY KEY ({key}{more_key})){settings}"


def _views() -> Iterator[str]:
    columns = ", ".join(HOURS.columns)
    yield _view(HOURS, f"SELECT {columns} FROM {PARTS}")  # noqa: S608
    for table in ENDED_TABLES:
        yield _view(table, f"{derive(table, PARTS)} WHERE {LATE}")


def _view(table: RollupTable, parts: str) -> str:
    """Return the view of a table: merged sums, and ``parts`` added up, together with merged sums of the same period.

    Readers look for periods, so these conditions let few rows be added up.
    """
    columns, name = ", ".join(table.columns), merged(table)
    period = "hour" if table.period == "hour" else f"substr(hour, 1, {DAY_DIGITS})"
    late = f"(SELECT {period} FROM {PARTS} WHERE {LATE})"  # noqa: S608
    together = f"({parts} UNION ALL SELECT {columns} FROM {name} WHERE {table.period} IN {late}) AS together"  # noqa: S608
    return (
        f"CREATE VIEW {table.name} AS SELECT {columns} FROM {name}"  # noqa: S608
        f" WHERE calls <> 0 AND {table.period} NOT IN {late}"
        f" UNION ALL {add_groups(table, together)} HAVING sum(calls) <> 0"
    )


def _functions() -> Iterator[str]:
    bounds = ",".join(map(str, BUCKET_BOUNDS_MS))
    width = BUCKET_DIGITS
    units = ",".join(f"1e{BUCKET_DIGITS * bucket}" for bucket in range(BUCKETS))
    yield f"""
        CREATE FUNCTION bucket_unit(bigint) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE
        AS $$ SELECT ('{{{units}}}'::numeric[])[width_bucket($1 - 1, '{{{bounds}}}'::bigint[]) + 1] $$
    """
    # A number that is none of a distribution has a sign, and is refused.
    yield f"""
        CREATE FUNCTION buckets_text(numeric) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
            SELECT '{{' || coalesce(string_agg('"' || bucket || '":' || count, ','), '') || '}}'
            FROM (
                SELECT bucket, substr(digits, length(digits) - {width} * (bucket + 1) + 1, {width})::bigint AS count
                FROM (SELECT repeat('0', {width}) || $1::text AS digits) AS shown,
                    generate_series(0, (length(digits) - {width}) / {width}) AS bucket
            ) AS counted
            WHERE count <> 0
        $$
    """  # noqa: S608
    # That of PostgreSQL sums up ``numeric``, which takes longer.
    yield "CREATE AGGREGATE total(bigint) (SFUNC = int8pl, STYPE = bigint, COMBINEFUNC = int8pl, PARALLEL = SAFE)"
    # The lists of distributions that readers ask for: here one distribution, which is their sum.
    yield """
        CREATE AGGREGATE group_concat(numeric) (
            SFUNC = numeric_add, STYPE = numeric, FINALFUNC = buckets_text,
            COMBINEFUNC = numeric_add, PARALLEL = SAFE
        )
    """


def _addition(source: str, sign: str = "") -> str:
    """Return the SQL that adds the calls of ``source`` to the parts of this writer, or with "-" subtracts them."""
    sums = [f"{sign}{add_up(value).replace('sum', 'total', 1)}" for value in HOURS.sums.values()]
    buckets = [f"{sign}coalesce(sum(bucket_unit({value})), 0)" for value in HOURS.buckets.values()]
    groups = ", ".join(str(place + 1) for place in range(len(HOURS.groups)))
    changed = [f"{name} = {PARTS}.{name} + excluded.{name}" for name in (*HOURS.sums, *HOURS.buckets)]
    return f"""
        INSERT INTO {PARTS} ({", ".join(HOURS.columns)}, writer)
        SELECT {", ".join([*HOURS.groups.values(), *sums, *buckets])}, pg_backend_pid()
        FROM {source} AS call GROUP BY {groups}
        ON CONFLICT ({", ".join(HOURS.groups)}, writer) DO UPDATE SET {", ".join(changed)};
    """  # noqa: S608


_IN_FILES: Final = "substr(created_at, 1, 7) IN (SELECT month FROM archives)"

_TRIGGERS: Final = {
    "INSERT": (
        "NEW TABLE AS new_calls",
        f"""
        {_addition("new_calls")}
        IF EXISTS (SELECT FROM archives) THEN
            INSERT INTO late_calls SELECT id FROM new_calls WHERE {_IN_FILES} ON CONFLICT DO NOTHING;
        END IF;
        """,  # noqa: S608
    ),
    "UPDATE": (
        "OLD TABLE AS old_calls NEW TABLE AS new_calls",
        f"{_addition('old_calls', '-')} {_addition('new_calls')}",
    ),
    "DELETE": (
        "OLD TABLE AS old_calls",
        # A call that is removed into a file stays in the sums.
        f"""
        IF NOT EXISTS (SELECT 1 FROM archive_removal) THEN {_addition("old_calls", "-")} END IF;
        DELETE FROM late_calls WHERE id IN (SELECT id FROM old_calls);
        """,  # noqa: S608
    ),
}


def _triggers() -> Iterator[str]:
    for event, (rows, statements) in _TRIGGERS.items():
        name = f"usage_after_{event.lower()}"
        body = f"BEGIN {statements} RETURN NULL; END"
        yield f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$"
        yield (
            f"CREATE TRIGGER {name} AFTER {event} ON usage REFERENCING {rows}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
        )


_COUNTERS: Final = (
    f"""
    CREATE TABLE {COUNTER_PARTS} (
        scope {_TEXT},
        period {_TEXT},
        spent_nanousd bigint NOT NULL,
        requests bigint NOT NULL CHECK (requests >= 0),
        writer bigint NOT NULL,
        PRIMARY KEY (scope, period, writer)
    ) WITH ({_HOT})
    """,
    f"""
    CREATE VIEW spend AS
    SELECT scope, period, sum(spent_nanousd)::bigint AS spent_nanousd, sum(requests)::bigint AS requests
    FROM {COUNTER_PARTS} GROUP BY scope, period
    """,  # noqa: S608
)

SUM_SCHEMA: Final = (
    """
    CREATE TABLE rollup_progress (
        hours_from text COLLATE "C" NOT NULL, days_until text COLLATE "C" NOT NULL,
        days_from text COLLATE "C" NOT NULL, client_ids_from text COLLATE "C" NOT NULL
    )
    """,
    # Every row is in the sums, from the first one on.
    "INSERT INTO rollup_progress VALUES ('', '', '', '')",
    *_COUNTERS,
    # An index of the calls that have an id of their client does what a table does in SQLite.
    "CREATE INDEX usage_client_requests ON usage (client_request_id, created_at, id)"
    " WHERE client_request_id IS NOT NULL",
    """
    CREATE VIEW client_requests AS
    SELECT client_request_id, created_at, id FROM usage WHERE client_request_id IS NOT NULL
    """,
    *_functions(),
    *_tables(),
    *_views(),
    *_triggers(),
)
"""The statements that create the sums, their views and the triggers, in order. ``usage`` and archives are there."""
