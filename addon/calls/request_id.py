"""Unique request ids. They increase within a process, so new entries of the ledger's index go to its end."""

import itertools
import re
import secrets
from collections.abc import Callable
from typing import Final

_LIKE_A_STATUS: Final = re.compile(r"429|50[0234]|524")
"""Digits that an id does not have: opencode asks again after any error in whose body it finds them.

The errors of the Messages API have the id in their body. Source: opencode 1.18, the texts of its retries.
"""


def make_request_ids(random_hex: Callable[[int], str] = secrets.token_hex) -> Callable[[], str]:
    """Return a function that returns a new id: the ``X-Request-Id`` of one response, and the key of its ledger row.

    The ids are those of one process: make the function after a fork. ``random_hex`` returns that many random bytes as
    hexadecimal digits.
    """
    prefixes = (f"req_{random_hex(8)}" for _ in itertools.count())
    # A number begins with zeros, mostly.
    prefix = next(one for one in prefixes if not _LIKE_A_STATUS.search(f"{one}00"))
    ids = map(f"{prefix}%08x".__mod__, itertools.count(1))
    # All of it runs in C.
    return itertools.filterfalse(_LIKE_A_STATUS.search, ids).__next__
