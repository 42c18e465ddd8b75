"""Makes one attempt of a call: connects, sends, waits for the head, and relays the answer to the client.

Every wait has an end: the provider's time (``[upstream]`` of proxy.conf), or the client's leaving.
"""

import asyncio
from dataclasses import replace

from addon.answers.readers import Relay
from addon.calls.attempt import UpstreamAttempt
from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.provider_deadline import ProviderDeadline
from addon.calls.read_on import read_on
from addon.calls.responses import answer_headers
from addon.calls.settlement import OK
from addon.calls.upstream_origin import origin_of, request_head
from addon.calls.upstream_request import note_head
from addon.runtime.heavy_work import work_off
from addon.telemetry.logs import log_no_connection
from addon.text.errors import (
    NO_CONNECTION_FREE,
    ErrorAnswer,
    stream_interrupted,
    timed_out,
    unreachable,
    upstream_garbage,
)
from addon.text.http_heads import Response, ResponseHead
from addon.upstream.connection import UpstreamBroke, UpstreamConnection
from addon.upstream.pool import PoolFull, Unreachable
from addon.wire.stream import ClientLeft, Stream
from policies.exchange import Stage

END_TIMEOUT_S = 1.0
"""How long a provider may take to end its message after ``[DONE]`` before its connection is closed."""

HEARTBEAT = b": the provider is silent\n\n"


class _Failed(Exception):  # noqa: N818  (an answer, not a fault)
    def __init__(self, failure: ErrorAnswer) -> None:
        super().__init__(failure.code)
        self.failure = failure


class AttemptRunner:
    """One attempt of ``call`` for the client of ``stream``."""

    def __init__(self, call: Call, attempt: UpstreamAttempt, stream: Stream, deps: Dependencies) -> None:
        self.call, self.attempt, self.stream, self.deps = call, attempt, stream, deps
        self.time = ProviderDeadline(call, attempt, deps.clock)
        self.connection: UpstreamConnection | None = None

    async def run(self) -> ErrorAnswer | None:
        """Return how the attempt failed, None where the client has its whole answer and the call is booked.

        Raises ClientLeft, once what is read without the client is in.
        """
        if self.call.exchange.stage is not Stage.DISPATCHED or self.call.current is not self.attempt:
            raise RuntimeError(f"call {self.call.exchange.id}: an attempt that was not approved")
        try:
            return await self._run()
        except _Failed as failed:
            return failed.failure
        except ClientLeft:
            self.call.is_cut_off = self.stream.is_cut_off
            if self.connection and not self.call.is_cut_off:
                await read_on(self.call, self.attempt, self.connection, self.deps)
            raise
        finally:
            self.time.patience.close()
            if self.connection:
                # Kept where its message has ended, as that of an error mostly has; else closed.
                self.connection.release()

    async def _run(self) -> ErrorAnswer | None:
        connection = await self._connect(fresh=False)
        try:
            head = await self._send(connection)
        except UpstreamBroke as broke:
            if not (broke.before_any_byte and connection.is_reused):
                raise _Failed(_garbage() if broke.is_garbage else unreachable()) from None
            # Its provider had closed it just then: not a failure, and no attempt of its own.
            head = await self._send_again(connection)
        # Nothing of this attempt is sent again, and its body may be large.
        self.attempt.request = replace(self.attempt.request, content=b"")
        self.attempt.head_s = self.deps.clock.monotonic_s()
        return await self._relay(note_head(self.call, self.attempt, head, self.deps.clock.now()))

    # Connect, send, and await the head.

    async def _connect(self, *, fresh: bool) -> UpstreamConnection:
        workspace, _ = self.call.exchange.caller
        origin = origin_of(self.attempt, workspace.id)
        timeout_s = self.call.settings.conf.upstream.connect_timeout_s
        try:
            with self.stream.present():
                connection = await self.deps.pool.acquire(origin, workspace.id, timeout_s, fresh=fresh)
        except PoolFull:
            self.attempt.lagged = True
            log_no_connection(self.call.exchange, "no place among the open connections was free in time")
            raise _Failed(NO_CONNECTION_FREE) from None
        except Unreachable as error:
            self.attempt.lagged = error.lagged
            log_no_connection(self.call.exchange, error.reason)
            raise _Failed(unreachable()) from None
        self.connection = connection
        return connection

    async def _send(self, connection: UpstreamConnection) -> ResponseHead:
        self.time.begin()
        self.attempt.is_sent = True
        connection.send(request_head(self.attempt), self.attempt.request.content)
        while True:
            try:
                with self.stream.present(), self.time.patience:
                    return await connection.head()
            except TimeoutError:
                await self._meet_silence()

    async def _send_again(self, stale: UpstreamConnection) -> ResponseHead:
        stale.close()
        self.attempt.is_sent = False
        try:
            return await self._send(await self._connect(fresh=True))
        except UpstreamBroke as broke:
            raise _Failed(_garbage() if broke.is_garbage else unreachable()) from None

    # Relay the answer.

    async def _relay(self, reader: Relay) -> ErrorAnswer | None:
        self.time.renew()
        while True:
            piece = await self._read(reader)
            if not piece:
                return await self._end(reader, await work_off(reader.kept_bytes, reader.finish))
            had_hold = reader.holds
            shown = reader.feed(piece)
            if reader.done:
                return await self._end(reader, shown)
            await self._pass_on(shown)
            if reader.failure:
                return reader.failure
            if reader.holds:
                if not had_hold:
                    self.time.hold()
            else:
                self.time.renew()

    async def _read(self, reader: Relay) -> bytes:
        """Return the next piece of the answer, ``b""`` where it has ended, though perhaps not properly."""
        connection = self._connection()
        while True:
            try:
                with self.stream.present(), self.time.patience:
                    return await connection.read()
            except UpstreamBroke:
                if reader.complete:
                    return b""
                raise _Failed(self._said_of_break(reader)) from None
            except TimeoutError:
                if reader.holds:
                    await self._pass_on(reader.release())
                    self.time.renew()
                elif reader.complete and self.time.is_over:
                    return b""
                else:
                    await self._meet_silence()

    async def _pass_on(self, piece: bytes) -> None:
        if not piece:
            return
        if self.call.first_byte_s is None:
            self._commit()
            self.call.first_byte_s = self.deps.clock.monotonic_s()
        self.time.note_shown()
        with self.stream.present():
            await self.stream.send(piece)

    async def _end(self, reader: Relay, last: bytes) -> ErrorAnswer | None:
        """Book the call, then send the last bytes: a client with a whole answer finds it in the ledger."""
        if reader.failure:
            if self.call.is_committed:
                await self._pass_on(last)
            return reader.failure
        self._hand_back()
        if self.call.first_byte_s is None:
            self.call.first_byte_s = self.deps.clock.monotonic_s()
        self.deps.in_flight.attempt_ended(self.call, self.attempt)
        await self.deps.in_flight.settle(self.call, OK)
        if self.call.exchange.stream:
            self._commit()
            await self.stream.end(last)
        else:
            await self.stream.respond(Response(OK, answer_headers(self.call), last))
        return None

    def _commit(self) -> None:
        """Begin a streamed answer: from here on there is no other attempt."""
        if not self.call.is_committed:
            self.stream.begin(ResponseHead(OK, answer_headers(self.call)))
            self.call.is_committed = True

    def _hand_back(self) -> None:
        """Return the connection to the pool, once its message has ended. The client does not wait for that."""
        connection, self.connection = self._connection(), None
        if connection.is_ended:
            connection.release()
        else:
            self.deps.in_flight.do(_await_end(connection))

    async def _meet_silence(self) -> None:
        """Send a heartbeat where the provider has time left. Raises _Failed where it has none."""
        if self.time.is_over or not self.time.is_beating:
            self.attempt.lagged = self.time.patience.lagged
            reader = self.attempt.reader
            raise _Failed((reader.give_up() if reader else None) or timed_out())
        if not self.stream.is_behind:
            self._commit()
            with self.stream.present():
                await self.stream.send(HEARTBEAT)
        self.time.go_on()

    def _said_of_break(self, reader: Relay) -> ErrorAnswer:
        if self.call.first_byte_s is not None:
            return stream_interrupted()
        return reader.give_up() or upstream_garbage("it broke off.")

    def _connection(self) -> UpstreamConnection:
        if self.connection is None:
            raise RuntimeError(f"call {self.call.exchange.id}: its attempt has no connection")
        return self.connection


async def _await_end(connection: UpstreamConnection) -> None:
    """Read what a provider sends behind ``[DONE]``, for a moment."""
    try:
        async with asyncio.timeout(END_TIMEOUT_S):
            while await connection.read():
                pass
        connection.release()
    except (UpstreamBroke, TimeoutError):
        connection.close()


def _garbage() -> ErrorAnswer:
    return upstream_garbage("it is not well-formed HTTP.")
