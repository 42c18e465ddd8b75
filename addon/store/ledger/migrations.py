"""The ledger's tables, step by step: a step that was released is never edited, only followed by another."""

import sqlite3
from functools import cache

from sqlite_utils import Database, Migrations

from addon.store.ledger.recount import write_counters

LARGEST = 10**16
"""The largest count, duration or cost (ten million USD in nano-USD) of one call: sums of them stay 64-bit integers."""


@cache
def count_statement(counters: int) -> str:
    """Return what adds to so many counters at once: scope, period, nano-USD and calls of each."""
    rows = ", ".join(["(?, ?, ?, ?)"] * counters)
    return f"""
        INSERT INTO spend (scope, period, spent_nanousd, requests) VALUES {rows}
        ON CONFLICT (scope, period) DO UPDATE
        SET spent_nanousd = spent_nanousd + excluded.spent_nanousd, requests = requests + excluded.requests
    """  # noqa: S608


def m0001_usage(db: Database) -> None:
    """One row for every call that was sent upstream. Source: docs/ledger.md."""
    count = f"INTEGER CHECK (%s BETWEEN 0 AND {LARGEST})"
    must_count = f"INTEGER NOT NULL CHECK (%s BETWEEN 0 AND {LARGEST})"
    db.conn.execute(f"""
        CREATE TABLE usage (
            id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
            created_at TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.???+00:00'),
            workspace TEXT NOT NULL,
            key_id TEXT NOT NULL,
            requested_model TEXT,
            model_slug TEXT NOT NULL,
            provider TEXT NOT NULL,
            upstream_model_id TEXT NOT NULL,
            mode TEXT NOT NULL CHECK (mode IN ('payg', 'byok')),
            fallback INTEGER NOT NULL CHECK (fallback IN (0, 1)),
            attempts INTEGER NOT NULL CHECK (attempts > fallback),
            stream INTEGER NOT NULL CHECK (stream IN (0, 1)),
            status INTEGER NOT NULL CHECK (status BETWEEN 100 AND 599),
            error_code TEXT,
            finish_reason TEXT,
            prompt_tokens {count % "prompt_tokens"},
            completion_tokens {count % "completion_tokens"},
            total_tokens {count % "total_tokens"},
            cached_tokens {count % "cached_tokens"},
            reasoning_tokens {count % "reasoning_tokens"},
            usage_source TEXT NOT NULL CHECK (usage_source IN ('provider', 'estimated', 'none')),
            wholesale_nanousd {must_count % "wholesale_nanousd"},
            retail_nanousd {must_count % "retail_nanousd"},
            first_byte_ms {count % "first_byte_ms"},
            duration_ms {must_count % "duration_ms"},
            end_user TEXT,
            -- What nobody counted is not billed.
            CHECK (usage_source <> 'none' OR (wholesale_nanousd = 0 AND retail_nanousd = 0))
        ) STRICT
    """)
    db.conn.execute("CREATE INDEX usage_created_at ON usage (created_at)")
    db.conn.execute("CREATE INDEX usage_workspace_created_at ON usage (workspace, created_at)")


def m0002_money(db: Database) -> None:
    """What limits are checked against. Source: docs/limits.md."""
    db.conn.execute(f"""
        CREATE TABLE wallet_entries (
            id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
            created_at TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.???+00:00'),
            workspace TEXT NOT NULL,
            amount_nanousd INTEGER NOT NULL CHECK (amount_nanousd BETWEEN {-LARGEST * 100} AND {LARGEST * 100}),
            reference TEXT NOT NULL
        ) STRICT, WITHOUT ROWID
    """)
    db.conn.execute("CREATE INDEX wallet_entries_workspace ON wallet_entries (workspace, created_at)")
    db.conn.execute(f"""
        CREATE TABLE holds (
            id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
            created_at TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.???+00:00'),
            expires_at TEXT NOT NULL,
            workspace TEXT NOT NULL,
            key_id TEXT NOT NULL,
            amount_nanousd INTEGER NOT NULL CHECK (amount_nanousd BETWEEN 0 AND {LARGEST * 100}),
            owner TEXT NOT NULL,
            -- How many tokens each choice of the answer may have.
            cap_tokens INTEGER NOT NULL,
            -- The ledger row, as JSON, of a call whose process ends before it does.
            interrupted_row TEXT NOT NULL
        ) STRICT, WITHOUT ROWID
    """)
    # All that a check reads of the calls in flight, so that it reads no row.
    db.conn.execute("CREATE INDEX holds_in_flight ON holds (workspace, key_id, created_at, amount_nanousd)")
    db.conn.execute("""
        CREATE TABLE spend (
            scope TEXT NOT NULL,
            period TEXT NOT NULL,
            spent_nanousd INTEGER NOT NULL,
            requests INTEGER NOT NULL CHECK (requests >= 0),
            PRIMARY KEY (scope, period)
        ) STRICT, WITHOUT ROWID
    """)
    # Calls that were booked before there were counters count, too; no wallet paid for them.
    write_counters(db.conn)
    db.conn.execute("""
        CREATE TABLE takes (
            workspace TEXT NOT NULL,
            -- A group of takes: its first and its last, how many, and how many there were of the workspace in all.
            began_at_us INTEGER NOT NULL,
            taken_at_us INTEGER NOT NULL,
            count INTEGER NOT NULL CHECK (count > 0),
            total INTEGER NOT NULL,
            PRIMARY KEY (workspace, began_at_us)
        ) STRICT, WITHOUT ROWID
    """)


def m0003_ledger(db: Database) -> None:
    """One row: which ledger this is, and which state in Redis counts for it. NULL: the table ``spend`` does."""
    db.conn.execute("CREATE TABLE ledger (id TEXT NOT NULL, redis_state TEXT) STRICT")
    db.conn.execute("INSERT INTO ledger VALUES (lower(hex(randomblob(16))), NULL)")


def m0004_cache_writes(db: Database) -> None:
    """What a provider wrote into its cache has a price of its own. Source: docs/ledger.md."""
    check = f"CHECK (cache_write_tokens BETWEEN 0 AND {LARGEST})"
    db.conn.execute(f"ALTER TABLE usage ADD COLUMN cache_write_tokens INTEGER {check}")


def m0005_circuits(db: Database) -> None:
    """Providers that failed lately: ``policies.circuit_breaker``, by the clock of ``takes``."""
    db.conn.execute("""
        CREATE TABLE circuits (
            name TEXT NOT NULL PRIMARY KEY,
            failures INTEGER NOT NULL CHECK (failures > 0),
            began_at_us INTEGER NOT NULL,
            retry_at_us INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID
    """)


def m0006_passed_over(db: Database) -> None:
    """A fallback may be the only attempt, where a failing provider was passed over.

    SQLite changes no CHECK in place, so the table is made anew.
    """
    [(sql,)] = db.conn.execute("SELECT sql FROM sqlite_schema WHERE name = 'usage'")
    indexes = db.conn.execute("SELECT sql FROM sqlite_schema WHERE tbl_name = 'usage' AND type = 'index'")
    remade = [sql.replace("CHECK (attempts > fallback)", "CHECK (attempts >= 1)")]
    remade += [index for (index,) in indexes if index]
    db.conn.execute("ALTER TABLE usage RENAME TO usage_before")
    db.conn.execute(remade[0])
    db.conn.execute("INSERT INTO usage SELECT * FROM usage_before")
    db.conn.execute("DROP TABLE usage_before")
    for index in remade[1:]:
        db.conn.execute(index)


STEPS = (m0001_usage, m0002_money, m0003_ledger, m0004_cache_writes, m0005_circuits, m0006_passed_over)

_MIGRATIONS = Migrations("tollgate")
for _step in STEPS:
    _MIGRATIONS()(_step)


class NewerDatabaseError(sqlite3.DatabaseError):
    """The database was changed by a version that knows more steps than this one."""


def migrate(connection: sqlite3.Connection) -> None:
    """Take the steps that the database lacks, all of them or none, one process at a time.

    ``connection`` has isolation level None. Raises ``sqlite3.Error``; ``NewerDatabaseError`` where rows of this
    version might break what a newer one relies on.
    """
    # Plugins of sqlite-utils are anybody's code; a ledger runs none.
    database = Database(connection, execute_plugins=False)
    _refuse_newer(database)
    if _MIGRATIONS.pending(database):
        with connection:
            # Another process may take the steps before the lock is held: apply looks again.
            connection.execute("BEGIN IMMEDIATE")
            _refuse_newer(database)
            _MIGRATIONS.apply(database)


def _refuse_newer(database: Database) -> None:
    known = {step.__name__ for step in STEPS}
    if unknown := [step.name for step in _MIGRATIONS.applied(database) if step.name not in known]:
        raise NewerDatabaseError(f"a newer version changed it ({', '.join(unknown)})")
