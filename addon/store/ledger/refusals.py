"""The table ``refusals``: counts of calls that were not sent upstream. Source: docs/ledger.md."""

import logging
import sqlite3
from typing import Final

from addon.store.ledger.connection import NEVER_WRITABLE
from addon.store.ledger.file import LedgerFile
from addon.store.protocol import TIMEOUT_S
from addon.store.refusals import RefusalBatch

log = logging.getLogger("tollgate.store")

KEPT_BATCHES: Final = 1_000
"""How many ids of batches are kept. A batch is written again within seconds, or never."""


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
    if not connection.execute(_NOTE_BATCH, (batch.id,)).rowcount:
        return
    connection.executemany(_ADD, [(*group, count) for group, count in batch.counts.items()])
    connection.execute(_FORGET_BATCHES, (KEPT_BATCHES,))


_NOTE_BATCH = "INSERT INTO refusal_batches (id) VALUES (?) ON CONFLICT (id) DO NOTHING"
_FORGET_BATCHES = "DELETE FROM refusal_batches WHERE number <= (SELECT max(number) FROM refusal_batches) - ?"
_ADD = (
    "INSERT INTO refusals (hour, workspace, key_id, code, count) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET count = count + excluded.count"
)
