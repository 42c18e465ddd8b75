"""The migrations of the ledger's tables: which are missing, and how they are applied. ``migration_steps`` has them.

sqlite-utils takes long to import, and most commands migrate nothing. So only the functions that need it import it.
"""

import sqlite3
from functools import cache
from typing import TYPE_CHECKING

from addon.store.ledger.migration_steps import STEPS

if TYPE_CHECKING:
    from sqlite_utils import Database, Migrations


@cache
def _migrations() -> "Migrations":
    from sqlite_utils import Migrations

    migrations = Migrations("tollgate")
    for step in STEPS:
        migrations()(step)
    return migrations


class NewerDatabaseError(sqlite3.DatabaseError):
    """A newer version of Tollgate has migrated the database."""


def migrate(connection: sqlite3.Connection) -> None:
    """Apply the missing steps, all of them or none, in one process at a time.

    ``connection`` has isolation level None. Raise ``sqlite3.Error``, and ``NewerDatabaseError`` when a newer version
    has changed the database: rows of this version might break its rules.
    """
    database = _open_database(connection)
    _refuse_newer(database)
    if _migrations().pending(database):
        with connection:
            # Another process may apply the steps before this one has the lock. ``apply`` checks again.
            connection.execute("BEGIN IMMEDIATE")
            _refuse_newer(database)
            _migrations().apply(database)


def find_pending(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the steps that ``migrate`` would apply now. Raises as it does."""
    database = _open_database(connection)
    _refuse_newer(database)
    return [step.name for step in _migrations().pending(database)]


def _open_database(connection: sqlite3.Connection) -> "Database":
    from sqlite_utils import Database

    # Plugins of sqlite-utils are code from elsewhere; the ledger runs none.
    return Database(connection, execute_plugins=False)


def _refuse_newer(database: "Database") -> None:
    known = {step.__name__ for step in STEPS}
    if unknown := [step.name for step in _migrations().applied(database) if step.name not in known]:
        raise NewerDatabaseError(f"a newer version changed it ({', '.join(unknown)})")
