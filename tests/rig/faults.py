"""The failures of providers, and ports that fail until they are repaired."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, override

from rig.scripts import (
    CLOSE,
    DONE,
    RESET,
    UNTIL_CLIENT_LEAVES,
    Behaviour,
    Received,
    Script,
    chunk,
    chunked,
    event,
    ordinary,
    response_head,
    whole,
)
from rig.upstream import Upstream

PortKind = Literal["refuses", "never accepts", "speaks no TLS", "is not trusted"]


@dataclass(frozen=True)
class Fault:
    """A failure of a provider: a bad answer or a bad port.

    ``waits``: the failure is a timeout. ``has_no_token``: the provider needs an access token and there is none.
    """

    script: Callable[[Received], Script] | None = None
    port: PortKind | None = None
    waits: bool = False
    has_no_token: bool = False


def _key_of(request: Received) -> str:
    return (request.header("authorization") or "").removeprefix("Bearer ")


def _says_no(status: int, who: str = "first") -> Callable[[Received], Script]:
    """Return the behaviour of an error that repeats the key of the request, as some providers do."""

    def script(request: Received) -> Script:
        body = {"error": {"message": f"The {who} provider says no to {_key_of(request)}.", "type": "t"}}
        if status == 200 and request.json().get("stream"):
            return chunked(event(body))
        return whole(body, status, [("Retry-After", "1")] if status in (429, 503) else [])

    return script


def silence(_request: Received) -> Script:
    return (UNTIL_CLIENT_LEAVES,)


def _always(script: Script, *, waits: bool = False) -> Fault:
    return Fault(lambda _request: script, waits=waits)


def _resets_after_its_head(request: Received) -> Script:
    if request.json().get("stream"):
        return chunked(RESET, finish=False)
    return (response_head(200, [("Content-Type", "application/json"), ("Content-Length", "100")]), RESET)


def _begins_and_stalls(request: Received) -> Script:
    """Begin the answer without any content and then stay silent."""
    if request.json().get("stream"):
        return chunked(b": processing\n\n", UNTIL_CLIENT_LEAVES, finish=False)
    head = response_head(200, [("Content-Type", "application/json"), ("Content-Length", "100")])
    return (head + b'{"id": "chatcmpl-1",', UNTIL_CLIENT_LEAVES)


def _holds_no_completion(request: Received) -> Script:
    return chunked(DONE) if request.json().get("stream") else whole(b"")


def _calls_a_tool_with_infinity(request: Received) -> Script:
    """Call a tool with a number that no JSON can have once it is read."""
    call = (
        b'{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1e999}}}'
    )
    if request.json().get("stream"):
        return chunked(b'data: {"choices": [{"index": 0, "delta": {"tool_calls": [%b]}}]}\n\n' % call, DONE)
    return whole(
        b'{"choices": [{"index": 0, "message": {"tool_calls": [%b]}, "finish_reason": "stop"}]}' % call
    )


FAULTS: Mapping[str, Fault] = {
    "connect refused": Fault(port="refuses"),
    "connect timeout": Fault(port="never accepts", waits=True),
    "TLS with a port that speaks none": Fault(port="speaks no TLS"),
    "TLS with an untrusted certificate": Fault(port="is not trusted"),
    "reset before the head": _always((RESET,)),
    "reset after the head": Fault(_resets_after_its_head),
    "silence": Fault(silence, waits=True),
    "silence after its beginning": Fault(_begins_and_stalls, waits=True),
    **{str(status): Fault(_says_no(status)) for status in (401, 403, 408, 429, 500, 503, 529)},
    "200 with an error": Fault(_says_no(200)),
    "200 with the end alone": Fault(_holds_no_completion),
    "200 with HTML": _always(whole(b"<html>Sign in first.</html>", content_type="text/html")),
    "200 with an empty body": _always(whole(b"")),
    "200 without a completion": _always(
        whole(b'{"id": "chatcmpl-1", "object": "chat.completion", "model": "m"}')
    ),
    "200 with a number beyond every float": Fault(_calls_a_tool_with_infinity),
}
"""Failures that allow a second attempt."""

OWN_ACCOUNT_FAULTS: Mapping[str, Fault] = {str(status): Fault(_says_no(status)) for status in (402, 404)}
"""Failures that allow only the Safety Net: the customer's account has no money left, or lacks the model."""

CLIENT_FAULTS: Mapping[str, Fault] = OWN_ACCOUNT_FAULTS | {
    str(status): Fault(_says_no(status)) for status in (400, 409, 413, 422)
}
"""Errors of the client. The client gets them at once, unless the Safety Net serves the call."""

RELAYED_CHARS = 400
_BEGUN = event(chunk("x" * RELAYED_CHARS))


def breaks_off(_request: Received) -> Script:
    """Begin a stream and reset the connection."""
    return chunked(_BEGUN, RESET, finish=False)


LATE_FAULTS: Mapping[str, Fault] = {
    "reset": Fault(breaks_off),
    "close": _always(chunked(_BEGUN, CLOSE, finish=False)),
    "silence": _always(chunked(_BEGUN, UNTIL_CLIENT_LEAVES, finish=False), waits=True),
    "error event": _always(
        chunked(_BEGUN, event({"error": {"message": "The first provider says no.", "code": 503}}))
    ),
}
"""Failures of a stream after its first event, which has ``RELAYED_CHARS`` characters."""

NO_TOKEN = Fault(has_no_token=True)
"""A failure before anything is sent."""

says_no_again = _says_no(500, "second")
"""An error of the second provider."""


def resets_connections(_request: Received) -> Script:
    """Reset each connection, kept or new."""
    return (RESET,)


SECOND_FAULTS: Mapping[str, Behaviour] = {
    "400": _says_no(400, "second"),
    "429": _says_no(429, "second"),
    "silence": silence,
    "reset before the head": resets_connections,
    "reset after the head": _resets_after_its_head,
    "200 with an error": _says_no(200, "second"),
    "200 with HTML": lambda _request: whole(b"<html>", content_type="text/html"),
}


def closes_kept_connections(request: Received) -> Script:
    """Answer, but close a connection that was used before."""
    return ordinary(request) if request.nth == 1 else (CLOSE,)


class FaultyPort(Upstream):
    """A port that fails. After its repair it is an ordinary upstream, with TLS if its kind needs that.

    ``good`` and ``bad`` are certificates of localhost. No client trusts the authority of ``bad``.
    """

    def __init__(self, kind: PortKind, good: ssl.SSLContext, bad: ssl.SSLContext) -> None:
        self.kind = kind
        self.is_secure = kind in ("speaks no TLS", "is not trusted")
        self._bad = bad
        self._faulty: asyncio.Server | None = None
        self._fillers: list[socket.socket] = []
        super().__init__(tls=good if self.is_secure else None)

    def repair(self) -> None:
        """Serve from now on. Another call has no effect."""
        self._run(self._repair())

    @override
    async def _start(self) -> asyncio.Server:
        self._listener = socket.create_server(("127.0.0.1", 0)) if self.kind != "refuses" else _bound()
        loop = asyncio.get_running_loop()
        if self.kind == "never accepts":
            self._fill_queue()
        elif self.kind == "speaks no TLS":
            self._faulty = await loop.create_server(_PlainHttp, sock=self._listener.dup())
        elif self.kind == "is not trusted":
            self._faulty = await loop.create_server(self._accept, sock=self._listener.dup(), ssl=self._bad)
        return await loop.create_server(self._accept, sock=self._listener, ssl=self._tls, start_serving=False)

    def _fill_queue(self) -> None:
        self._listener.listen(0)
        address = self._listener.getsockname()
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            self._fillers.append(filler)

    async def _repair(self) -> None:
        if self._faulty:
            self._faulty.close()
        await self._server.start_serving()

    @override
    async def _stop(self) -> None:
        if self._faulty:
            self._faulty.close()
        for filler in self._fillers:
            filler.close()
        await super()._stop()


def _bound() -> socket.socket:
    """Return a socket that reserves its port and does not listen yet."""
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    return made


class _PlainHttp(asyncio.Protocol):
    """A server without TLS: it answers a TLS handshake like a plain web server."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(response_head(400, [("Connection", "close"), ("Content-Length", "0")]))
        self._transport.close()
