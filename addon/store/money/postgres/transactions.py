"""The transactions of one process in PostgreSQL: the calls of a turn share one, over one connection.

While a transaction runs, what is asked waits for the next one. So a busy process commits many calls at once, and an
idle one does not wait. A transaction is one or two round trips: the statements of a round go in one message.

| what fails | what happens |
|---|---|
| a row that PostgreSQL refuses | the group is undone and halved, until the row stands alone and gets the error |
| a deadlock, or the connection before the commit was sent | the group is done again, while its time lasts |
| the time of one is over | it gets ``StoreUnavailable``, and the others go on. It may be committed |
| the connection later, or the server, or the time of all | all get ``StoreUnavailable``. They may be committed |
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from itertools import accumulate, pairwise
from typing import Any, Final

import psycopg
from pydantic import SecretStr

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.store.money.engine import Last, Make, Rows, Statement, Step
from addon.store.money.postgres.connection import Connection, connect
from addon.store.money.postgres.failures import READ_ONLY, find_outage
from addon.store.money.postgres.group import ROLLBACK, Asked, Group
from addon.store.protocol import TIMEOUT_S, StoreAway, StoreUnavailable

log = logging.getLogger("tollgate.store")

MAX_GROUP: Final = 64
"""The most things that one transaction does."""
MAX_WAITING: Final = 10_000
"""The most things that wait for a transaction."""
_TOO_LATE: Final = "PostgreSQL: it does not answer in time"
MAX_TRIES: Final = 5
"""How often a group is begun that could not be committed."""


class Transactions:
    """The connection of this process to the PostgreSQL at ``url``. It connects when it has something to do.

    ``greet`` is awaited with each new connection, before it is used: the server that answers now may be another one.
    """

    def __init__(
        self,
        url: SecretStr,
        clock: Clock = SYSTEM_CLOCK,
        greet: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> None:
        self._url = url
        self._clock = clock
        self._greet = greet
        self._waiting: list[Asked] = []
        self._running: asyncio.Task[None] | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._connection: Connection | None = None

    async def do[Thing, Answer](
        self,
        make: Make[Thing, Answer],
        thing: Thing,
        key: Hashable,
        *,
        workspace: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Answer:
        """Do ``thing``, with others of its kind, and return its answer when it is committed.

        No other transaction that names this ``workspace`` runs at the same time. Raises ``StoreUnavailable``,
        ``NEVER_WRITABLE`` and what the step raises.
        """
        if len(self._waiting) >= MAX_WAITING:
            raise StoreUnavailable(f"PostgreSQL: {MAX_WAITING} writes wait")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        deadline_s = self._clock.monotonic_s() + timeout_s
        self._waiting.append(Asked(make, thing, key, workspace, deadline_s, answer))
        # A task that begins at once may have ended before it is kept here, when a server refuses its connection.
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await answer

    async def read(self, *statements: Statement) -> Sequence[Rows]:
        """Run statements that change nothing, or each of which may be repeated, in one round trip."""
        return await self.do(_read, statements, object())

    async def close(self) -> None:
        """Do what waits, and disconnect."""
        if self._running:
            await self._running
        if self._connecting:
            self._connecting.cancel()
            await asyncio.wait({self._connecting})
        self._disconnect()

    async def _run(self) -> None:
        try:
            while self._waiting:
                group = self._take()
                if group:
                    await self._do_all(group)
        finally:
            self._running = None

    def _take(self) -> list[Asked]:
        """Take the next group. What was cancelled, or has waited too long, is left out."""
        now_s = self._clock.monotonic_s()
        group: dict[Hashable, Asked] = {}
        later: list[Asked] = []
        for one in self._waiting:
            if one.answer.done():
                continue
            if one.deadline_s <= now_s:
                _fail(one, StoreAway(_TOO_LATE))
            elif len(group) < MAX_GROUP and one.key not in group:
                group[one.key] = one
            else:
                later.append(one)
        self._waiting = later
        return list(group.values())

    async def _do_all(self, group: Sequence[Asked]) -> None:
        """Do a group in one transaction, or its halves where a row is refused. What has failed is left out."""
        group = [one for one in group if not one.answer.done()]
        if not group:
            return
        try:
            answers = await self._do_in_time(group)
        except Exception as error:  # noqa: BLE001  (it is passed on)
            if (failed := find_outage(error)) or len(group) == 1:
                for one in group:
                    _fail(one, failed or error)
                return
            half = len(group) // 2
            await self._do_all(group[:half])
            await self._do_all(group[half:])
        else:
            for one, answer in zip(group, answers, strict=True):
                if not one.answer.done():
                    one.answer.set_result(answer)

    async def _do_in_time(self, group: Sequence[Asked]) -> list[Any]:
        """Do a group in one transaction that is committed or undone, and begin it again where that is safe."""
        now_s = self._clock.monotonic_s()
        times = [one.deadline_s - now_s for one in group]
        # Nobody who has time left is refused for one that has waited longer, and no others wait for one with more.
        work, left_s = Group(group), max(min(times), min(max(times), TIMEOUT_S))
        try:
            async with asyncio.timeout(left_s), self._each_in_time(group):
                for tries_left in reversed(range(MAX_TRIES)):
                    connection = await self._connect()
                    try:
                        return await work.do(connection)
                    except psycopg.Error as error:
                        if not (tries_left and work.may_repeat(connection, error)):
                            raise
                        await self._undo(connection)
        except (TimeoutError, asyncio.CancelledError):
            self._disconnect()  # The server undoes what is not committed.
            raise
        except Exception as error:
            await self._leave(error)
            raise
        raise AssertionError("the last try returns or raises")

    @asynccontextmanager
    async def _each_in_time(self, group: Sequence[Asked]) -> AsyncIterator[None]:
        """Let each thing fail when its own time is over: those of a group have not waited equally long for it."""
        loop, now_s = asyncio.get_running_loop(), self._clock.monotonic_s()
        timers = [loop.call_later(one.deadline_s - now_s, _fail, one, StoreAway(_TOO_LATE)) for one in group]
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()

    async def _leave(self, error: Exception) -> None:
        """Undo the transaction that failed, over a connection that can be used again."""
        if self._connection is None:
            return
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._undo(self._connection)
        except (TimeoutError, psycopg.Error):
            self._disconnect()
        if isinstance(error, READ_ONLY):
            self._disconnect()  # The next connection may find the primary.

    async def _undo(self, connection: Connection) -> None:
        if not connection.is_lost:
            await connection.run([ROLLBACK])

    async def _connect(self) -> Connection:
        """Return the connection. A new one is made in a task of its own: it may take longer than a call may wait."""
        if self._connection and not self._connection.is_lost:
            return self._connection
        self._connection = None
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._make_connection())
            self._connecting.add_done_callback(self._end_connecting)
        return await asyncio.shield(self._connecting)

    async def _make_connection(self) -> Connection:
        connection = await connect(self._url)
        try:
            if self._greet:
                async with asyncio.timeout(TIMEOUT_S):
                    await self._greet(connection)
        except BaseException:
            connection.cut()
            raise
        return connection

    def _end_connecting(self, task: asyncio.Task[Connection]) -> None:
        self._connecting = None
        if not task.cancelled() and not task.exception():
            self._connection = task.result()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection:
            connection.cut()


def _read(asked: Sequence[Sequence[Statement]]) -> Step[Sequence[Sequence[Rows]]]:
    found = yield Last([statement for one in asked for statement in one])
    ends = list(accumulate((len(one) for one in asked), initial=0))
    return [found[begin:end] for begin, end in pairwise(ends)]


def _fail(one: Asked, error: Exception) -> None:
    if not one.answer.done():
        one.answer.set_exception(error)
