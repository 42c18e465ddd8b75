"""The tables in PostgreSQL: made by the first process that comes, and checked and completed by each later one."""

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

from addon.store.money.engine import Last, Statement, Step
from addon.store.money.ledger import Ledger
from addon.store.money.postgres.engine import FUNCTIONS
from addon.store.money.postgres.schema import MIGRATIONS, TABLES_LOCK, Migration, partitions
from addon.store.money.postgres.transactions import Transactions
from addon.store.money.sqlite.engine import run
from addon.store.protocol import StoreUnavailable

_CREATION_TIMEOUT_S: Final = 10.0
_TIMEOUT: Final = Statement(f"SET LOCAL statement_timeout = {round(_CREATION_TIMEOUT_S * 1000)}")
_LOCK: Final = Statement(f"SELECT pg_advisory_xact_lock({TABLES_LOCK})")
_EXISTS: Final = Statement("SELECT to_regclass('ledger') IS NOT NULL")
_ENCODING: Final = Statement("SELECT current_setting('server_encoding')")
_VERSION: Final = Statement("SELECT id, min_reader, version FROM ledger")
_FUNCTIONS: Final = Statement(
    "SELECT name FROM unnest(?::text[]) AS given (name) WHERE to_regproc(name) IS NULL",
    ([one.name for one in FUNCTIONS],),
)
_NOTE: Final = "UPDATE ledger SET version = ?, min_reader = greatest(min_reader, ?)"


class _Wanted(NamedTuple):
    today: date
    migrations: Sequence[Migration]


async def prepare(
    transactions: Transactions, today: date, migrations: Sequence[Migration] = MIGRATIONS
) -> str:
    """Apply the migrations that are missing, and make the partitions of the next months. Return the ledger's id.

    Raise ``StoreUnavailable`` when the server can't be used, or its tables need a newer version.
    """
    wanted = _Wanted(today, migrations)
    return await transactions.do(_prepare, wanted, "tables", timeout_s=_CREATION_TIMEOUT_S)


def create(ledger: Ledger, today: date) -> None:
    """Do the same in the transaction of a ledger that has no tables yet. Raises ``psycopg.Error``."""
    run(ledger, _prepare([_Wanted(today, MIGRATIONS)]))


def _prepare(asked: Sequence[_Wanted]) -> Step[Sequence[str]]:
    [(today, migrations)] = asked
    _, _, [[encoding]] = yield [_TIMEOUT, _LOCK, _ENCODING]
    if encoding != "UTF8":
        raise StoreUnavailable(f"PostgreSQL: the encoding of the database is {encoding}, and must be UTF8")
    [[[exists]]] = yield [_EXISTS]
    if exists:
        [[[_, min_reader, version]]] = yield [_VERSION]
        if min_reader > len(migrations):
            raise StoreUnavailable("PostgreSQL: a newer version of Tollgate has changed its tables")
    else:
        version = 0
    [unknown] = yield [_FUNCTIONS]
    missing = [Statement(sql) for migration in migrations[version:] for sql in migration.statements]
    if missing:
        min_reader = max(migration.min_reader for migration in migrations)
        missing.append(Statement(_NOTE, (len(migrations), min_reader)))
    missing += [Statement(sql) for one in FUNCTIONS if (one.name,) in unknown for sql in one.creation]
    *_, [[ledger_id, *_]] = yield Last([*missing, *(Statement(sql) for sql in partitions(today)), _VERSION])
    return [ledger_id]
