"""A provider that follows a script on a raw loopback socket, so it can also misbehave.

It runs on an event loop in its own thread. Every public method may be called from the test's thread.
"""

import asyncio
import re
import socket
import ssl
import struct
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rig.bounds import BOUND_S
from rig.scripts import RESET, UNTIL_CLIENT_LEAVES, Behaviour, Ending, Gate, Received, Script, ordinary


class Upstream:
    """The fake provider, a context manager. ``behave`` sets the answer to the next requests."""

    def __init__(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self._tls = tls
        self._host = host
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake upstream", daemon=True)
        self._open: set[_Connection] = set()
        self._changed = threading.Condition()
        self._behaviour: Behaviour = ordinary
        self.requests: list[Received] = []
        self.failures: list[Exception] = []
        self.connections = 0
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(self._start())
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(BOUND_S)
        self._loop.close()

    @property
    def base_url(self) -> str:
        return (
            f"{'https' if self._tls else 'http'}://{'localhost' if self._tls else self._host}:{self.port}/v1"
        )

    def behave(self, behaviour: Behaviour | Script) -> None:
        """Answer every later request with this script, or with the script that this function returns for it."""
        self._behaviour = behaviour if callable(behaviour) else lambda _request: behaviour

    def reset(self) -> None:
        """Forget the received requests and use the default answer again. Idle connections stay open."""
        with self._changed:
            self.requests.clear()
            self.failures.clear()
        self._behaviour = ordinary

    @property
    def last(self) -> Received:
        """The last request."""
        assert self.requests, "nothing reached the upstream"
        return self.requests[-1]

    def wait_for_requests(self, count: int = 1) -> list[Received]:
        """Return the requests when there are ``count`` of them. Fail when they do not arrive in time."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self.requests) >= count, BOUND_S)
        assert arrived, f"{len(self.requests)} requests reached the upstream, expected {count}"
        return self.requests

    def close_idle_connections(self) -> None:
        """Close every connection now, like a provider whose keep-alive time is over."""
        self._run(self._close_connections())

    def script_for(self, request: Received) -> Script:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        return self._behaviour(request)

    def _run[T](self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(BOUND_S)

    def _accept(self) -> "_Connection":
        self.connections += 1
        return _Connection(self, self.connections, self._open)

    async def _start(self) -> asyncio.Server:
        return await self._loop.create_server(self._accept, self._host, 0, ssl=self._tls, backlog=512)

    async def _close_connections(self) -> None:
        tasks = [connection.end() for connection in list(self._open)]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _stop(self) -> None:
        self._server.close()
        await self._close_connections()


class _Connection(asyncio.Protocol):
    def __init__(self, upstream: Upstream, number: int, siblings: "set[_Connection]") -> None:
        self._upstream = upstream
        self._number = number
        self._siblings = siblings
        self._buffer = bytearray()
        self._arrived = asyncio.Event()
        self._gone = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._left = threading.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._siblings.add(self)
        raw: socket.socket = transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._arrived.set()

    def eof_received(self) -> None:
        self._note_gone()

    def connection_lost(self, exc: Exception | None) -> None:
        self._note_gone()
        self._siblings.discard(self)
        self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def end(self) -> None:
        self._transport.close()
        await self._gone.wait()

    def _note_gone(self) -> None:
        self._left.set()
        self._gone.set()
        self._arrived.set()
        self._writable.set()

    async def _serve(self) -> None:
        nth = 0
        try:
            while not self._gone.is_set():
                nth += 1
                request = await self._next_request(nth)
                await self._play(self._upstream.script_for(request))
        except ConnectionError:
            pass  # The script or the client ended the connection.
        except Exception as error:  # noqa: BLE001  (any error must fail the test)
            self._upstream.failures.append(error)
            self._transport.abort()

    async def _play(self, script: Script) -> None:
        for step in script:
            if isinstance(step, Gate):
                await step.passed()
            elif isinstance(step, Ending):
                await self._finish(step)
            else:
                self._transport.write(step)
                # One turn of the loop makes each piece a separate write.
                await asyncio.sleep(0)
                await self._writable.wait()

    async def _finish(self, ending: Ending) -> None:
        if ending is UNTIL_CLIENT_LEAVES:
            await self._gone.wait()
        if ending is RESET:
            # With a linger time of zero the kernel sends RST instead of FIN.
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()
        raise ConnectionAbortedError(ending.value)

    async def _more(self) -> None:
        if self._gone.is_set():
            raise ConnectionAbortedError("client left")
        self._arrived.clear()
        await self._arrived.wait()

    async def _take_until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            await self._more()
        end = self._buffer.index(mark) + len(mark)
        return self._take(end)

    async def _take_exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            await self._more()
        return self._take(count)

    def _take(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    async def _next_request(self, nth: int) -> Received:
        head = (await self._take_until(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, target, _version = first.split(" ")
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        body = await self._body({name.lower(): value for name, value in headers})
        return Received(method, target, headers, body, self._number, nth, self._left)

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if "chunked" not in headers.get("transfer-encoding", ""):
            return await self._take_exactly(int(headers.get("content-length", "0")))
        body = b""
        while size := int(re.split(rb"[;\r]", await self._take_until(b"\r\n"))[0], 16):
            body += await self._take_exactly(size)
            await self._take_until(b"\r\n")
        while await self._take_until(b"\r\n") != b"\r\n":
            pass
        return body


class RefusingPort:
    """A port that refuses connections: it is bound, so no one else gets it, but it never listens."""

    def __enter__(self) -> Self:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


class DeafPort(RefusingPort):
    """A port whose queue is full, so a connect gets no answer."""

    def __enter__(self) -> Self:
        super().__enter__()
        self._socket.listen(0)
        self._fillers: list[socket.socket] = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", self.port))
            self._fillers.append(filler)
        return self

    def __exit__(self, *_: object) -> None:
        for filler in self._fillers:
            filler.close()
        super().__exit__()
