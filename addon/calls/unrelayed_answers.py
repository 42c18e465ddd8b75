"""Answers that are read to their end for their usage, after their clients left. Providers bill them anyway.

Each is bounded in time and, for a stream, in bytes. Whole answers are also bounded in number.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from addon.answers.reader import AnswerReader
from addon.calls.answer_reader import open_reader
from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import Call
from addon.runtime.clock import Clock
from addon.runtime.deadline import Deadline
from addon.runtime.heavy_work import run_heavy_work
from addon.text.errors import provider_unreachable
from addon.upstream.connection import SLICE_BYTES, UpstreamConnection
from addon.upstream.connection_error import UpstreamConnectionError
from policies.call_stages import Stage

STREAM_TIMEOUT_S = 5.0
"""For a stream whose finish_reason was read. Only its usage is still to come."""
STREAM_MAX_BYTES = 1 << 20
WHOLE_TIMEOUT_S = 60.0
MAX_WHOLE_ANSWERS = 64
"""Of one process at a time. One more closes the oldest."""


class UnrelayedAnswers:
    """The answers of one process that are read without their clients."""

    def __init__(self) -> None:
        self._bounds: dict[asyncio.Timeout, bool] = {}
        self._is_closed = False

    @property
    def count(self) -> int:
        """How many are read now."""
        return len(self._bounds)

    async def read_rest(
        self, call: Call, attempt: UpstreamAttempt, connection: UpstreamConnection, clock: Clock
    ) -> None:
        """Read the rest of an answer that the provider bills, if the usage can still arrive within the limits."""
        if not _may_report_usage(call, attempt):
            return
        try:
            async with self.reading(whole=not call.exchange.stream):
                await _read_rest(call, attempt, connection, clock)
        except UpstreamConnectionError:
            attempt.failure = provider_unreachable()
        except TimeoutError:
            pass  # The part that was read counts.

    @asynccontextmanager
    async def reading(self, *, whole: bool) -> AsyncIterator[None]:
        """Raise TimeoutError in the block after too long, when a newer answer replaces it, and at ``close``."""
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
        """End all of them. None can begin from now on."""
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


def _may_report_usage(call: Call, attempt: UpstreamAttempt) -> bool:
    if not attempt.is_sent or call.exchange.stage is not Stage.DISPATCHED:
        return False
    return not call.exchange.stream or (attempt.reader is not None and attempt.reader.has_finished)


async def _read_rest(
    call: Call, attempt: UpstreamAttempt, connection: UpstreamConnection, clock: Clock
) -> None:
    reader = attempt.reader
    if reader is None:
        head = await connection.head()
        attempt.head_s = clock.monotonic_s()
        reader = open_reader(call, attempt, head, clock.now())
    max_bytes = STREAM_MAX_BYTES if call.exchange.stream else None
    await _read_to_end(reader, connection, SLICE_BYTES if attempt.streams else None, max_bytes)


async def _read_to_end(
    reader: AnswerReader, connection: UpstreamConnection, slice_bytes: int | None, max_bytes: int | None
) -> None:
    """Feed ``reader`` until it knows enough. The caller releases the connection."""
    read_bytes = 0
    while piece := await connection.read(slice_bytes):
        reader.feed(piece)
        read_bytes += len(piece)
        if reader.is_done or reader.failure or (max_bytes is not None and read_bytes > max_bytes):
            return
        if connection.has_unread:
            await connection.next_input()
    await run_heavy_work(reader.buffered_bytes, reader.finish)
