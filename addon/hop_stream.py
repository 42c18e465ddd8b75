"""The upstream's side of one call: sends the approved attempt, relays its answer, or says how it failed.

``HopStream`` opens nothing unless the call's exchange is ``DISPATCHED``: failing closed is how it is built, not
something that each hook must remember. Every attempt has a stream id of its own toward the upstream, so that the late
end of an abandoned attempt can't be taken for the failure of the next one.
"""

import time
from typing import TYPE_CHECKING

from mitmproxy.net.http.validate import validate_headers
from mitmproxy.proxy import events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import SendHttp
from mitmproxy.proxy.layers.http._base import HttpEvent
from mitmproxy.proxy.layers.http._events import (
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    RequestProtocolError,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._hooks import (
    HttpResponseHeadersHook,
    HttpResponseHook,
)

from addon.attempt_stream import AttemptStream
from addon.call import Call
from addon.errors import (
    INTERNAL,
    ErrorAnswer,
    stream_interrupted,
    timed_out,
    unreachable,
    upstream_garbage,
)
from addon.exchange import Stage
from addon.hop_attempt import AttemptFailedHook, GetUpstream
from addon.hop_wire import Commands, Overdue, StopReading, dated, json_response
from addon.log import log_no_connection
from policies.refusal import Refusal

if TYPE_CHECKING:
    from addon.hop import HopLayer

MAX_UNREAD_BYTES = 4 * 1024 * 1024
"""Of one answer, that an HTTP/2 client may leave with us by giving its stream no window; TCP sees to the others."""

END_TIMEOUT_S = 1.0
"""How long a provider may take to end its message after ``[DONE]`` before its connection is closed."""

HOLD_TIMEOUT_S = 1.0
"""How long the last chunk with a choice waits for the usage that it is to bear."""

# Trailers, of either side, say nothing to a gateway.
_FROM_CLIENT = frozenset({RequestHeaders, RequestData, RequestEndOfMessage})
_FROM_UPSTREAM = frozenset({ResponseHeaders, ResponseData, ResponseEndOfMessage, ResponseProtocolError})


class HopStream(AttemptStream):
    """One call: a request that was read is sent upstream, attempt by attempt, and the answer relayed."""

    def __init__(self, context: Context, stream_id: int, hops: "HopLayer") -> None:
        super().__init__(context, stream_id, hops)
        self.committed = False  # from the first byte of an answer that the client was sent
        self.retried_stale = False
        self.began_s = 0.0  # when the first attempt was sent

    def _handle_event(self, event: events.Event) -> Commands:
        kind = type(event)
        if kind in _FROM_CLIENT:
            yield from self.client_state(event)
        elif kind in _FROM_UPSTREAM:
            assert isinstance(event, HttpEvent)  # noqa: S101
            if self.attempt is None or event.stream_id != self.attempt.id:
                return  # What an abandoned attempt still says.
            if self.is_read_on:
                yield from self.read_on(event)
                return
            if isinstance(event, ResponseProtocolError):
                yield from self.upstream_broke(event.message)
            else:
                yield from self.server_state(event)
        elif kind is RequestProtocolError:
            yield from self.client_left()
        elif kind is StopReading:
            if self.is_read_on:
                yield from self.abandon()
        elif isinstance(event, Overdue):
            if self.call:
                self.call.lagged = event.late
            yield from self.overdue()
        elif kind is events.Start:
            self.client_state = self.read_head

    # start_attempt → await_head → relay_body.

    def start_attempt(self, *, fresh: bool = False) -> Commands:
        call = self.call
        if call is None or call.exchange.stage is not Stage.DISPATCHED:
            yield from self.answer(json_response(INTERNAL))
            return
        request = self.flow.request
        call.lagged = call.is_sent = False
        self.attempt = attempt = self.hops.new_attempt(self)
        ask = GetUpstream((request.host, request.port), request.scheme == "https", None, fresh=fresh)
        connection, error = yield ask
        if error:
            if ask.opened:
                self.flow.server_conn = ask.opened
            log_no_connection(call.exchange, error)
            yield from self.attempt_over(unreachable())
            return
        attempt.connection, attempt.reused, attempt.sent_s = connection, ask.reused, time.monotonic()
        self.began_s = self.began_s or attempt.sent_s
        if self.client_is_leaving():
            return
        self.flow.server_conn = connection
        self.server_state = self.await_head
        self.deadlines.set_deadline(self, self.patience_s(call))
        call.is_sent = True
        yield SendHttp(RequestHeaders(attempt.id, request, end_stream=False), connection)
        yield SendHttp(RequestData(attempt.id, request.raw_content or b""), connection)
        yield SendHttp(RequestEndOfMessage(attempt.id), connection)

    def await_head(self, event: ResponseHeaders) -> Commands:
        call = self.call
        assert call is not None and self.attempt is not None  # noqa: S101  (an attempt is of a call)
        self.attempt.answered, self.attempt.status = True, event.response.status_code
        call.head_s = self.attempt.head_s = time.monotonic()
        try:
            validate_headers(event.response)
        except ValueError:
            yield from self.attempt_over(upstream_garbage("its headers are malformed."))
            return
        self.flow.response = event.response
        self.server_state = self.relay_body
        yield HttpResponseHeadersHook(self.flow)
        if call.relay is None:
            yield from self.attempt_over(INTERNAL)
        elif self.attempt.status >= 300 and (patience_s := self.patience_s(call)):
            self.deadlines.set_deadline(self, patience_s)

    def relay_body(self, event: ResponseData | ResponseEndOfMessage) -> Commands:
        call = self.call
        assert call is not None and call.relay is not None  # noqa: S101  (await_head ended the attempt otherwise)
        if isinstance(event, ResponseEndOfMessage):
            self.release_attempt()
            rest = yield from self.finish_relay(call, call.relay)
            yield from self.end_of_relay(call, rest)
            return
        held = call.relay.holds
        piece = call.relay.feed(event.data)
        if call.relay.done:
            # The client gets all of it, and is not made to wait for what the provider does next.
            if piece and not self.committed:
                yield from self.commit()
            self.server_state = self.await_end
            self.deadlines.set_deadline(self, END_TIMEOUT_S)
            yield from self.end_of_relay(call, piece)
            return
        yield from self.send(piece)
        if call.relay.failure:
            yield from self.attempt_over(call.relay.failure)
        elif self.hops.unread_bytes(self.stream_id) > MAX_UNREAD_BYTES:
            yield from self.client_left(is_cut_off=True)
            yield from self.cut_client()
        elif call.relay.holds:
            if not held:
                self.deadlines.set_deadline(self, HOLD_TIMEOUT_S)
        elif patience_s := self.patience_s(call):
            self.deadlines.set_deadline(self, patience_s)

    def send(self, piece: bytes) -> Commands:
        if piece and not self.committed:
            yield from self.commit()
        if piece:
            yield SendHttp(ResponseData(self.stream_id, piece), self.context.client)

    def end_of_relay(self, call: Call, rest: bytes) -> Commands:
        """Send ``rest``, the last bytes, once the hook has booked the call."""
        assert call.relay is not None and self.flow.response is not None  # noqa: S101
        if call.relay.failure:
            if self.committed:
                yield from self.send(rest)
            yield from self.attempt_over(call.relay.failure)
            return
        if not self.committed:
            call.first_byte_s = time.monotonic()
        head = self.flow.response
        yield HttpResponseHook(self.flow)
        if not self.committed:
            if self.flow.response is head:  # Where the hook failed, it is an error answer.
                head.raw_content = rest
                head.headers["content-length"] = str(len(rest))
            yield from self.answer(self.flow.response)
            return
        yield from self.send(rest)
        yield from self.end_answer()

    def await_end(self, event: ResponseData | ResponseEndOfMessage) -> Commands:
        """The answer is with the client; its connection may serve again when the provider has ended it too."""
        if isinstance(event, ResponseEndOfMessage):
            self.release_attempt()
        yield from ()

    def patience_s(self, call: Call) -> float:
        """Seconds until the next piece, or the rest, must be in."""
        assert self.attempt is not None  # noqa: S101
        timeouts = call.settings.conf.upstream
        if self.committed:
            return timeouts.idle_timeout_s
        # Comments before a stream's first event, and an error or a whole answer that drips, gain no time.
        if call.exchange.stream:
            until_s = self.attempt.sent_s + timeouts.first_byte_timeout_s
        else:
            is_first_of_two = call.exchange.has_next_attempt
            until_s = self.began_s + timeouts.whole_timeout_s / (2 if is_first_of_two else 1)
            if self.attempt.status >= 300:
                until_s = min(until_s, self.attempt.head_s + timeouts.first_byte_timeout_s)
        return max(0.0, until_s - time.monotonic())

    def upstream_broke(self, message: str) -> Commands:
        attempt = self.attempt
        assert attempt is not None  # noqa: S101
        # mitmproxy's words for a connection that ended before any byte of an answer.
        if self.server_state == self.await_end:
            yield from self.give_up_attempt()
        elif attempt.reused and not self.retried_stale and message == "server closed connection":
            # A kept connection that the provider closed just then: not its failure, and no hop.
            self.retried_stale = True
            yield from self.give_up_attempt()
            yield from self.start_attempt(fresh=True)
        elif self.is_complete():
            yield from self.end_early()
        elif self.committed:
            yield from self.attempt_over(stream_interrupted())
        elif attempt.answered:
            yield from self.attempt_over(self.what_was_said() or upstream_garbage("it broke off."))
        else:
            yield from self.attempt_over(unreachable())

    def is_complete(self) -> bool:
        """Whether the provider said all of its answer, though it does not end it properly."""
        return bool(self.call and self.call.relay and self.call.relay.complete)

    def end_early(self) -> Commands:
        yield from self.give_up_attempt()
        call = self.call
        if call and call.relay and not self.client_is_leaving():
            yield from self.end_of_relay(call, call.relay.finish())

    def what_was_said(self) -> ErrorAnswer | None:
        """The error that an answer's head told, where its body can't be had."""
        call = self.call
        return call.relay.give_up() if call and call.relay else None

    def attempt_over(self, failure: ErrorAnswer) -> Commands:
        """The attempt failed: a next one, an error answer, or, in a stream that has begun, an error event."""
        yield from self.give_up_attempt()
        call = self.call
        if call is None or self.client_is_leaving():
            return
        attempts, call.failure = call.exchange.attempts, failure
        self.flow.response = json_response(failure)
        yield AttemptFailedHook(self.flow)
        if self.committed:
            yield SendHttp(ResponseData(self.stream_id, failure.sse_event()), self.context.client)
            yield from self.end_answer()
        elif call.exchange.stage is Stage.DISPATCHED and call.exchange.attempts > attempts:
            if not self.client_is_leaving():
                self.retried_stale = False
                yield from self.start_attempt()
        else:
            yield from self.answer(self.flow.response)

    def commit(self) -> Commands:
        """Send the head of a streamed answer: from here on there is no other attempt."""
        call = self.call
        assert call is not None and self.flow.response is not None  # noqa: S101
        self.committed = True
        call.first_byte_s = time.monotonic()
        if self.client_request.http_version == "HTTP/1.1":
            self.flow.response.headers["transfer-encoding"] = "chunked"
        yield SendHttp(ResponseHeaders(self.stream_id, dated(self.flow.response)), self.context.client)

    def overdue(self) -> Commands:
        if self in self.hops.deadlines or self.is_read_on:
            return  # It was set anew, or the client left, while this event waited.
        if self.attempt and self.server_state == self.await_end:
            yield from self.give_up_attempt()
        elif self.attempt and self.call and self.call.relay and self.call.relay.holds:
            yield from self.send(self.call.relay.release())
            self.deadlines.set_deadline(self, self.patience_s(self.call))
        elif self.attempt and self.committed and self.call and self.call.client_is_behind():
            # The client is slow, and nothing is read for it meanwhile: the provider is not to blame for the silence.
            self.deadlines.set_deadline(self, self.patience_s(self.call))
        elif self.attempt and self.is_complete():
            yield from self.end_early()
        elif self.attempt:
            yield from self.attempt_over(self.what_was_said() or timed_out())
        elif self.client_state == self.read_body:
            yield from self.refuse_body(
                Refusal("request_timeout", "The request body did not arrive in time.")
            )
        elif self.client_state == self.discard_body:
            yield from self.cut_client()
