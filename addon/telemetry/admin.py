"""The admin port: health, readiness and metrics of this process, on an address of their own.

A page is one entry of ``Admin.pages``. It gets only the path of its request, and never a client's call. The console
answers all other paths.
"""

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from addon.runtime.listening import base_url, bind
from addon.text.errors import refusal_error
from addon.text.masking import mask_credentials
from policies.refusal import Refusal

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

    from addon.runtime.local_http import LocalServer

log = logging.getLogger("tollgate.admin")

JSON = "application/json"
METHODS = ("GET", "HEAD")
MAX_BODY_BYTES = 16_384
"""The largest body of a request. The console may allow more."""
MAX_WAITING = 16
"""How many requests for metrics may wait. One more is answered with 503."""
_CHECKS = ("/healthz", "/readyz")
_BUSY = b'{"error": "busy"}'
MAX_CONNECTIONS = 256
"""One more closes the connection that was silent for longest, so that no one can keep others out by doing nothing."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether this process should get calls. ``checks`` has "ok" or a reason for each check."""

    ready: bool
    checks: Mapping[str, str]


type Page = Callable[[], Awaitable[tuple[int, str, bytes]]]
"""A function that returns a status, a content type and a body."""


class OtherPages(Protocol):
    """The pages at all other paths of the port."""

    @property
    def is_open(self) -> bool:
        """Whether there are other pages now."""

    def find_max_body(self, request: "HTTPServerRequest") -> int:
        """Return the largest body of a request, of which only the head is here."""

    async def answer(self, request: "HTTPServerRequest") -> None:
        """Answer ``request``."""

    async def close(self) -> None:
        """Begin no more answers."""


class Admin:
    """The server of the admin port: ``/healthz``, ``/readyz`` with the result of ``readiness``, and added pages."""

    def __init__(self, readiness: Callable[[], Awaitable[Readiness]]) -> None:
        self._readiness = readiness
        self._server: LocalServer | None = None
        self._others: OtherPages | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self.pages: dict[str, Page] = {"/healthz": self._health, "/readyz": self._ready}

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port: a free one if ``port`` is 0. Raises OSError."""
        listening = bind(host, port)
        await self.start_on([listening])
        return int(listening.getsockname()[1])

    async def start_on(self, sockets: Sequence[socket.socket], others: OtherPages | None = None) -> None:
        """Serve on ``sockets``, which listen, with ``others`` at all other paths. ``stop`` closes both."""
        self._others = others
        # Imported here, so that commands that serve nothing do not wait for tornado.
        from addon.runtime.local_http import LocalServer

        find_max_body = others.find_max_body if others else None
        self._server = LocalServer(self._answer, MAX_BODY_BYTES, find_max_body, MAX_CONNECTIONS)
        self._server.start_on(sockets)
        url = base_url(*sockets[0].getsockname()[:2])
        console = f", console at {url}/" if others and others.is_open else ""
        log.info("admin listening%s", console, extra={"event": "admin listening", "url": url})

    def retire(self) -> None:
        """Accept no new connection. Close each open one after its next answer."""
        if self._server:
            self._server.retire()

    async def stop(self) -> None:
        """Close the port and every connection to it."""
        if self._others:
            await self._others.close()
        if self._server:
            await self._server.stop()

    async def _health(self) -> tuple[int, str, bytes]:
        return 200, JSON, b'{"status":"ok"}'

    async def _ready(self) -> tuple[int, str, bytes]:
        found = await self._readiness()
        checks = {name: mask_credentials(result) for name, result in found.checks.items()}
        body = json.dumps({"ready": found.ready, "checks": checks}).encode()
        return 200 if found.ready else 503, JSON, body

    async def _answer(self, request: "HTTPServerRequest") -> None:
        from addon.runtime.local_http import send_answer

        page = self.pages.get(request.path)
        if page is None and self._others and self._others.is_open:
            return await self._others.answer(request)
        if page is None:
            unknown = Refusal("not_found", f"There is no page {mask_credentials(request.path)!r} here.")
            return await send_answer(request, *_refused(unknown))
        if request.method not in METHODS:
            unread = Refusal("method_not_allowed", "This page is only read: use GET.")
            return await send_answer(request, *_refused(unread), {"Allow": ", ".join(METHODS)})
        if request.path not in _CHECKS and self._waiting >= MAX_WAITING:
            return await send_answer(request, 503, JSON, _BUSY, {"Retry-After": "1"})
        return await send_answer(request, *await self._make(request.path, page))

    async def _make(self, path: str, page: Page) -> tuple[int, str, bytes]:
        """Return the answer of a page. Metrics take long to make, so checks and calls go on between two of them."""
        if path in _CHECKS:
            return await page()
        self._waiting += 1
        try:
            async with self._turn:
                # Tasks begin at once here, so without this many new connections would be answered in one go.
                await asyncio.sleep(0)
                return await page()
        finally:
            self._waiting -= 1


def _refused(refusal: Refusal) -> tuple[int, str, bytes]:
    error = refusal_error(refusal)
    return error.status, JSON, error.body()
