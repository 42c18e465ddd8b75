"""The client's side of one call: reads the request within its bounds, and answers.

A response that the head alone decides is sent at once; mitmproxy would read the whole body first.
"""

from mitmproxy import http
from mitmproxy.proxy import events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import DropStream, HttpStream, SendHttp
from mitmproxy.proxy.layers.http._events import (
    ErrorCode,
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    RequestProtocolError,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._hooks import HttpRequestHeadersHook, HttpRequestHook

from addon.call import Call, call_of
from addon.errors import INTERNAL
from addon.hop_wire import Commands, Deadlines, dated, json_response
from policies.refusal import Refusal

BODY_PIECE_TIMEOUT_S = 30.0
DISCARD_TIMEOUT_S = 10.0


class RequestStream(HttpStream):
    """One request. What is to be done once it was read and not refused, ``start_attempt``, is for a subclass to say."""

    def __init__(self, context: Context, stream_id: int, deadlines: Deadlines) -> None:
        super().__init__(context, stream_id)
        self.deadlines = deadlines
        self.body = bytearray()
        self.discarded_bytes = 0

    def start_attempt(self) -> Commands:
        """Serve the request."""
        raise NotImplementedError

    @property
    def call(self) -> Call | None:
        return call_of(self.flow)

    # read_head → read_body → (answered) → done, with discard_body after an early answer.

    def read_head(self, event: RequestHeaders) -> Commands:
        self.flow = http.HTTPFlow(self.context.client, self.context.server)
        self.flow.request = self.client_request = event.request
        self.flow.live = True
        self.client_state = self.read_body
        yield HttpRequestHeadersHook(self.flow)
        if self.call is None:
            self.flow.response = json_response(INTERNAL, close=True)
        if self.flow.response:
            yield from self.answer_early(self.flow.response)
            return
        if event.request.headers.get("expect", "").lower() == "100-continue":
            head = http.Response.make(100)
            head.headers.clear()
            yield SendHttp(ResponseHeaders(self.stream_id, head), self.context.client)
        self.deadlines.set_deadline(self, BODY_PIECE_TIMEOUT_S)

    def read_body(self, event: RequestData | RequestEndOfMessage) -> Commands:
        call = self.call
        assert call is not None  # noqa: S101  (read_head answers where there is none)
        if isinstance(event, RequestData):
            self.body += event.data
            limit = call.settings.conf.limits.max_request_bytes
            if len(self.body) > limit:
                yield from self.refuse_body(Refusal("request_too_large", f"The body exceeds {limit} bytes."))
            else:
                self.deadlines.set_deadline(self, BODY_PIECE_TIMEOUT_S)
            return
        self.deadlines.set_deadline(self, None)
        self.client_state = self.done
        self.flow.request.data.content = bytes(self.body)
        self.body.clear()
        yield HttpRequestHook(self.flow)
        if self.flow.response:
            yield from self.answer(self.flow.response)
        elif not self.client_is_leaving():
            yield from self.start_attempt()

    def refuse_body(self, refusal: Refusal) -> Commands:
        """The body never became whole, or never will: the gateway hears of it as of any other refused request."""
        self.body.clear()
        assert self.call is not None  # noqa: S101
        self.call.refusal = refusal
        yield HttpRequestHook(self.flow)
        yield from self.answer_early(self.flow.response or json_response(INTERNAL, close=True))

    def answer_early(self, response: http.Response) -> Commands:
        """Answer before the body is in. What still comes of it is read and thrown away for a while, because closing
        on a client that is still sending would take the answer away from it."""
        self.client_state = self.discard_body
        self.deadlines.set_deadline(self, DISCARD_TIMEOUT_S)
        yield from self.answer(response)
        if "expect" in self.client_request.headers:
            yield from self.cut_client()  # It may, or may not, send the body that it asked about.

    def discard_body(self, event: RequestData | RequestEndOfMessage) -> Commands:
        if isinstance(event, RequestData):
            self.discarded_bytes += len(event.data)
            call = self.call
            if call is None or self.discarded_bytes > call.settings.conf.limits.max_request_bytes:
                yield from self.cut_client()
        else:
            self.deadlines.set_deadline(self, None)
            self.client_state = self.done
            yield DropStream(self.stream_id)

    def done(self, _event: events.Event) -> Commands:
        yield from ()

    def client_is_leaving(self) -> bool:
        """Whether the client left while a hook or a connect was awaited; that event is next in the queue."""
        return any(isinstance(event, RequestProtocolError) for event in self._paused_event_queue)

    def answer(self, response: http.Response) -> Commands:
        """Send a whole response."""
        content = b"" if self.client_request.method == "HEAD" else response.raw_content
        yield SendHttp(ResponseHeaders(self.stream_id, dated(response), not content), self.context.client)
        if content:
            yield SendHttp(ResponseData(self.stream_id, content), self.context.client)
        yield from self.end_answer()

    def forget_bodies(self) -> None:
        """Let go of what was sent: streams refer to themselves, so they stay until they are collected."""
        self.body.clear()
        self.client_request.data.content = self.flow.request.data.content = None

    def end_answer(self) -> Commands:
        self.flow.live = False
        self.forget_bodies()
        if self.client_state == self.done:
            yield DropStream(self.stream_id)
        # After the drop: the end of this message may start the next one on the connection.
        yield SendHttp(ResponseEndOfMessage(self.stream_id), self.context.client)

    def cut_client(self) -> Commands:
        """Close an HTTP/1 connection, reset an HTTP/2 stream."""
        self.deadlines.set_deadline(self, None)
        self.client_state = self.done
        yield DropStream(self.stream_id)
        yield SendHttp(ResponseProtocolError(self.stream_id, "cut off", ErrorCode.KILL), self.context.client)
