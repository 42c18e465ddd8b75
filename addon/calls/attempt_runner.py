"""The run of one attempt: connect, send, wait for the head, and relay the answer to the client.

Every wait ends: with the provider's time (``[upstream]`` of proxy.conf), or when the client leaves.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from addon.answers.reader import AnswerReader
from addon.calls.answer_reader import open_reader
from addon.calls.attempt import UpstreamAttempt, origin_of, request_head
from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.provider_deadline import ProviderDeadline
from addon.calls.responses import make_answer_headers
from addon.calls.settlement import OK
from addon.runtime.heavy_work import run_heavy_work
from addon.telemetry.logs import log_no_connection
from addon.text.errors import (
    NO_CONNECTION_FREE,
    ErrorAnswer,
    provider_timed_out,
    provider_unreachable,
    stream_interrupted,
    unreadable_answer,
)
from addon.text.http_heads import Response, ResponseHead
from addon.upstream.connection import SLICE_BYTES, UpstreamConnection
from addon.upstream.connection_error import UpstreamConnectionError
from addon.upstream.origin import Origin, Unreachable
from addon.upstream.pool import PoolFull
from addon.wire.stream import ClientLeft, Stream
from policies.call_stages import Stage
from policies.resend import may_send_again

END_TIMEOUT_S = 1.0
"""How long a provider may take to end its message after ``[DONE]``. Then its connection is closed."""

HEARTBEAT = b": the provider is silent\n\n"


class _Failed(Exception):  # noqa: N818  (an answer, not a fault)
    def __init__(self, failure: ErrorAnswer) -> None:
        self.failure = failure


class AttemptRunner:
    """Runs one attempt of ``call`` for the client of ``stream``."""

    def __init__(self, call: Call, attempt: UpstreamAttempt, stream: Stream, deps: Dependencies) -> None:
        self.call, self.attempt, self.stream, self.deps = call, attempt, stream, deps
        self.deadline = ProviderDeadline(call, attempt, deps.clock)
        self.connection: UpstreamConnection | None = None
        self._unsent = b""
        """A piece of a streamed answer that the client has no room for now."""
        self._last = b""
        """The last bytes of a streamed answer. None of any other."""

    async def run(self) -> ErrorAnswer | None:
        """Return how the attempt failed, or None once the client has its whole answer and the call is settled.

        Raises ClientLeft, after the rest of the answer is read for its usage. Raises RuntimeError for an attempt that
        was not dispatched.
        """
        if self.call.exchange.stage is not Stage.DISPATCHED or self.call.current is not self.attempt:
            raise RuntimeError(f"call {self.call.exchange.id}: an attempt that was not approved")
        try:
            return await self._run()
        except _Failed as failed:
            return failed.failure
        except ClientLeft:
            self.call.has_stalled_client = self.stream.is_cut_off
            if self.connection and not self.call.has_stalled_client:
                await self.deps.unrelayed.read_rest(self.call, self.attempt, self.connection, self.deps.clock)
            raise
        finally:
            if self.connection:
                # The pool keeps the connection if the message is complete, and closes it otherwise.
                self.connection.release()

    async def _run(self) -> ErrorAnswer | None:
        connection = await self._connect(fresh=False)
        try:
            head = await self._send(connection)
        except UpstreamConnectionError as broke:
            if not may_send_again(broke.lost, self.call.exchange.resends):
                self.attempt.lagged = not broke.lost.by_provider
                raise _Failed(_error_of(broke)) from None
            # The provider closed an idle connection at that moment. This is neither a failure nor a second attempt.
            connection, head = await self._send_again(connection)
        # The attempt is never sent again, and its body may be large.
        self.attempt.request = replace(self.attempt.request, content=b"")
        self.attempt.head_s = self.deps.clock.monotonic_s()
        reader = open_reader(self.call, self.attempt, head, self.deps.clock.now())
        if head.status >= 300:
            self.deadline.note_head()
        return await self._relay(connection, reader)

    # Connect, send, and wait for the head.

    async def _connect(self, *, fresh: bool) -> UpstreamConnection:
        if self.stream.is_client_gone:
            raise ClientLeft
        workspace = self.call.exchange.workspace
        origin = origin_of(self.attempt.target, self.attempt.request, workspace.id)
        connection = None if fresh else self.deps.pool.try_acquire(origin, workspace.id)
        self.connection = connection or await self._open_connection(origin, workspace.id, fresh=fresh)
        return self.connection

    async def _open_connection(self, origin: Origin, workspace: str, *, fresh: bool) -> UpstreamConnection:
        timeout_s = self.call.settings.conf.upstream.connect_timeout_s
        try:
            with self.stream.while_connected():
                return await self.deps.pool.acquire(origin, workspace, timeout_s, fresh=fresh)
        except PoolFull:
            self.attempt.lagged = True
            log_no_connection(self.call.exchange, "all connections were in use for too long")
            raise _Failed(NO_CONNECTION_FREE) from None
        except Unreachable as error:
            self.attempt.lagged = error.lagged
            log_no_connection(self.call.exchange, error.reason)
            raise _Failed(provider_unreachable()) from None

    async def _send(self, connection: UpstreamConnection) -> ResponseHead:
        request, signature = self.attempt.request, b""
        if request.endpoint.signer:  # A signature has the time of its request.
            signature = await run_heavy_work(len(request.content), request.sign, self.deps.clock.now())
        self.deadline.start(connection.deadline)
        self.attempt.is_sent = True
        connection.send(request_head(request, self.attempt.trace_fields, signature), request.content)
        while True:
            if not await self._next_input(connection):
                await self._handle_silence()
            elif head := connection.take_head():
                return head

    def _next_input(
        self, connection: UpstreamConnection, on_piece: Callable[[bytes], bool] | None = None
    ) -> asyncio.Future[bool]:
        """As ``UpstreamConnection.next_input``, but the future raises ClientLeft when the client leaves."""
        arrival = connection.next_input(on_piece)
        self.stream.interrupts(arrival)
        return arrival

    async def _send_again(self, stale: UpstreamConnection) -> tuple[UpstreamConnection, ResponseHead]:
        stale.close()
        self.attempt.is_sent = False
        self.call.exchange = self.call.exchange.with_resend()
        self.deps.in_flight.metrics.count_resend(self.attempt.target.model.provider.name)
        try:
            fresh = await self._connect(fresh=True)
            return fresh, await self._send(fresh)
        except UpstreamConnectionError as broke:
            raise _Failed(_error_of(broke)) from None

    # Relay the answer.

    async def _relay(self, connection: UpstreamConnection, reader: AnswerReader) -> ErrorAnswer | None:
        relay_piece = partial(self._relay_piece, reader)
        while not self._relay_now(connection, reader):
            if self._unsent:
                unsent, self._unsent = self._unsent, b""
                await self.stream.send(unsent)
                if not reader.has_pending:
                    self.deadline.renew()
            elif not await self._next_input(connection, relay_piece):
                if reader.has_pending:
                    await self._pass_on(reader.flush_pending())
                    self.deadline.renew()
                elif reader.is_complete and self.deadline.is_over:
                    break
                else:
                    await self._handle_silence()
        if reader.failure and not reader.is_done:
            return reader.failure
        last = self._last or await run_heavy_work(reader.buffered_bytes, reader.finish)
        return await self._end(reader, last)

    def _relay_now(self, connection: UpstreamConnection, reader: AnswerReader) -> bool:
        """Relay what is there, of a stream a slice at most. Return whether the answer has ended.

        A piece that the client has no room for is kept. The provider may have ended the answer improperly. Raises
        _Failed if it broke off.
        """
        try:
            while not (self._unsent or reader.is_done or reader.failure):
                piece = connection.take(SLICE_BYTES if self.attempt.streams else None)
                if not piece:
                    return piece is not None
                self._relay_piece(reader, piece)
                if connection.has_unread:
                    return False  # Other calls have their turn first.
        except UpstreamConnectionError:
            if reader.is_complete:
                return True
            raise _Failed(self._error_of_break(reader)) from None
        return not self._unsent

    def _relay_piece(self, reader: AnswerReader, piece: bytes) -> bool:
        """Relay a piece that has arrived. Return whether the next one can be relayed in the same way."""
        had_pending = reader.has_pending
        output = reader.feed(piece)
        if reader.is_done:
            self._last = output
            return False
        if output:
            if self.call.first_byte_s is None:
                self._begin_output()
            self.deadline.last_output_s = self.deps.clock.monotonic_s()
            if not self.stream.try_send(output):
                self._unsent = output
        if reader.has_pending:
            if not had_pending:
                self.deadline.limit_pending()
        elif had_pending or self.call.first_byte_s is not None:
            self.deadline.renew()
        return not (self._unsent or reader.failure)

    def _begin_output(self) -> None:
        """Send the head, before the first piece."""
        self._send_head()
        self.call.first_byte_s = self.deps.clock.monotonic_s()

    async def _pass_on(self, output: bytes) -> None:
        """Send a piece of a streamed answer to the client."""
        if output:
            if self.call.first_byte_s is None:
                self._begin_output()
            self.deadline.last_output_s = self.deps.clock.monotonic_s()
            await self.stream.send(output)

    async def _end(self, reader: AnswerReader, last: bytes) -> ErrorAnswer | None:
        """Settle the call, then send the last bytes. So a client with a whole answer finds its row in the ledger."""
        if reader.failure:
            if self.call.is_head_sent:
                await self._pass_on(last)
            return reader.failure
        self._return_connection()
        if self.call.first_byte_s is None:
            self.call.first_byte_s = self.deps.clock.monotonic_s()
        self.deps.in_flight.note_attempt_end(self.call, self.attempt)
        await self.deps.in_flight.settle(self.call, OK)
        if self.call.exchange.stream:
            self._send_head()
            await self.stream.end(last)
        else:
            await self.stream.respond(Response(OK, make_answer_headers(self.call), last))
        return None

    def _send_head(self) -> None:
        """Begin a streamed answer, once. From now on no other attempt can follow."""
        if not self.call.is_head_sent:
            self.stream.begin(ResponseHead(OK, make_answer_headers(self.call)))
            self.call.is_head_sent = True

    def _return_connection(self) -> None:
        """Return the connection to the pool once its message has ended. The client does not wait for that."""
        connection, self.connection = self.connection, None
        if connection is None:
            return
        if connection.is_ended:
            connection.release()
        else:
            self.deps.in_flight.spawn(_await_end(connection))

    async def _handle_silence(self) -> None:
        """Send a heartbeat while the provider has time left. Raises _Failed once it has none."""
        if self.deadline.is_over or not self.deadline.has_heartbeats:
            self.attempt.lagged = self.deadline.lagged
            reader = self.attempt.reader
            raise _Failed((reader.error_so_far() if reader else None) or provider_timed_out())
        if not self.stream.has_backlog:
            self._send_head()
            await self.stream.send(HEARTBEAT)
        self.deadline.resume_after_heartbeat()

    def _error_of_break(self, reader: AnswerReader) -> ErrorAnswer:
        if self.call.first_byte_s is not None:
            return stream_interrupted()
        return reader.error_so_far() or unreadable_answer("it broke off.")


async def _await_end(connection: UpstreamConnection) -> None:
    """Read the bytes that a provider sends after ``[DONE]``, for ``END_TIMEOUT_S`` at most."""
    try:
        async with asyncio.timeout(END_TIMEOUT_S):
            while await connection.read():
                pass
        connection.release()
    except (UpstreamConnectionError, TimeoutError):
        connection.close()


def _error_of(broke: UpstreamConnectionError) -> ErrorAnswer:
    return unreadable_answer("it is not well-formed HTTP.") if broke.is_malformed else provider_unreachable()
