"""The migrations of the ledger's tables: which are missing, and how they are applied. ``migration_steps`` has them.

sqlite-utils takes long to import, and most processes find no missing step. So it is imported only to apply a step.
"""

import sqlite3

from addon.store.money.sqlite.migration_steps import STEPS

_SET = "tollgate"
"""The name of our steps in the table of sqlite-utils, which could have those of others too."""


class NewerDatabaseError(sqlite3.DatabaseError):
    """A newer version of Tollgate has migrated the database."""


def migrate(connection: sqlite3.Connection) -> None:
    """Apply the missing steps, all of them or none, in one process at a time.

    ``connection`` has isolation level None. Raise ``sqlite3.Error``, and ``NewerDatabaseError`` when a newer version
    has changed the database: rows of this version might break its rules.
    """
    if find_pending(connection):
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            # Another process may have applied the steps before this one had the lock.
            if find_pending(connection):
                _apply(connection)


def find_pending(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the steps that ``migrate`` would apply now. Raises as it does."""
    applied, known = _find_applied(connection), [step.__name__ for step in STEPS]
    if unknown := [name for name in applied if name not in known]:
        raise NewerDatabaseError(f"a newer version changed it ({', '.join(unknown)})")
    return [name for name in known if name not in applied]


def _find_applied(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the applied steps, as sqlite-utils has noted them."""
    tables = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = '_sqlite_migrations'"
    if not connection.execute(tables).fetchone():
        return []
    steps = "SELECT name FROM _sqlite_migrations WHERE migration_set = ? ORDER BY rowid"
    return [name for (name,) in connection.execute(steps, (_SET,))]


def _apply(connection: sqlite3.Connection) -> None:
    from sqlite_utils import Database, Migrations

    migrations = Migrations(_SET)
    for step in STEPS:
        migrations()(step)
    # Plugins of sqlite-utils are code from elsewhere; the ledger runs none.
    migrations.apply(Database(connection, execute_plugins=False))
