"""Request ids: unique, and in the order of the calls of one process, so that the ledger's index grows at its end."""

import itertools
import secrets

_PROCESS = secrets.token_hex(8)
_NUMBERS = itertools.count(1)


def new_request_id() -> str:
    """Return the id of one more answer: the ``X-Request-Id`` of the response, and the ledger row's key."""
    return f"req_{_PROCESS}{next(_NUMBERS):08x}"
