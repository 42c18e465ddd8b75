"""The table ``refusals``: counts of calls that were not sent upstream. Source: docs/ledger.md."""

import logging
import sqlite3

from addon.store.money.refusal_counts import RefusalBatch
from addon.store.money.refusals import record_refusals as step
from addon.store.money.sqlite.connection import NEVER_WRITABLE
from addon.store.money.sqlite.engine import SQLITE, run
from addon.store.money.sqlite.file import LedgerFile
from addon.store.protocol import TIMEOUT_S

log = logging.getLogger("tollgate.store")


async def record_refusals(file: LedgerFile, batch: RefusalBatch, timeout_s: float = TIMEOUT_S) -> None:
    """Add a batch to the table, once. Raise ``StoreUnavailable`` when it can't be written now.

    A batch that can never be written, as another version may leave one in Redis, is logged and dropped.
    """
    try:
        await file.write(lambda connection: write_batch(connection, batch), timeout_s)
    except NEVER_WRITABLE as error:
        lost = sum(batch.counts.values())
        log.error("%d refused calls are not counted in the ledger: %s", lost, error)


def write_batch(connection: sqlite3.Connection, batch: RefusalBatch) -> None:
    """Add a batch to the table, unless it was added before. Runs in the caller's transaction."""
    run(connection, step([batch], SQLITE))
