"""The text of an exception in the log: its type and where it was raised, but not its message.

A message may quote what a client or a provider sent. Two kinds are safe and are logged: messages of the system, such as
"No space left on device", and those of a failed policy, which name only the policy and the kind of fault.
"""

import os
import traceback
from collections.abc import Iterator

from policies.review import PolicyFailed

_CAUSED = "\n\nThe above exception led to:\n\n"
_LONGEST_CHAIN = 8


def format_exception(error: BaseException) -> str:
    """Return the tracebacks of ``error`` and its causes, the oldest first, without the messages."""
    tracebacks = [_format_one(one) for one in _chain(error)]
    return _CAUSED.join(reversed(tracebacks))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen = 0
    while error and seen < _LONGEST_CHAIN:
        yield error
        seen += 1
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _format_one(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(error, OSError) and isinstance(error.errno, int) and error.errno > 0:
        name += f": {os.strerror(error.errno)}"
    if isinstance(error, PolicyFailed):
        name += f": {error}"
    frames = "".join(traceback.format_tb(error.__traceback__))
    return f"Traceback (most recent call last):\n{frames}{name}"
