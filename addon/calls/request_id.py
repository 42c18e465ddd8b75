"""Unique request ids. They increase within a process, so new entries of the ledger's index go to its end."""

import itertools
import secrets
from collections.abc import Callable


def make_request_ids(random_hex: Callable[[int], str] = secrets.token_hex) -> Callable[[], str]:
    """Return a function that returns a new id: the ``X-Request-Id`` of one response, and the key of its ledger row.

    The ids are those of one process: make the function after a fork. ``random_hex`` returns that many random bytes as
    hexadecimal digits.
    """
    # All of it runs in C.
    return map(f"req_{random_hex(8)}%08x".__mod__, itertools.count(1)).__next__
