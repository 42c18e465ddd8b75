"""``STEPS``: the changes of the ledger's tables, in order. A released step is never edited; a new step follows it."""

from typing import TYPE_CHECKING

from addon.store.money.archives.archive_schema import ARCHIVE_SCHEMA
from addon.store.money.attempt_schema import ATTEMPT_SCHEMA
from addon.store.money.audit.audit_chain import chain_earlier_lines
from addon.store.money.audit.audit_schema import AUDIT_SCHEMA
from addon.store.money.price_set_schema import PRICE_SET_SCHEMA
from addon.store.money.priced_columns import PRICED_COLUMNS_SCHEMA
from addon.store.money.sqlite.client_request_schema import CLIENT_REQUEST_SCHEMA
from addon.store.money.sqlite.early_migration_steps import (
    m0001_usage,
    m0002_money,
    m0003_ledger,
    m0004_cache_writes,
    m0005_circuits,
    m0006_passed_over,
    m0007_rollups,
    m0008_client_request_id,
    m0009_alerts,
    m0010_refusals,
)
from addon.store.money.sums.rollup_schema import (
    DAYS,
    ENDED_TABLES,
    FIRST_DAYS,
    SMALL_TABLES,
    TABLES,
    RollupTable,
)

if TYPE_CHECKING:
    from sqlite_utils import Database


def m0011_days(db: "Database") -> None:
    """One table of sums by day, with all columns that calls are grouped by. ``RollupBuilder`` fills it later.

    ``m0014_newest_days_first`` makes its triggers: no row is written before that step.
    """
    for table in FIRST_DAYS:
        _drop_triggers(db, table)
        db.conn.execute(f"DROP TABLE {table.name}")
    db.conn.execute("UPDATE rollup_progress SET days_until = ''")
    db.conn.execute(DAYS.creation())


def _drop_triggers(db: "Database", table: RollupTable) -> None:
    for event in ("INSERT_NEW", "UPDATE_OLD", "UPDATE_NEW", "DELETE_OLD"):
        db.conn.execute(f"DROP TRIGGER IF EXISTS {table.name}_{event}")


def m0012_small_tables(db: "Database") -> None:
    """Small tables of sums, for pages. ``RollupBuilder`` fills them, together with ``days``, later.

    ``m0014_newest_days_first`` makes their triggers: no row is written before that step.
    """
    db.conn.execute("UPDATE rollup_progress SET days_until = ''")
    db.conn.execute(f"DELETE FROM {DAYS.name}")  # noqa: S608
    for table in SMALL_TABLES:
        db.conn.execute(table.creation())


def m0013_audit(db: "Database") -> None:
    """The audit log, and the changes that are being made. Source: docs/ledger.md."""
    for statement in AUDIT_SCHEMA:
        db.conn.execute(statement)


def m0014_newest_days_first(db: "Database") -> None:
    """Let the tables of ended hours begin at a moment, so that the newest rows are added to them first."""
    db.conn.execute("ALTER TABLE rollup_progress ADD COLUMN days_from TEXT NOT NULL DEFAULT ''")
    newest = "coalesce((SELECT substr(max(created_at), 1, 13) FROM usage), '')"
    db.conn.execute(
        f"UPDATE rollup_progress SET days_from = {newest}, days_until = {newest} WHERE days_until = ''"  # noqa: S608
    )
    for table in ENDED_TABLES:
        _drop_triggers(db, table)
        for trigger in table.triggers():
            db.conn.execute(trigger)


def m0015_client_requests(db: "Database") -> None:
    """The calls by the ids that clients gave them. ``RollupBuilder`` adds the earlier calls later."""
    for statement in CLIENT_REQUEST_SCHEMA:
        db.conn.execute(statement)


def m0016_resends(db: "Database") -> None:
    """How often a request was sent again because its connection was stale. Source: docs/ledger.md.

    It has no CHECK, because SQLite would then read all rows: 3.4 s on two million.
    """
    db.conn.execute("ALTER TABLE usage ADD COLUMN resends INTEGER NOT NULL DEFAULT 0")


def m0017_audit_chain(db: "Database") -> None:
    """Chain the lines of the audit log, those that are there included. Source: docs/ledger.md."""
    chain_earlier_lines(db.conn)


def m0018_priced_counts(db: "Database") -> None:
    """The reported cost, the counts that few models have a price for, and the service tier. Source: docs/ledger.md."""
    for statement in PRICED_COLUMNS_SCHEMA:
        db.conn.execute(statement)


def m0019_price_sets(db: "Database") -> None:
    """The prices of each call, kept once by content, and the platform key that it had. Source: docs/ledger.md."""
    for statement in PRICE_SET_SCHEMA:
        db.conn.execute(statement)


def m0020_short_triggers(db: "Database") -> None:
    """Make the triggers of the sums again, with a third of their text: each connection reads all of it."""
    for table in TABLES:
        _drop_triggers(db, table)
        for trigger in table.triggers():
            db.conn.execute(trigger)


def m0021_archives(db: "Database") -> None:
    """Months in files of their own, and sums that stay when their calls are removed. Source: docs/ledger.md."""
    for statement in ARCHIVE_SCHEMA:
        db.conn.execute(statement)
    for table in TABLES:
        db.conn.execute(f"DROP TRIGGER {table.name}_DELETE_OLD")
        db.conn.execute(table.kept_removal())


def m0022_tags(db: "Database") -> None:
    """What clients call their calls, in ``metadata`` of the request. Source: docs/ledger.md."""
    db.conn.execute("ALTER TABLE usage ADD COLUMN tags TEXT")


def m0023_token_buckets(db: "Database") -> None:
    """The buckets of limits of tokens a minute, by the clock of ``takes``. Rule: ``policies.token_rate``."""
    db.conn.execute("""
        CREATE TABLE token_buckets (
            scope TEXT NOT NULL PRIMARY KEY,
            level INTEGER NOT NULL CHECK (level >= 0),
            passed INTEGER NOT NULL CHECK (passed >= 0),
            at_ms INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID
    """)


def m0024_deployment(db: "Database") -> None:
    """Which place of its model served a call, of a model that has several. Source: docs/ledger.md."""
    db.conn.execute("ALTER TABLE usage ADD COLUMN deployment TEXT")


def m0025_budgets(db: "Database") -> None:
    """The budgets of users and tags that paid for a call, or hold money for it. Source: docs/ledger.md."""
    db.conn.execute("ALTER TABLE usage ADD COLUMN budgets TEXT")
    db.conn.execute("ALTER TABLE holds ADD COLUMN budgets TEXT")


def m0026_attempts(db: "Database") -> None:
    """The attempts of calls that made several. Source: docs/ledger.md."""
    for statement in ATTEMPT_SCHEMA:
        db.conn.execute(statement)


def m0027_api(db: "Database") -> None:
    """The API of each call, and how many refused calls were of each but ``chat``. Source: docs/ledger.md.

    It has no CHECK, because SQLite would then read all rows.
    """
    db.conn.execute("ALTER TABLE usage ADD COLUMN api TEXT NOT NULL DEFAULT 'chat'")
    for name in ("messages", "responses", "embeddings"):
        db.conn.execute(f"ALTER TABLE refusals ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0")


STEPS = (
    *(m0001_usage, m0002_money, m0003_ledger, m0004_cache_writes, m0005_circuits, m0006_passed_over),
    *(m0007_rollups, m0008_client_request_id, m0009_alerts, m0010_refusals, m0011_days, m0012_small_tables),
    *(m0013_audit, m0014_newest_days_first, m0015_client_requests, m0016_resends, m0017_audit_chain),
    *(m0018_priced_counts, m0019_price_sets, m0020_short_triggers, m0021_archives),
    *(m0022_tags, m0023_token_buckets, m0024_deployment, m0025_budgets, m0026_attempts),
    m0027_api,
)
