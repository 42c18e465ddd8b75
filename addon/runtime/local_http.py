"""A small HTTP server for the admin port and the sandbox: one port, one handler, no access log.

It is tornado's server without its web framework. After ``stop``, nothing of it runs.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http.client import responses
from types import MappingProxyType

from tornado.http1connection import HTTP1Connection
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPServerRequest, ResponseStartLine
from tornado.iostream import StreamClosedError

from addon.runtime.listening import bind

log = logging.getLogger("tollgate.local_http")

NO_HEADERS: Mapping[str, str] = MappingProxyType({})
IDLE_TIMEOUT_S = 75
BODY_TIMEOUT_S = 30
RETIRE_S = 0.5
"""How long ``stop`` waits after ``retire``, so that a client that asks often gets its last answer."""
_LOOK_S = 0.01

type Handler = Callable[[HTTPServerRequest], Awaitable[None]]


class LocalServer:
    """A server that calls ``handler`` for each request.

    When a client leaves, its handler is cancelled. When a handler fails, its connection is closed.
    """

    def __init__(self, handler: Handler, max_body_bytes: int) -> None:
        self._handler = handler
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_retired = False
        self._server = HTTPServer(
            self._accept,
            max_body_size=max_body_bytes,
            max_buffer_size=max_body_bytes + 65_536,
            idle_connection_timeout=IDLE_TIMEOUT_S,
            body_timeout=BODY_TIMEOUT_S,
        )

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
