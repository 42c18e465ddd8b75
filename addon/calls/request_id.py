"""Unique request ids. They increase within a process, so new entries of the ledger's index go to its end."""

import itertools
import secrets
from collections.abc import Callable


class RequestIds:
    """The ids of one process. ``random_hex`` returns that many random bytes as hexadecimal digits."""

    def __init__(self, random_hex: Callable[[int], str] = secrets.token_hex) -> None:
        self._process = random_hex(8)
        self._numbers = itertools.count(1)

    def next(self) -> str:
        """Return a new id: the ``X-Request-Id`` of one response, and the key of its ledger row."""
        return f"req_{self._process}{next(self._numbers):08x}"


new_request_id = RequestIds().next
