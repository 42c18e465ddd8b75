"""Answers that are read on although their clients left, for what they cost: their providers bill them anyway.

Each is bounded in time, and whole answers in number.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from addon.runtime.deadline import Deadline

STREAM_TIMEOUT_S = 5.0
"""A stream whose finish_reason is in has no more than its usage to say."""
STREAM_MAX_BYTES = 1 << 20
WHOLE_TIMEOUT_S = 60.0
MAX_WHOLE_ANSWERS = 64
"""Of one process at once; beyond it the oldest is closed."""


class UnrelayedAnswers:
    """The answers of one process that are read on."""

    def __init__(self) -> None:
        self._bounds: dict[asyncio.Timeout, bool] = {}
        self._is_closed = False

    @asynccontextmanager
    async def reading(self, *, whole: bool) -> AsyncIterator[None]:
        """Raise TimeoutError where the block has to end: it takes too long, or its place is needed, or all end."""
        if self._is_closed:
            raise TimeoutError
        if whole:
            self._make_room()
        async with asyncio.timeout(None) as bound:
            self._bounds[bound] = whole
            deadline = Deadline(WHOLE_TIMEOUT_S if whole else STREAM_TIMEOUT_S, lambda: _end(bound))
            try:
                yield
            finally:
                deadline.cancel()
                self._bounds.pop(bound, None)

    def close(self) -> None:
        """End all of them, and let no other begin."""
        self._is_closed = True
        for bound in list(self._bounds):
            _end(bound)

    def _make_room(self) -> None:
        whole = [bound for bound, is_whole in self._bounds.items() if is_whole]
        if len(whole) >= MAX_WHOLE_ANSWERS:
            self._bounds.pop(whole[0])
            _end(whole[0])


def _end(bound: asyncio.Timeout) -> None:
    bound.reschedule(asyncio.get_running_loop().time())
