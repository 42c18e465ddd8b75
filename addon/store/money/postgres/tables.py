"""The tables in PostgreSQL: made by the first process that comes, and checked by each later one."""

from collections.abc import Sequence
from datetime import date
from typing import Final

from addon.store.money.engine import Last, Statement, Step
from addon.store.money.postgres.schema import READER, SCHEMA, partitions
from addon.store.money.postgres.transactions import Transactions
from addon.store.protocol import StoreUnavailable

_CREATION_TIMEOUT_S: Final = 10.0
_LOCK: Final = Statement("SELECT pg_advisory_xact_lock(hashtextextended('tollgate:tables', 0))")
_EXISTS: Final = Statement("SELECT to_regclass('ledger') IS NOT NULL")
_ENCODING: Final = Statement("SELECT current_setting('server_encoding')")


async def prepare(transactions: Transactions, today: date) -> str:
    """Create the tables where they are missing, and the partitions of the next months. Return the ledger's id.

    Raise ``StoreUnavailable`` when the server can't be used, or its tables belong to a newer version.
    """
    ledger_id, min_reader = await transactions.do(_prepare, today, "tables", timeout_s=_CREATION_TIMEOUT_S)
    if min_reader > READER:
        raise StoreUnavailable("PostgreSQL: a newer version of Tollgate has changed its tables")
    return ledger_id


def _prepare(days: Sequence[date]) -> Step[Sequence[tuple[str, int]]]:
    [today] = days
    _, [[encoding]] = yield [_LOCK, _ENCODING]
    if encoding != "UTF8":
        raise StoreUnavailable(f"PostgreSQL: the encoding of the database is {encoding}, and must be UTF8")
    [[[exists]]] = yield [_EXISTS]
    made = [Statement(sql) for sql in partitions(today)]
    if not exists:
        made[:0] = [Statement(sql) for sql in SCHEMA]
    *_, [[ledger_id, min_reader]] = yield Last([*made, Statement("SELECT id, min_reader FROM ledger")])
    return [(ledger_id, min_reader)]
