"""Which errors of PostgreSQL are which, and the one line that is said of each, without a value of any row."""

from typing import Final

import psycopg

from addon.store.protocol import StoreUnavailable

NEVER_WRITABLE: Final = (psycopg.DataError, psycopg.IntegrityError)
"""The errors for a row that can never be written."""
CONFLICTS: Final = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
"""The errors after which the same transaction may be committed."""
READ_ONLY: Final = psycopg.errors.ReadOnlySqlTransaction


def find_outage(error: Exception) -> StoreUnavailable | None:
    """Return the error of a group that can't be done now. None: a row of it, or its step, is to blame."""
    if isinstance(error, TimeoutError):
        return StoreUnavailable("PostgreSQL: it does not answer in time")
    if isinstance(error, READ_ONLY):
        return StoreUnavailable("PostgreSQL: the server takes no writes, it may be a standby")
    if isinstance(error, OSError) or (
        isinstance(error, psycopg.Error) and not isinstance(error, NEVER_WRITABLE)
    ):
        return StoreUnavailable(f"PostgreSQL: {describe(error)}")
    return None


def describe(error: Exception) -> str:
    """Return one line for operators. It has no value of any row, and no credential."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return primary or str(error).partition("\n")[0] or type(error).__name__
