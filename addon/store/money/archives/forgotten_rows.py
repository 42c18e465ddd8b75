"""What is emptied in the calls of a user who is forgotten, in either engine and in archives. Pure."""

from typing import Final

EMPTIED: Final = ("end_user", "client_request_id", "tags")
"""The columns that may name a person. What finds calls by the ids of their clients follows by itself."""

EMPTY_CALLS: Final = (
    f"UPDATE usage SET {', '.join(f'{name} = NULL' for name in EMPTIED)}"  # noqa: S608
    " WHERE id IN (SELECT value FROM json_each(?))"
)
"""The statement. Its value is a JSON array of ids."""
