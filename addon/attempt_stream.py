"""One attempt of a call on its upstream connection: held, released, given up, or read on for a client that left."""

import time
from typing import TYPE_CHECKING

from mitmproxy.connection import Server
from mitmproxy.flow import Error
from mitmproxy.proxy import layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import DropStream, SendHttp
from mitmproxy.proxy.layers.http._base import HttpEvent
from mitmproxy.proxy.layers.http._events import (
    ErrorCode,
    RequestProtocolError,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._hooks import HttpErrorHook, HttpResponseHeadersHook

from addon.call import Call
from addon.errors import unreachable
from addon.exchange import Stage
from addon.heavy_work import LIGHT_BODY_BYTES
from addon.hop_attempt import ReadAnswerHook, SentAttempt
from addon.hop_wire import Commands
from addon.relay import Relay
from addon.request_stream import RequestStream
from addon.unrelayed import STREAM_MAX_BYTES

if TYPE_CHECKING:
    from addon.hop import HopLayer


class AttemptStream(RequestStream):
    """One call with an attempt under way, and what becomes of that when the client leaves."""

    def __init__(self, context: Context, stream_id: int, hops: "HopLayer") -> None:
        super().__init__(context, stream_id, hops)
        self.hops = hops
        self.attempt: SentAttempt | None = None
        self.is_read_on = False
        self.unrelayed_bytes = 0

    def client_left(self, *, is_cut_off: bool = False) -> Commands:
        """The client closed its connection, reset its stream, or broke its own framing; or the gateway cuts it off."""
        self.client_state = self.done
        call = self.call
        if call:
            call.is_cut_off = is_cut_off
        if not is_cut_off and self._is_worth_reading_on() and call:
            whole = not call.exchange.stream
            self.is_read_on = self.hops.unrelayed.begin(self, self.context.client, whole=whole)
        if self.is_read_on:
            self.deadlines.set_deadline(self, None)
        else:
            yield from self.abandon()

    def _is_worth_reading_on(self) -> bool:
        """Whether the provider will bill the answer, and may say soon how much it is."""
        call = self.call
        if call is None or self.attempt is None or not call.is_sent:
            return False
        if call.exchange.stage is not Stage.DISPATCHED:
            return False
        return not call.exchange.stream or (call.relay is not None and call.relay.finished)

    def read_on(self, event: HttpEvent) -> Commands:
        """Read what the provider still says, and let nobody have it."""
        call = self.call
        assert call is not None  # noqa: S101  (only a call is read on)
        if isinstance(event, ResponseHeaders):
            self.flow.response, call.head_s = event.response, time.monotonic()
            yield HttpResponseHeadersHook(self.flow)
            if call.relay is not None:
                return
        elif isinstance(event, ResponseData) and call.relay:
            call.relay.feed(event.data)
            self.unrelayed_bytes += len(event.data)
            is_enough = call.exchange.stream and self.unrelayed_bytes > STREAM_MAX_BYTES
            if not (call.relay.done or call.relay.failure or is_enough):
                return
        elif isinstance(event, ResponseEndOfMessage) and call.relay:
            self.release_attempt()
            yield from self.finish_relay(call, call.relay)
        elif isinstance(event, ResponseProtocolError):
            call.failure = unreachable()
        yield from self.abandon()

    def finish_relay(self, call: Call, relay: Relay) -> layer.CommandGenerator[bytes]:
        """Return the last bytes of an answer that came whole; a large one is read outside the event loop."""
        if relay.kept_bytes <= LIGHT_BODY_BYTES:
            return relay.finish()
        yield ReadAnswerHook(self.flow)
        last_bytes, call.last_bytes = call.last_bytes, b""
        return last_bytes

    def abandon(self) -> Commands:
        """Nothing more is read of this call: give up what is under way, and let it be booked."""
        self.is_read_on = False
        yield from self.give_up_attempt()
        self.flow.error = self.flow.error or Error("client left")
        yield HttpErrorHook(self.flow)
        self.flow.live = False
        self.forget_bodies()
        yield DropStream(self.stream_id)
        self.hops.unrelayed.end(self)

    def give_up_attempt(self) -> Commands:
        """Leave the attempt; its connection is closed, because an answer may still be on its way on it."""
        attempt = self.attempt
        self.release_attempt(reusable=False)
        if attempt and attempt.connection in self.hops.connections:
            given_up = RequestProtocolError(attempt.id, "attempt given up", ErrorCode.CANCEL)
            yield SendHttp(given_up, attempt.connection)

    def release_attempt(self, *, reusable: bool = True) -> None:
        """Forget the attempt; its connection may serve the next call when its answer came whole."""
        attempt, self.attempt = self.attempt, None
        self.deadlines.set_deadline(self, None)
        if attempt:
            self.hops.streams.pop(attempt.id, None)
            if reusable and isinstance(attempt.connection, Server):
                self.hops.idle.add(attempt.connection)
