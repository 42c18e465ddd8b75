"""Reads an answer on whose client has left, for what it costs: its provider bills it anyway."""

from addon.answers.readers import Relay
from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.unrelayed_answers import STREAM_MAX_BYTES
from addon.calls.upstream_request import note_head
from addon.runtime.heavy_work import work_off
from addon.text.errors import unreachable
from addon.upstream.connection import UpstreamBroke, UpstreamConnection
from policies.exchange import Stage


async def read_on(
    call: Call, attempt: UpstreamAttempt, connection: UpstreamConnection, deps: Dependencies
) -> None:
    """Read what a provider will bill, and may say soon how much it is, within the bounds of ``UnrelayedAnswers``."""
    if not _is_worth_it(call, attempt):
        return
    try:
        async with deps.unrelayed.reading(whole=not call.exchange.stream):
            await _read_rest(call, attempt, connection, deps)
    except UpstreamBroke:
        attempt.failure = unreachable()
    except TimeoutError:
        pass  # What was read counts.


def _is_worth_it(call: Call, attempt: UpstreamAttempt) -> bool:
    if not attempt.is_sent or call.exchange.stage is not Stage.DISPATCHED:
        return False
    return not call.exchange.stream or (attempt.reader is not None and attempt.reader.finished)


async def _read_rest(
    call: Call, attempt: UpstreamAttempt, connection: UpstreamConnection, deps: Dependencies
) -> None:
    reader = attempt.reader
    if reader is None:
        head = await connection.head()
        attempt.head_s = deps.clock.monotonic_s()
        reader = note_head(call, attempt, head, deps.clock.now())
    if await _is_read_whole(reader, connection, call.exchange.stream):
        connection.release()


async def _is_read_whole(reader: Relay, connection: UpstreamConnection, is_stream: bool) -> bool:
    """Feed ``reader`` until it knows enough; return whether the message has ended."""
    read_bytes = 0
    while piece := await connection.read():
        reader.feed(piece)
        read_bytes += len(piece)
        if reader.done or reader.failure or (is_stream and read_bytes > STREAM_MAX_BYTES):
            return False
    await work_off(reader.kept_bytes, reader.finish)
    return True
