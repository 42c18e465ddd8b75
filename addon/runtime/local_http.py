"""A small HTTP server for the admin port and the sandbox: one port, one handler, no access log.

It is tornado's server without its web framework. After ``stop``, nothing of it runs.
"""

import asyncio
import logging
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http.client import responses
from types import MappingProxyType
from typing import override

from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import StreamClosedError

from addon.runtime.listening import bind

log = logging.getLogger("tollgate.local_http")

NO_HEADERS: Mapping[str, str] = MappingProxyType({})
MAX_HEADER_BYTES = 32_768
MAX_BUFFER_BYTES = 1_114_112
IDLE_TIMEOUT_S = 75
BODY_TIMEOUT_S = 30
RETIRE_S = 0.5
"""How long ``stop`` waits after ``retire``, so that a client that asks often gets its last answer."""
_LOOK_S = 0.01

type FindMaxBody = Callable[[HTTPServerRequest], int]
type Handler = Callable[[HTTPServerRequest], Awaitable[None]]


class _Message(HTTPMessageDelegate):
    """Reads one request, whose body is bounded when its head is here."""

    def __init__(
        self,
        connection: HTTP1Connection,
        accept: Callable[[HTTPServerRequest], None],
        find_max_body: FindMaxBody,
    ) -> None:
        self._connection = connection
        self._accept = accept
        self._find_max_body = find_max_body
        self._pieces: list[bytes] = []
        self._request: HTTPServerRequest | None = None

    @override
    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        assert isinstance(start_line, RequestStartLine)  # noqa: S101  (this is the side of the server)
        request = HTTPServerRequest(connection=self._connection, start_line=start_line, headers=headers)
        self._connection.set_max_body_size(self._find_max_body(request))
        self._request = request

    @override
    def data_received(self, chunk: bytes) -> None:
        self._pieces.append(chunk)

    @override
    def finish(self) -> None:
        assert self._request  # noqa: S101  (the head comes first)
        self._request.body = b"".join(self._pieces)
        self._accept(self._request)

    @override
    def on_connection_close(self) -> None:
        self._pieces.clear()


class _Server(HTTPServer):
    """tornado's server, with a bound of its connections. One more closes the one that was silent for longest."""

    open: OrderedDict[HTTP1ServerConnection, None]
    accept: Callable[[HTTPServerRequest], None]
    find_max_body: FindMaxBody
    max_connections: int | None

    @override
    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        assert isinstance(server_conn, HTTP1ServerConnection)  # noqa: S101  (tornado serves nothing else)
        assert isinstance(request_conn, HTTP1Connection)  # noqa: S101
        self.open[server_conn] = None
        self.open.move_to_end(server_conn)
        if self.max_connections and len(self.open) > self.max_connections:
            silent, _ = self.open.popitem(last=False)
            silent.stream.close()
        return _Message(request_conn, self.accept, self.find_max_body)

    @override
    def on_close(self, server_conn: object) -> None:
        super().on_close(server_conn)
        self.open.pop(server_conn, None)  # type: ignore[call-overload]


class LocalServer:
    """A server that calls ``handler`` for each request.

    When a client leaves, its handler is cancelled. When a handler fails, its connection is closed. ``find_max_body``
    may allow a request a larger body. Without ``max_connections`` their number has no bound.
    """

    def __init__(
        self,
        handler: Handler,
        max_body_bytes: int,
        find_max_body: FindMaxBody | None = None,
        max_connections: int | None = None,
    ) -> None:
        self._handler = handler
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_retired = False
        self._server = _Server(
            self._accept,
            max_header_size=MAX_HEADER_BYTES,
            max_body_size=max_body_bytes,
            max_buffer_size=max_body_bytes + MAX_BUFFER_BYTES,
            idle_connection_timeout=IDLE_TIMEOUT_S,
            body_timeout=BODY_TIMEOUT_S,
        )
        self._server.open = OrderedDict()
        self._server.accept = self._accept
        self._server.find_max_body = find_max_body or (lambda _: max_body_bytes)
        self._server.max_connections = max_connections

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port: a free one if ``port`` is 0. Raises OSError."""
        listening = bind(host, port)
        self.start_on([listening])
        return int(listening.getsockname()[1])

    def start_on(self, sockets: Iterable[socket.socket]) -> None:
        """Serve on ``sockets``, which listen. ``stop`` closes them."""
        for listening in sockets:
            listening.setblocking(False)
            self._server.add_socket(listening)

    def retire(self) -> None:
        """Close the port. Close each open connection after its next answer, which says so."""
        self._server.stop()
        self._is_retired = True
        # All connections read this one object at each request.
        self._server.conn_params.no_keep_alive = True

    async def stop(self) -> None:
        """Close the port, cancel every handler and close every connection."""
        self._server.stop()
        if self._is_retired:
            await self._wait_for_last_answers()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.close_all_connections()

    async def _wait_for_last_answers(self) -> None:
        """Wait for ``RETIRE_S`` at most, until no connection is open."""
        looks = round(RETIRE_S / _LOOK_S)
        while looks and self._server._connections:  # tornado has no other list of them
            looks -= 1
            await asyncio.sleep(_LOOK_S)

    def _accept(self, request: HTTPServerRequest) -> None:
        task = asyncio.ensure_future(self._handle(request))
        self._tasks.add(task)
        # Send each chunk at once, not only when the one before it is acknowledged.
        connection_of(request).stream.set_nodelay(True)
        connection_of(request).set_close_callback(lambda: _cancel(task))
        task.add_done_callback(lambda done: self._ended(done, request))

    async def _handle(self, request: HTTPServerRequest) -> None:
        try:
            await self._handler(request)
        except StreamClosedError:
            log.debug("a client left")

    def _ended(self, task: asyncio.Task[None], request: HTTPServerRequest) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a request failed: %s %s", request.method, request.path, exc_info=error)
            connection_of(request).close()


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def connection_of(request: HTTPServerRequest) -> HTTP1Connection:
    """Return the connection of ``request``."""
    assert isinstance(request.connection, HTTP1Connection)  # noqa: S101  (tornado serves nothing else)
    return request.connection


async def send_head(
    request: HTTPServerRequest, status: int, content_type: str, headers: Mapping[str, str] = NO_HEADERS
) -> None:
    """Send status and headers. Without a Content-Length, the body is chunked."""
    head = HTTPHeaders({"Content-Type": content_type, **headers})
    await connection_of(request).write_headers(
        ResponseStartLine("HTTP/1.1", status, responses.get(status, "Unknown")), head
    )


async def send_answer(
    request: HTTPServerRequest,
    status: int,
    content_type: str,
    body: bytes,
    headers: Mapping[str, str] = NO_HEADERS,
) -> None:
    """Send a whole answer. Send only its head if the request is a HEAD."""
    sized = {"Content-Length": str(len(body)), "Cache-Control": "no-store", **headers}
    await send_head(request, status, content_type, sized)
    if request.method != "HEAD":
        await connection_of(request).write(body)
    connection_of(request).finish()
