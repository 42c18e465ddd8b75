"""HTTP/1 at both ends: mitmproxy's own readers, with every head bounded and every refusal in JSON.

mitmproxy bounds neither the size of a head nor the time it takes, answers broken requests with an HTML page, keeps
reading while a pipelined request waits, and has no place for trailers. Each is cured here and nowhere else.
"""

import re
import time
from dataclasses import dataclass
from email.utils import formatdate
from typing import Protocol

import h2.events
from mitmproxy import http
from mitmproxy.connection import ConnectionState
from mitmproxy.net.http import http1
from mitmproxy.net.http.validate import validate_headers
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http._base import HttpEvent, ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    ErrorCode,
    RequestHeaders,
    RequestProtocolError,
    ResponseData,
    ResponseHeaders,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._http1 import Http1Client, Http1Server, make_body_reader
from mitmproxy.proxy.layers.http._http2 import Http2Server

from addon.catalog import is_fresh
from addon.errors import ErrorAnswer, from_refusal
from addon.request_id import new_request_id
from addon.retry_after import retry_headers
from policies.refusal import Refusal

MAX_HEAD_BYTES = 65_536
HEAD_TIMEOUT_S = 10.0
IDLE_CONNECTION_TIMEOUT_S = 75.0
LINGER_S = 2.0

_UNFIT_LINE = re.compile(rb"^[ \t]|[\x00-\x08\x0a-\x1f\x7f]")

Commands = layer.CommandGenerator[None]


@dataclass
class Overdue(HttpEvent):
    """A deadline that this connection end or stream had set is past; ``late``: by more than it was put off for."""

    late: bool = False


@dataclass
class StopReading(events.Event):
    """``stream`` is read on without its client, and has been for long enough."""

    stream: layer.Layer


class Deadlines(Protocol):
    """Where an end of a connection, or a stream, leaves the moment at which it wants to be woken."""

    def set_deadline(self, owner: layer.Layer, delay_s: float | None) -> None:
        """Send ``owner`` an ``Overdue`` after ``delay_s`` seconds, or none at all; one deadline an owner."""


def json_response(answer: ErrorAnswer, *, close: bool = False) -> http.Response:
    """The nested error object of the contract as a whole HTTP response; ``close`` ends the connection after it.

    Its request id is a new one, until the gateway puts the call's own there.
    """
    headers = {"content-type": "application/json", "x-request-id": new_request_id(), **retry_headers(answer)}
    if close:
        headers["connection"] = "close"
    return http.Response.make(answer.status, answer.body(), headers)


def dated(response: http.Response) -> http.Response:
    """Return ``response`` with the header ``Date``. Source: RFC 9110, 6.6.1: a server with a clock sends it."""
    response.headers["date"] = formatdate(time.time(), usegmt=True)
    return response


def catalog_response(body: bytes, tag: str, if_none_match: str) -> http.Response:
    """The public catalog, or that its client has it already."""
    headers = {"content-type": "application/json", "etag": tag, "cache-control": "no-cache"}
    if not is_fresh(tag, if_none_match):
        return http.Response.make(200, body, headers)
    response = http.Response.make(304, b"", headers)
    del response.headers["content-length"]
    return response


class _ForgivesTrailers:
    """The message is complete when its trailers arrive; mitmproxy raises there, and the trailers say nothing to us."""

    def read_body(self, event: events.Event) -> Commands:
        try:
            yield from super().read_body(event)  # type: ignore[misc]
        except NotImplementedError:
            is_request = isinstance(self, Http1Server)
            yield ReceiveHttp(self.ReceiveEndOfMessage(self.stream_id))  # type: ignore[attr-defined]
            yield from self.mark_done(request=is_request, response=not is_request)  # type: ignore[attr-defined]


class _OneWrite:
    """A head leaves together with the first piece of its body: a system call less, and a packet less, a message."""

    held_head = b""

    def send(self, event: HttpEvent) -> Commands:
        held, self.held_head = self.held_head, b""
        is_head = isinstance(event, RequestHeaders) or (
            isinstance(event, ResponseHeaders) and event.response.status_code >= 200
        )
        for command in super().send(event):  # type: ignore[misc]
            if is_head and isinstance(command, commands.SendData):
                self.held_head = command.data
                continue
            if held:
                if isinstance(command, commands.SendData):
                    command.data = held + command.data
                else:
                    yield commands.SendData(self.conn, held)  # type: ignore[attr-defined]
                held = b""
            yield command
        if held:
            yield commands.SendData(self.conn, held)  # type: ignore[attr-defined]


class ClientSide(_ForgivesTrailers, _OneWrite, Http1Server):
    """The end that a client talks to."""

    def __init__(self, context: Context, deadlines: Deadlines) -> None:
        super().__init__(context)
        self.deadlines = deadlines
        self.head_begun = False
        deadlines.set_deadline(self, HEAD_TIMEOUT_S)

    def _handle_event(self, event: events.Event) -> Commands:
        if isinstance(event, Overdue):
            yield from self.expire()
        else:
            yield from super()._handle_event(event)

    def read_headers(self, event: events.ConnectionEvent) -> Commands:
        if not isinstance(event, events.DataReceived):
            yield commands.CloseConnection(self.conn)
            return
        head = self._take_head()
        if head is None:
            if len(self.buf) > MAX_HEAD_BYTES:
                yield from self.refuse(_head_too_large())
            elif self.buf and not self.head_begun:
                # Set once a head: a client that drips a byte at a time gains nothing by it.
                self.head_begun = True
                self.deadlines.set_deadline(self, HEAD_TIMEOUT_S)
            return
        self.head_begun = False
        self.deadlines.set_deadline(self, None)
        if sum(map(len, head)) > MAX_HEAD_BYTES:
            yield from self.refuse(_head_too_large())
            return
        try:
            self.request, body_size = _read_request_head(head)
        except ValueError:
            yield from self.refuse(Refusal("bad_request", "The request is not well-formed HTTP/1.1."))
            return
        self.body_reader = make_body_reader(body_size)
        self.state = self.read_body
        yield ReceiveHttp(RequestHeaders(self.stream_id, self.request, body_size == 0))
        yield from self.state(event)

    def _take_head(self) -> list[bytes] | None:
        head = self.buf.maybe_extract_lines()
        while head == []:  # Empty lines before a request line are to be ignored (RFC 9112, 2.2).
            head = self.buf.maybe_extract_lines()
        return None if head is None else [bytes(line) for line in head]

    def read_body(self, event: events.Event) -> Commands:
        """Read as mitmproxy does, but leave a client that broke its own framing connected for the answer."""
        broken = False
        for command in super().read_body(event):
            if (
                isinstance(command, commands.CloseConnection)
                and isinstance(event, events.DataReceived)
                and not self.request_done
            ):
                broken = True
            else:
                yield command
        if broken and self.response is None:
            yield from self.refuse(Refusal("bad_request", "The request body is not well-formed."))
        elif broken:
            yield from self.close_gently()

    def wait(self, event: events.Event) -> Commands:
        if isinstance(event, events.DataReceived) and len(self.buf) > 2 * MAX_HEAD_BYTES:
            # Pipelined bytes pile up while a call is in flight: a client that floods is cut off.
            yield commands.CloseConnection(self.conn)
            self.buf.maybe_extract_at_most(len(self.buf))
            return
        yield from super().wait(event)

    def mark_done(self, *, request: bool = False, response: bool = False) -> Commands:
        yield from super().mark_done(request=request, response=response)
        if self.state == self.read_headers and not self.head_begun:
            self.deadlines.set_deadline(self, IDLE_CONNECTION_TIMEOUT_S)

    def expire(self) -> Commands:
        """The head did not come in time, the connection was idle too long, or it lingered long enough."""
        if self.buf and self.state == self.read_headers:
            yield from self.refuse(Refusal("request_timeout", "The request head did not arrive in time."))
        else:
            self.state = self.done
            yield commands.CloseConnection(self.conn)

    def refuse(self, refusal: Refusal) -> Commands:
        """Answer in JSON, below the level of flows, and close."""
        response = dated(json_response(from_refusal(refusal), close=True))
        if self.conn.state & ConnectionState.CAN_WRITE:
            yield commands.SendData(self.conn, http1.assemble_response(response))
        yield from self.close_gently()

    def close_gently(self) -> Commands:
        """Say that no more comes, and read on a little: closing on unread bytes would reset the connection and take
        the answer away from a client that is still sending."""
        self.state = self.linger
        self.deadlines.set_deadline(self, LINGER_S)
        yield commands.CloseTcpConnection(self.conn, half_close=True)

    def linger(self, event: events.ConnectionEvent) -> Commands:
        self.buf.maybe_extract_at_most(len(self.buf))
        if isinstance(event, events.ConnectionClosed):
            self.deadlines.set_deadline(self, None)
            self.state = self.done
            yield commands.CloseConnection(self.conn)


class Http2ClientSide(Http2Server):
    """The end that an HTTP/2 client talks to."""

    def handle_h2_event(self, event: h2.events.Event) -> layer.CommandGenerator[bool]:
        if isinstance(event, h2.events.StreamReset) and event.stream_id not in self.streams:
            # mitmproxy forgets a stream at its end, and would not tell that its client has left right behind it.
            left = RequestProtocolError(event.stream_id, "stream reset by client", ErrorCode.CANCEL)
            yield ReceiveHttp(left)
            return False
        return (yield from super().handle_h2_event(event))


class UpstreamSide(_ForgivesTrailers, _OneWrite, Http1Client):
    """The end that talks to a provider."""

    def read_headers(self, event: events.ConnectionEvent) -> Commands:
        if isinstance(event, events.DataReceived) and self.request:
            self._skip_interim_responses()
            if not self.buf:
                return
            if len(self.buf) > MAX_HEAD_BYTES and b"\n\r\n" not in bytes(self.buf) and self.stream_id:
                yield commands.CloseConnection(self.conn)
                yield ReceiveHttp(
                    ResponseProtocolError(
                        self.stream_id, "response head too large", ErrorCode.GENERIC_SERVER_ERROR
                    )
                )
                self.state = self.done
                return
        yield from super().read_headers(event)

    def read_body(self, event: events.Event) -> Commands:
        """Pass on what one read of the network brought as one piece, in however many chunks it came."""
        pieces: list[bytes] = []
        for command in super().read_body(event):
            if isinstance(command, ReceiveHttp) and isinstance(command.event, ResponseData):
                pieces.append(command.event.data)
                continue
            if pieces:
                yield self._received(pieces)
                pieces.clear()
            yield command
        if pieces:
            yield self._received(pieces)

    def _received(self, pieces: list[bytes]) -> ReceiveHttp:
        assert self.stream_id is not None  # noqa: S101  (there is a body only of a request's answer)
        return ReceiveHttp(ResponseData(self.stream_id, b"".join(pieces)))

    def _skip_interim_responses(self) -> None:
        """Drop 100 Continue, 103 Early Hints and the like, which mitmproxy would take for the answer."""
        while bytes(self.buf).startswith(b"HTTP/1.1 1") and self.buf.maybe_extract_lines():
            pass


def _head_too_large() -> Refusal:
    return Refusal("request_header_fields_too_large", f"The request head exceeds {MAX_HEAD_BYTES} bytes.")


def _read_request_head(lines: list[bytes]) -> tuple[http.Request, int | None]:
    """Parse a head strictly. Raises ValueError for what only a smuggler, or no HTTP/1 client at all, would send."""
    if any(_UNFIT_LINE.search(line) for line in lines):
        raise ValueError("a control character, or a folded line")
    if lines[0].count(b" ") != 2:
        raise ValueError("a request line is three words with one space between them")
    request = http1.read_request_head(lines)
    validate_headers(request)
    if request.http_version not in ("HTTP/1.0", "HTTP/1.1"):
        raise ValueError("unsupported version")
    hosts = request.headers.get_all("host")
    if len(hosts) > 1 or (not hosts and request.http_version == "HTTP/1.1"):
        raise ValueError("one Host header is required")
    return request, http1.expected_http_body_size(request)
