"""The first ten of ``migration_steps.STEPS``: the tables of calls, money, rollups, alerts and refusals."""

from typing import TYPE_CHECKING

from addon.store.money.sqlite.recount import write_counters
from addon.store.money.sums.rollup_schema import AFTER_ALL, FIRST_TABLES

if TYPE_CHECKING:
    from sqlite_utils import Database

LARGEST = 10**16
"""The largest count, duration or cost (ten million USD in nano-USD) of one call: sums of them stay 64-bit integers."""


def m0001_usage(db: "Database") -> None:
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
            -- Tokens that were not counted are not billed.
            CHECK (usage_source <> 'none' OR (wholesale_nanousd = 0 AND retail_nanousd = 0))
        ) STRICT
    """)
    db.conn.execute("CREATE INDEX usage_created_at ON usage (created_at)")
    db.conn.execute("CREATE INDEX usage_workspace_created_at ON usage (workspace, created_at)")


def m0002_money(db: "Database") -> None:
    """The tables that limits are checked with. Source: docs/limits.md."""
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
            -- The ledger row, as JSON, for the case that the process ends before the call.
            interrupted_row TEXT NOT NULL
        ) STRICT, WITHOUT ROWID
    """)
    # A covering index: a check of the calls in flight reads no row.
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
    # Calls from the time before counters existed count too. No wallet paid for them.
    write_counters(db.conn)
    db.conn.execute("""
        CREATE TABLE takes (
            workspace TEXT NOT NULL,
            -- A group of takes: the times of its first and last take, its count, and the workspace's total with it.
            began_at_us INTEGER NOT NULL,
            taken_at_us INTEGER NOT NULL,
            count INTEGER NOT NULL CHECK (count > 0),
            total INTEGER NOT NULL,
            PRIMARY KEY (workspace, began_at_us)
        ) STRICT, WITHOUT ROWID
    """)


def m0003_ledger(db: "Database") -> None:
    """One row: the id of this ledger and the state in Redis that has its counters. NULL: table ``spend`` has them."""
    db.conn.execute("CREATE TABLE ledger (id TEXT NOT NULL, redis_state TEXT) STRICT")
    db.conn.execute("INSERT INTO ledger VALUES (lower(hex(randomblob(16))), NULL)")


def m0004_cache_writes(db: "Database") -> None:
    """Tokens that a provider wrote into its cache, which have their own price. Source: docs/ledger.md."""
    check = f"CHECK (cache_write_tokens BETWEEN 0 AND {LARGEST})"
    db.conn.execute(f"ALTER TABLE usage ADD COLUMN cache_write_tokens INTEGER {check}")


def m0005_circuits(db: "Database") -> None:
    """The circuits of providers that failed lately, by the clock of ``takes``. Rule: ``policies.circuit_breaker``."""
    db.conn.execute("""
        CREATE TABLE circuits (
            name TEXT NOT NULL PRIMARY KEY,
            failures INTEGER NOT NULL CHECK (failures > 0),
            began_at_us INTEGER NOT NULL,
            retry_at_us INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID
    """)


def m0006_passed_over(db: "Database") -> None:
    """Allow a fallback as the only attempt, for the case that a failing provider was skipped.

    SQLite can't change a CHECK in place, so the table is created again.
    """
    [(sql,)] = db.conn.execute("SELECT sql FROM sqlite_schema WHERE name = 'usage'")
    indexes = db.conn.execute("SELECT sql FROM sqlite_schema WHERE tbl_name = 'usage' AND type = 'index'")
    recreated = [sql.replace("CHECK (attempts > fallback)", "CHECK (attempts >= 1)")]
    recreated += [index for (index,) in indexes if index]
    db.conn.execute("ALTER TABLE usage RENAME TO usage_before")
    db.conn.execute(recreated[0])
    db.conn.execute("INSERT INTO usage SELECT * FROM usage_before")
    db.conn.execute("DROP TABLE usage_before")
    for index in recreated[1:]:
        db.conn.execute(index)


def m0007_rollups(db: "Database") -> None:
    """The rollups of all rows that come from now on. ``RollupBuilder`` adds the earlier rows later."""
    db.conn.execute(
        "CREATE TABLE rollup_progress (hours_from TEXT NOT NULL, days_until TEXT NOT NULL) STRICT"
    )
    newest = "SELECT max(created_at) || ? FROM usage"
    db.conn.execute(f"INSERT INTO rollup_progress VALUES (coalesce(({newest}), ''), '')", (AFTER_ALL,))  # noqa: S608
    for table in FIRST_TABLES:
        db.conn.execute(table.creation())
        for trigger in table.triggers():
            db.conn.execute(trigger)


def m0008_client_request_id(db: "Database") -> None:
    """The id that a client gave its call. Source: docs/ledger.md."""
    db.conn.execute("ALTER TABLE usage ADD COLUMN client_request_id TEXT")


def m0009_alerts(db: "Database") -> None:
    """The queue of alerts, with the last ones that were sent, and what was alerted before. Source: docs/ledger.md."""
    db.conn.execute("""
        CREATE TABLE alerts (
            id TEXT NOT NULL PRIMARY KEY,
            created_at TEXT NOT NULL,
            type TEXT NOT NULL,
            workspace TEXT,
            status TEXT NOT NULL CHECK (status IN ('waiting', 'sent', 'dropped', 'unsent')),
            attempts INTEGER NOT NULL,
            next_at TEXT,
            ended_at TEXT,
            answer TEXT,
            body TEXT NOT NULL
        ) STRICT
    """)
    db.conn.execute("CREATE INDEX alerts_status ON alerts (status, next_at)")
    db.conn.execute(
        "CREATE TABLE alert_marks (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"
    )
    # The last credit of a wallet. Nearly all entries are costs of calls, which are not in this index.
    db.conn.execute(
        "CREATE INDEX wallet_entries_credits ON wallet_entries (workspace, created_at) WHERE amount_nanousd > 0"
    )


def m0010_refusals(db: "Database") -> None:
    """The counts of calls that were not sent, and the ids of the batches that were added to them last."""
    db.conn.execute("""
        CREATE TABLE refusals (
            hour TEXT NOT NULL CHECK (hour GLOB '????-??-??T??'),
            -- Both are empty when the call had no valid key.
            workspace TEXT NOT NULL,
            key_id TEXT NOT NULL CHECK ((key_id = '') = (workspace = '')),
            code TEXT NOT NULL CHECK (code <> ''),
            count INTEGER NOT NULL CHECK (count > 0),
            PRIMARY KEY (hour, workspace, key_id, code)
        ) STRICT, WITHOUT ROWID
    """)
    db.conn.execute(
        "CREATE TABLE refusal_batches (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE) STRICT"
    )
