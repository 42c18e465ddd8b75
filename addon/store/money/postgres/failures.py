"""Which errors of PostgreSQL are which, and the one line that is said of each, without a value of any row."""

from typing import Final

import psycopg

from addon.store.protocol import StoreAway, StoreUnavailable

NEVER_WRITABLE: Final = (psycopg.DataError, psycopg.IntegrityError)
"""The errors for a row that can never be written."""
CONFLICTS: Final = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
"""The errors after which the same transaction may be committed."""
READ_ONLY: Final = psycopg.errors.ReadOnlySqlTransaction
_REFUSED: Final = "FATAL:"
_SOON: Final = (
    "starting up",
    "shutting down",
    "recovery",
    "accepting connections",
    "too many",
    "reserved for",
)
"""What a server that can't be used yet says instead."""
_AWAY_STATES: Final = ("08", "57P", "53300")
"""Connection lost; the server shuts down or starts; too many connections."""


def find_outage(error: Exception) -> StoreUnavailable | None:
    """Return the error of a group that can't be done now. None: a row of it, or its step, is to blame."""
    if isinstance(error, TimeoutError):
        return StoreAway("PostgreSQL: it does not answer in time")
    if isinstance(error, READ_ONLY):
        return StoreAway("PostgreSQL: the server takes no writes, it may be a standby")
    if isinstance(error, OSError) or (
        isinstance(error, psycopg.Error) and not isinstance(error, NEVER_WRITABLE)
    ):
        kind = StoreAway if _is_away(error) else StoreUnavailable
        return kind(f"PostgreSQL: {describe(error)}")
    return None


def _is_away(error: Exception) -> bool:
    """Return whether a server could not be reached, or is about to be there.

    What a server says before there is a connection has no code, only a text: that of a wrong password, too. A text in
    another language counts as a refusal for good.
    """
    if isinstance(error, OSError):
        return True
    if not isinstance(error, psycopg.OperationalError):
        return False
    if error.sqlstate:
        return error.sqlstate.startswith(_AWAY_STATES)
    return _REFUSED not in str(error) or any(words in str(error) for words in _SOON)


def describe(error: Exception) -> str:
    """Return one line for operators. It has no value of any row, and no credential."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return primary or str(error).partition("\n")[0] or type(error).__name__
