"""The sandbox's HTTP server on loopback. It accepts only its own random key."""

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from pydantic import SecretStr

from addon.sandbox.completion import Completion, requested_error
from addon.sandbox.request import ChatRequest, SandboxError, parse_request

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

    from addon.runtime.local_http import LocalServer

PATH = "/v1/chat/completions"
MAX_BODY_BYTES = 64 * 1024 * 1024


class Sandbox:
    """One sandbox with a random ``key``, so that no well-known credential works. ``sleep`` takes seconds."""

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self.key = SecretStr(f"sk-sandbox-{secrets.token_hex(24)}")
        self._server: LocalServer | None = None

    async def start(self) -> str:
        """Listen on a free port of 127.0.0.1. Return the base URL, such as ``http://127.0.0.1:49152/v1``."""
        # Imported here, so that commands that serve nothing start without tornado.
        from addon.runtime.local_http import LocalServer

        self._server = LocalServer(self._serve, MAX_BODY_BYTES)
        return f"http://127.0.0.1:{await self._server.start('127.0.0.1', 0)}/v1"

    async def stop(self) -> None:
        """Close the port and every connection, also in the middle of an answer."""
        if self._server:
            await self._server.stop()

    async def _serve(self, request: "HTTPServerRequest") -> None:
        from addon.runtime.local_http import send_answer

        try:
            chat = self._read(request)
            await self._sleep(chat.directives.numbers.get("delay", 0) / 1000)
            if status := chat.directives.numbers.get("status"):
                raise requested_error(status)
            completion = Completion(chat, f"chatcmpl-{secrets.token_hex(12)}", int(time.time()))
        except SandboxError as error:
            await send_answer(request, error.status, "application/json", json.dumps(error.body).encode())
        else:
            await self._send(request, chat, completion)

    def _read(self, request: "HTTPServerRequest") -> ChatRequest:
        key = request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(key, f"Bearer {self.key.get_secret_value()}".encode()):
            raise SandboxError(401, "Incorrect API key provided.", code="invalid_api_key")
        if request.path != PATH:
            raise SandboxError(404, f"The sandbox serves only {PATH}.", code="unknown_url")
        if request.method != "POST":
            raise SandboxError(405, "Only POST is allowed here.", code="method_not_allowed")
        return parse_request(request.body)

    async def _send(self, request: "HTTPServerRequest", chat: ChatRequest, completion: Completion) -> None:
        from addon.runtime.local_http import connection_of, send_head

        connection, is_dropped = connection_of(request), "drop" in chat.directives.flags
        if chat.stream:
            await send_head(request, 200, "text/event-stream; charset=utf-8", {"Cache-Control": "no-cache"})
            chunks = completion.events()
        else:
            body = completion.body()
            headers = {"Content-Length": str(len(body)), "Cache-Control": "no-cache"}
            await send_head(request, 200, "application/json", headers)
            chunks = iter([body[: len(body) // 2] if is_dropped else body])
        for chunk in chunks:
            await connection.write(chunk)
            # Sleep even without a pace, so that other calls of this process go on.
            await self._sleep(chat.directives.numbers.get("pace", 0) / 1000)
        connection.close() if is_dropped else connection.finish()
