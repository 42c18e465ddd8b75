"""Request ids: unique, and in the order of the calls of one process, so that the ledger's index grows at its end."""

import itertools
import secrets
from collections.abc import Callable


class RequestIds:
    """The ids of one process. ``random_hex`` returns the hexadecimal digits of so many random bytes."""

    def __init__(self, random_hex: Callable[[int], str] = secrets.token_hex) -> None:
        self._process = random_hex(8)
        self._numbers = itertools.count(1)

    def next(self) -> str:
        """Return the id of one more answer: the ``X-Request-Id`` of the response, and the ledger row's key."""
        return f"req_{self._process}{next(self._numbers):08x}"


new_request_id = RequestIds().next
