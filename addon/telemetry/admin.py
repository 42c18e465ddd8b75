"""The admin port: what an operator's machines ask about this process, on an address of its own.

A page is one line in ``Admin.pages``; it gets nothing of the request but its path, and never sees a client's call.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from addon.text.errors import refusal_error
from addon.text.masking import mask_credentials
from policies.refusal import Refusal

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

    from addon.runtime.local_http import LocalServer

log = logging.getLogger("tollgate.admin")

JSON = "application/json"
METHODS = ("GET", "HEAD")
MAX_BODY_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether this process should be sent calls. ``checks`` says of each check "ok", or why it is not."""

    ready: bool
    checks: Mapping[str, str]


type Page = Callable[[], Awaitable[tuple[int, str, bytes]]]
"""Answers with a status, a content type and a body."""


class Admin:
    """Answers ``GET /healthz`` while the process lives, and ``GET /readyz`` with what ``readiness`` says."""

    def __init__(self, readiness: Callable[[], Awaitable[Readiness]]) -> None:
        self._readiness = readiness
        self._server: LocalServer | None = None
        self.pages: dict[str, Page] = {"/healthz": self._health, "/readyz": self._ready}

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port (the free one that was found where ``port`` is 0). Raises OSError."""
        # Imported here, so that a command which serves nothing does not wait for tornado.
        from addon.runtime.listening import base_url
        from addon.runtime.local_http import LocalServer

        server = LocalServer(self._answer, MAX_BODY_BYTES)
        bound = await server.start(host, port)
        self._server = server
        log.info("admin listening", extra={"event": "admin listening", "url": base_url(host, bound)})
        return bound

    async def stop(self) -> None:
        """Close the port and every connection to it."""
        if self._server:
            await self._server.stop()

    async def _health(self) -> tuple[int, str, bytes]:
        return 200, JSON, b'{"status":"ok"}'

    async def _ready(self) -> tuple[int, str, bytes]:
        found = await self._readiness()
        checks = {name: mask_credentials(said) for name, said in found.checks.items()}
        body = json.dumps({"ready": found.ready, "checks": checks}).encode()
        return 200 if found.ready else 503, JSON, body

    async def _answer(self, request: "HTTPServerRequest") -> None:
        from addon.runtime.local_http import send_answer

        page = self.pages.get(request.path)
        if page is None:
            unknown = Refusal("not_found", f"There is no page {mask_credentials(request.path)!r} here.")
            return await send_answer(request, *_refused(unknown))
        if request.method not in METHODS:
            unread = Refusal("method_not_allowed", "This page is only read: use GET.")
            return await send_answer(request, *_refused(unread), {"Allow": ", ".join(METHODS)})
        return await send_answer(request, *await page())


def _refused(refusal: Refusal) -> tuple[int, str, bytes]:
    error = refusal_error(refusal)
    return error.status, JSON, error.body()
