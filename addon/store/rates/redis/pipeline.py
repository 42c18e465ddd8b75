"""The connection to Redis that all calls share: the commands of one turn of the event loop go out in one write.

Redis answers in order, so each answer belongs to the oldest command without one. A connection on which an answer takes
too long, or makes no sense, is closed, and every command on it fails: no caller ever gets the answer to another one.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from redis._parsers.base import BaseParser
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, RedisError

from addon.runtime.deadline import MovableDeadline, within

MAX_ANSWER_BYTES = 1 << 24
"""The most bytes of answers that are not whole yet. An answer of a script has less than a hundred."""


class Pipeline(asyncio.Protocol):
    """A connection of ``pool``, opened by the first command, and again after a failure.

    ``run`` raises ``RedisError``, ``OSError`` and ``TimeoutError``.
    """

    def __init__(self, pool: ConnectionPool, timeout_s: float) -> None:
        self._pool = pool
        self._timeout_s = timeout_s
        self._unsent: list[bytes] = []
        self._pending: deque[tuple[asyncio.Future[Any], float]] = deque()
        """The commands without an answer, each with the time until which it waits."""
        self._received = b""
        self._connection: AbstractConnection | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._deadline: MovableDeadline | None = None

    async def run(self, *words: str | int, is_asking: bool = False) -> Any:
        """Run one command and return its answer, in ``timeout_s`` at most. An error of Redis is raised.

        With ``is_asking``, a node of a cluster runs it although its slot is still being moved there.
        """
        if is_asking:
            self._start("ASKING").cancel()  # Nobody waits for its answer.
        found = await self._start(*words)
        if isinstance(found, RedisError):
            raise found
        return found

    def _start(self, *words: str | int) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if not self._unsent:
            loop.call_soon(self._send)
        self._unsent.append(pack_command(words))
        if self._deadline is None:
            self._deadline = MovableDeadline(self._time_out)
        if not self._pending:
            self._deadline.set(self._timeout_s)
        self._pending.append((answer, time.monotonic() + self._timeout_s))
        return answer

    async def close(self) -> None:
        """Close the connection. Commands without an answer fail."""
        connecting = self._connecting
        self._fail(RedisConnectionError("it was closed"))
        if connecting is not None:
            await asyncio.wait([connecting])

    def data_received(self, data: bytes) -> None:
        """Answer the commands whose answers are whole now."""
        self._received = received = self._received + data if self._received else data
        at = 0
        try:
            while at < len(received):
                answer, at = parse_answer(received, at)
                waiting, _ = self._pending.popleft()
                if not waiting.done():
                    waiting.set_result(answer)
        except IncompleteAnswer:
            pass
        except (ValueError, IndexError, RedisError) as error:
            self._fail(InvalidResponse(f"an answer makes no sense: {type(error).__name__}"))
            return
        self._received = received[at:]
        if len(self._received) > MAX_ANSWER_BYTES:
            self._fail(InvalidResponse("an answer is too long"))
        elif self._deadline is not None:
            if self._pending:
                self._deadline.set(self._pending[0][1] - time.monotonic())
            else:
                self._deadline.clear()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the commands without an answer."""
        self._fail(RedisConnectionError(f"Connection lost: {error or 'closed by the server'}"))

    def _send(self) -> None:
        """Send what was asked in the turn that has ended."""
        if not self._unsent or self._connecting is not None:
            return
        if self._transport is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            return
        self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    async def _connect(self) -> None:
        """Open a connection as redis-py does, with all options of the URL, and take its transport over."""
        connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        try:
            async with within(self._timeout_s):
                await connection.connect()  # type: ignore[no-untyped-call]
            writer = connection._writer
            if writer is None:
                raise RedisConnectionError("Connection lost")
        except (RedisError, OSError) as error:
            connection._close()  # type: ignore[no-untyped-call]
            self._connecting = None
            self._fail(error)
        except asyncio.CancelledError:
            connection._close()  # type: ignore[no-untyped-call]
            raise
        else:
            writer.transport.set_protocol(self)
            # redis-py closes a connection that is not used any more, so it is kept.
            self._connection, self._transport = connection, writer.transport
            self._connecting = None
            self._send()

    def _time_out(self) -> None:
        self._fail(TimeoutError())

    def _fail(self, error: Exception) -> None:
        """Close the connection, and fail all commands without an answer."""
        connection, connecting, pending = self._connection, self._connecting, list(self._pending)
        self._connection = self._transport = self._connecting = None
        self._pending.clear()
        self._unsent.clear()
        self._received = b""
        if self._deadline is not None:
            self._deadline.clear()
        if connecting is not None:
            connecting.cancel()
        if connection is not None:
            connection._close()  # type: ignore[no-untyped-call]
        for waiting, _ in pending:
            if not waiting.done():
                waiting.set_exception(error)


class IncompleteAnswer(Exception):  # noqa: N818  (a state of the stream, no fault)
    """The rest of an answer has not arrived yet."""


def pack_command(words: Sequence[str | int]) -> bytes:
    """Return a command as Redis reads it: an array of texts."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word.encode() if isinstance(word, str) else b"%d" % word
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


def parse_answer(data: bytes, at: int) -> tuple[Any, int]:
    """Return the answer that begins at ``at``, in version 2 of the protocol, and where it ends.

    An error of Redis is returned as the exception that redis-py raises for it. Raises ``IncompleteAnswer``, and
    ValueError for bytes that are no answer.
    """
    end = data.find(b"\r\n", at)
    if end < 0:
        raise IncompleteAnswer
    kind, line, after = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b"$":
        return _parse_text(data, int(line), after)
    if kind == b"*":
        count, items = int(line), []
        for _ in range(count):
            item, after = parse_answer(data, after)
            items.append(item)
        return (items if count >= 0 else None), after
    if kind == b":":
        return int(line), after
    if kind == b"+":
        return line.decode(), after
    if kind == b"-":
        return BaseParser.parse_error(line.decode(errors="replace")), after  # type: ignore[no-untyped-call]
    raise ValueError("no answer of Redis begins so")


def _parse_text(data: bytes, size: int, at: int) -> tuple[str | None, int]:
    if size < 0:
        return None, at
    end = at + size
    if len(data) < end + 2:
        raise IncompleteAnswer
    return data[at:end].decode(), end + 2
