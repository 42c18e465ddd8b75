"""The built-in upstream: answers on loopback as a chat-completions provider would, for its own random key only.

What it says is decided in ``sandbox_request`` and ``sandbox_answer``; here it is only received and sent, at its pace.
"""

import asyncio
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from pydantic import SecretStr

from addon.sandbox.answer import Plan, plan_answer, plan_error
from addon.sandbox.request import SandboxError, parse_request

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

    from addon.runtime.local_http import LocalServer

PATH = "/v1/chat/completions"
MAX_BODY_BYTES = 64 * 1024 * 1024


class Sandbox:
    """One sandbox. ``key`` is made anew for each, so no well-known credential ever works; ``sleep`` takes seconds."""

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self.key = SecretStr(f"sk-sandbox-{secrets.token_hex(24)}")
        self._server: LocalServer | None = None

    async def start(self) -> str:
        """Listen on a free port of 127.0.0.1, and return the base URL, such as ``http://127.0.0.1:49152/v1``."""
        # Imported here, so that a command which serves nothing does not wait for tornado.
        from addon.runtime.local_http import LocalServer

        self._server = LocalServer(self._serve, MAX_BODY_BYTES)
        port = await self._server.start("127.0.0.1", 0)
        return f"http://127.0.0.1:{port}/v1"

    async def stop(self) -> None:
        """Close the port, break off every answer and close every connection."""
        if self._server:
            await self._server.stop()

    async def _serve(self, request: "HTTPServerRequest") -> None:
        try:
            plan = self._plan(request)
        except SandboxError as error:
            plan = plan_error(error)
        await self._send(request, plan)

    def _plan(self, request: "HTTPServerRequest") -> Plan:
        given = request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {self.key.get_secret_value()}".encode()):
            raise SandboxError(401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key")
        if request.path != PATH:
            raise SandboxError(404, "Unknown path.", "invalid_request_error", "unknown_url")
        if request.method != "POST":
            raise SandboxError(
                405, "Only POST is allowed here.", "invalid_request_error", "method_not_allowed"
            )
        completion_id = f"chatcmpl-{secrets.token_hex(12)}"
        return plan_answer(parse_request(request.body), completion_id, int(time.time()))

    async def _send(self, request: "HTTPServerRequest", plan: Plan) -> None:
        from addon.runtime.local_http import connection_of, send_head

        await self._sleep(plan.delay_ms / 1000)
        sized = {} if plan.length_bytes is None else {"Content-Length": str(plan.length_bytes)}
        await send_head(request, plan.status, plan.content_type, {"Cache-Control": "no-cache", **sized})
        connection = connection_of(request)
        for chunk in plan.chunks:
            await connection.write(chunk)
            # Even without a pace the other calls of this process get their turn.
            await self._sleep(plan.pace_ms / 1000)
        if plan.drop:
            connection.close()
        else:
            connection.finish()
