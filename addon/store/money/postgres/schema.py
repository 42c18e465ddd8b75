"""The tables of money in PostgreSQL: those of the SQLite ledger, with the same names. Source: docs/ledger.md.

Text is compared byte by byte, as SQLite does. ``usage`` has a partition for each month of ``created_at``, which is
fixed when the call is held. So its key is the id with that time, and an old month can be dropped at once.
"""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

from addon.store.money.postgres.archive_tables import ARCHIVE_TABLES
from addon.store.money.postgres.compat import COMPAT
from addon.store.money.postgres.fleet_schema import FLEET_SCHEMA
from addon.store.money.postgres.side_schema import SIDE_SCHEMA
from addon.store.money.postgres.sum_schema import SUM_SCHEMA
from addon.store.money.price_set_schema import NOT_KEPT
from addon.store.money.sqlite.early_migration_steps import LARGEST

TABLES_LOCK: Final = "hashtextextended('tollgate:tables', 0)"
"""The advisory lock of who changes tables."""
MONTHS_AHEAD: Final = 3
"""How many partitions are made before their month begins."""

_TEXT: Final = 'text COLLATE "C"'
_MOMENT: Final = (
    f"{_TEXT} NOT NULL CHECK (created_at ~ '^[0-9]{{4}}(-[0-9]{{2}}){{2}}T[0-9:.]{{12}}[+]00:00$')"
)
_MAY_COUNT: Final = f"bigint CHECK (%s BETWEEN 0 AND {LARGEST})"
_MUST_COUNT: Final = f"bigint NOT NULL CHECK (%s BETWEEN 0 AND {LARGEST})"

_USAGE: Final = {
    "id": f"{_TEXT} NOT NULL CHECK (id <> '')",
    "created_at": _MOMENT,
    "workspace": f"{_TEXT} NOT NULL",
    "key_id": f"{_TEXT} NOT NULL",
    "requested_model": _TEXT,
    "model_slug": f"{_TEXT} NOT NULL",
    "provider": f"{_TEXT} NOT NULL",
    "upstream_model_id": f"{_TEXT} NOT NULL",
    "mode": f"{_TEXT} NOT NULL CHECK (mode IN ('payg', 'byok'))",
    "fallback": "bigint NOT NULL CHECK (fallback IN (0, 1))",
    "attempts": "bigint NOT NULL CHECK (attempts >= 1)",
    "stream": "bigint NOT NULL CHECK (stream IN (0, 1))",
    "status": "bigint NOT NULL CHECK (status BETWEEN 100 AND 599)",
    "error_code": _TEXT,
    "finish_reason": _TEXT,
    "prompt_tokens": _MAY_COUNT,
    "completion_tokens": _MAY_COUNT,
    "total_tokens": _MAY_COUNT,
    "cached_tokens": _MAY_COUNT,
    "reasoning_tokens": _MAY_COUNT,
    "usage_source": f"{_TEXT} NOT NULL CHECK (usage_source IN ('provider', 'estimated', 'none'))",
    "wholesale_nanousd": _MUST_COUNT,
    "retail_nanousd": _MUST_COUNT,
    "first_byte_ms": _MAY_COUNT,
    "duration_ms": _MUST_COUNT,
    "end_user": _TEXT,
    "cache_write_tokens": _MAY_COUNT,
    "client_request_id": _TEXT,
    "resends": "bigint NOT NULL DEFAULT 0",
    "reported_nanousd": "bigint",
    "cache_write_1h_tokens": "bigint",
    "audio_input_tokens": "bigint",
    "cached_audio_tokens": "bigint",
    "image_input_tokens": "bigint",
    "audio_output_tokens": "bigint",
    "searches": "bigint",
    "service_tier": _TEXT,
    "price_set": f"{_TEXT} DEFAULT '{NOT_KEPT}'",
    "platform_key": "bigint",
}
"""The columns of ``usage``, in the order of SQLite."""

_MONEY: Final = f"bigint NOT NULL CHECK (amount_nanousd BETWEEN {-LARGEST * 100} AND {LARGEST * 100})"

SCHEMA: Final = (
    "CREATE SEQUENCE usage_numbers CACHE 100",
    "CREATE TABLE usage ("
    + ", ".join(f"{name} {kind.replace('%s', name)}" for name, kind in _USAGE.items())
    # Tokens that were not counted are not billed.
    + ", CHECK (usage_source <> 'none' OR (wholesale_nanousd = 0 AND retail_nanousd = 0))"
    # The transaction that wrote the row, and the row's number in it, as 20 bits. So rows are in the order in which they
    # were written, and those of transactions that have ended are below a number. It is the rowid of SQLite.
    ", rowid bigint NOT NULL"
    " DEFAULT (pg_current_xact_id()::text::bigint << 20) + nextval('usage_numbers') % (1 << 20)"
    ", PRIMARY KEY (id, created_at)) PARTITION BY RANGE (created_at)",
    "CREATE INDEX usage_created_at ON usage (created_at)",
    "CREATE INDEX usage_rowid ON usage (rowid)",
    "CREATE INDEX usage_workspace_created_at ON usage (workspace, created_at)",
    f"""
    CREATE TABLE wallet_entries (
        id {_TEXT} PRIMARY KEY CHECK (id <> ''),
        created_at {_MOMENT},
        workspace {_TEXT} NOT NULL,
        amount_nanousd {_MONEY},
        reference {_TEXT} NOT NULL
    )
    """,
    "CREATE INDEX wallet_entries_workspace ON wallet_entries (workspace, created_at)",
    "CREATE INDEX wallet_entries_credits ON wallet_entries (workspace, created_at) WHERE amount_nanousd > 0",
    f"""
    CREATE TABLE holds (
        id {_TEXT} PRIMARY KEY,
        created_at {_TEXT} NOT NULL,
        expires_at {_TEXT} NOT NULL,
        workspace {_TEXT} NOT NULL,
        key_id {_TEXT} NOT NULL,
        amount_nanousd bigint NOT NULL CHECK (amount_nanousd BETWEEN 0 AND {LARGEST * 100}),
        owner {_TEXT} NOT NULL,
        cap_tokens bigint NOT NULL,
        interrupted_row {_TEXT} NOT NULL
    ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000)
    """,
    "CREATE INDEX holds_in_flight ON holds (workspace)",
    f"""
    CREATE TABLE prices (
        hash {_TEXT} PRIMARY KEY,
        first_at {_TEXT} NOT NULL,
        model_slug {_TEXT} NOT NULL,
        content {_TEXT} NOT NULL
    )
    """,
    f"""
    CREATE TABLE refusals (
        hour {_TEXT} NOT NULL,
        workspace {_TEXT} NOT NULL,
        key_id {_TEXT} NOT NULL CHECK ((key_id = '') = (workspace = '')),
        code {_TEXT} NOT NULL CHECK (code <> ''),
        count bigint NOT NULL CHECK (count > 0),
        PRIMARY KEY (hour, workspace, key_id, code)
    )
    """,
    f"CREATE TABLE refusal_batches (id {_TEXT} PRIMARY KEY, written_at timestamptz NOT NULL DEFAULT now())",
    # ``version`` counts the migrations that were applied. ``archived_month`` is of files of archives alone.
    f"""
    CREATE TABLE ledger (
        id {_TEXT} NOT NULL, min_reader bigint NOT NULL, version bigint NOT NULL, archived_month {_TEXT}
    )
    """,
    "INSERT INTO ledger VALUES (replace(gen_random_uuid()::text, '-', ''), 1, 0, NULL)",
    f"CREATE TABLE leases (owner {_TEXT} PRIMARY KEY, renewed_at timestamptz NOT NULL, renewals bigint NOT NULL)",
    *COMPAT,
    *SIDE_SCHEMA,
    *ARCHIVE_TABLES,
    *SUM_SCHEMA,
    # A partition is attached, which waits for no report that reads ``usage``, and lets no call wait.
    f"""
    CREATE FUNCTION make_partition(month text, next_month text) RETURNS void LANGUAGE plpgsql
    AS $$
    DECLARE partition text := 'usage_' || replace(month, '-', '_');
    BEGIN
        IF to_regclass(partition) IS NOT NULL THEN RETURN; END IF;
        PERFORM pg_advisory_xact_lock({TABLES_LOCK});
        IF to_regclass(partition) IS NOT NULL THEN RETURN; END IF;
        EXECUTE format('CREATE TABLE %I (LIKE usage INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', partition);
        EXECUTE format(
            'ALTER TABLE usage ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition, month, next_month
        );
    END
    $$
    """,
    *FLEET_SCHEMA,
)
"""The statements that create everything but the partitions, in order."""


class Migration(NamedTuple):
    """A change of the tables. It only adds, so that gateways of the version before go on while it is made.

    ``min_reader`` is the number of the first migration that a version must know to work on the tables afterwards.
    """

    statements: Sequence[str]
    min_reader: int = 1


# Calls wait for who waits for a report that reads ``usage``. So nobody waits for long.
_SOON: Final = "SET LOCAL lock_timeout = 1000"
_TAGS: Final = (_SOON, f"ALTER TABLE usage ADD COLUMN tags {_TEXT}")
_DEPLOYMENT: Final = (_SOON, f"ALTER TABLE usage ADD COLUMN deployment {_TEXT}")
_BUDGETS: Final = (
    _SOON,
    f"ALTER TABLE usage ADD COLUMN budgets {_TEXT}",
    f"ALTER TABLE holds ADD COLUMN budgets {_TEXT}",
)
_ATTEMPTS: Final = (
    f"""
    CREATE TABLE attempts (
        call_id {_TEXT} NOT NULL,
        created_at {_MOMENT},
        number bigint NOT NULL CHECK (number >= 1),
        provider {_TEXT} NOT NULL,
        deployment {_TEXT} NOT NULL,
        mode {_TEXT} NOT NULL CHECK (mode IN ('payg', 'byok')),
        platform_key bigint,
        status bigint NOT NULL CHECK (status BETWEEN 100 AND 599),
        error_code {_TEXT},
        duration_ms bigint NOT NULL CHECK (duration_ms >= 0),
        PRIMARY KEY (call_id, number)
    )
    """,
    "CREATE INDEX attempts_created_at ON attempts (created_at)",
)

_API: Final = (
    _SOON,
    f"ALTER TABLE usage ADD COLUMN api {_TEXT} NOT NULL DEFAULT 'chat'",
    *(
        f"ALTER TABLE refusals ADD COLUMN {name} bigint NOT NULL DEFAULT 0"
        for name in ("messages", "responses", "embeddings")
    ),
)

MIGRATIONS: Final = tuple(map(Migration, (SCHEMA, _TAGS, _DEPLOYMENT, _BUDGETS, _ATTEMPTS, _API)))
"""The migrations, numbered from 1 on. A released one is never edited; a new one follows it."""


def partitions(today: date) -> Iterable[str]:
    """Return the statements that create the partitions from this month on, where they are missing."""
    first = today.replace(day=1)
    for _ in range(MONTHS_AHEAD + 1):
        yield partition(f"{first:%Y-%m}")
        first = _next(first)


def partition(month: str) -> str:
    """Return the statement that creates the partition of a month ("2026-11") where it is missing."""
    first = date.fromisoformat(f"{month}-01")
    return f"SELECT make_partition('{first:%Y-%m}', '{_next(first):%Y-%m}')"


def partition_name(month: str) -> str:
    """Return the table of the calls of a month ("2026-11")."""
    return f"usage_{date.fromisoformat(f'{month}-01'):%Y_%m}"


def _next(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1)
