"""The table ``refusals``: counts of calls that were not sent upstream. Source: docs/ledger.md."""

import sqlite3

from addon.store.money.refusal_counts import RefusalBatch
from addon.store.money.refusals import record_refusals
from addon.store.money.sqlite.engine import SQLITE, run


def write_batch(connection: sqlite3.Connection, batch: RefusalBatch) -> None:
    """Add a batch to the table, unless it was added before. Runs in the caller's transaction."""
    run(connection, record_refusals([batch], SQLITE))
