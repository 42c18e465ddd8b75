"""The transactions of one process in PostgreSQL: the calls of a turn share one, over one connection.

While a transaction runs, what is asked waits for the next one. So a busy process commits many calls at once, and an
idle one does not wait. A transaction is one or two round trips: the statements of a round go in one message.

| what fails | what happens |
|---|---|
| a row that PostgreSQL refuses | the group is undone and halved, until the row stands alone and gets the error |
| the connection, or the time is over | all get ``StoreUnavailable``. Whether they were committed is not known |

Nothing is prepared and no session has a state, so a pgbouncer may stand between.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Coroutine, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, Final

import psycopg
from pydantic import SecretStr

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.store.money.engine import Last, Make, Rows, Statement, Step
from addon.store.protocol import TIMEOUT_S, StoreUnavailable

log = logging.getLogger("tollgate.store")

MAX_GROUP: Final = 64
"""The most things that one transaction does."""
MAX_WAITING: Final = 10_000
"""The most things that wait for a transaction."""

NEVER_WRITABLE: Final = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError)
"""The errors for a row that can never be written."""

_BEGIN: Final = Statement(
    "BEGIN; SELECT set_config('statement_timeout', '1000', true),"
    # A gateway that was stopped in the midst of a transaction holds up no other for longer.
    " set_config('idle_in_transaction_session_timeout', '2000', true)"
)
_LOCK: Final = (
    "SELECT count(pg_advisory_xact_lock(place)) FROM (SELECT DISTINCT hashtextextended(name, 0) AS place"
    " FROM unnest(?::text[]) AS name ORDER BY place) AS places"
)
_COMMIT: Final = Statement("COMMIT")


@dataclass(slots=True, eq=False)
class _Asked:
    """A thing that waits to be done. Two with the same ``key`` are never in one transaction."""

    make: Make[Any, Any]
    thing: Any
    key: Hashable
    workspace: str | None
    deadline_s: float
    answer: asyncio.Future[Any]


class Transactions:
    """The connection of this process to the PostgreSQL at ``url``. It connects when it has something to do.

    ``connections`` counts how often it connected: what this process did before may be gone in a new server.
    """

    def __init__(self, url: SecretStr, clock: Clock = SYSTEM_CLOCK) -> None:
        self._url = url
        self._clock = clock
        self._waiting: list[_Asked] = []
        self._running: asyncio.Task[None] | None = None
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self.connections = 0

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
        self._waiting.append(_Asked(make, thing, key, workspace, deadline_s, answer))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await answer

    async def read(self, *statements: Statement) -> Sequence[Rows]:
        """Run statements that change nothing, or each of which may be repeated, in one round trip."""

        return await self.do(_read, statements, object())

    async def close(self) -> None:
        """Do what waits, and disconnect."""
        if self._running:
            await self._running
        await self._disconnect()

    async def _run(self) -> None:
        try:
            while self._waiting:
                group = self._take()
                if group:
                    await self._do_all(group)
        finally:
            self._running = None

    def _take(self) -> list[_Asked]:
        """Take the next group. What was cancelled, or has waited too long, is left out."""
        now_s = self._clock.monotonic_s()
        group: dict[Hashable, _Asked] = {}
        later: list[_Asked] = []
        for one in self._waiting:
            if one.answer.done():
                continue
            if one.deadline_s <= now_s:
                _fail(one, StoreUnavailable("PostgreSQL: it does not answer in time"))
            elif len(group) < MAX_GROUP and one.key not in group:
                group[one.key] = one
            else:
                later.append(one)
        self._waiting = later
        return list(group.values())

    async def _do_all(self, group: Sequence[_Asked]) -> None:
        """Do a group in one transaction, or its halves where a row is refused."""
        try:
            left_s = min(one.deadline_s for one in group) - self._clock.monotonic_s()
            answers = await self._within(self._transact(group), left_s)
        except (OSError, TimeoutError, psycopg.OperationalError, psycopg.InterfaceError) as error:
            await self._disconnect()
            for one in group:
                _fail(one, StoreUnavailable(f"PostgreSQL: {_reason(error)}"))
        except Exception as error:  # noqa: BLE001  (it is passed on)
            await self._undo()
            if len(group) == 1:
                _fail(group[0], error)
                return
            half = len(group) // 2
            await self._do_all(group[:half])
            await self._do_all(group[half:])
        else:
            for one, answer in zip(group, answers, strict=True):
                if not one.answer.done():
                    one.answer.set_result(answer)

    async def _transact(self, group: Sequence[_Asked]) -> list[Any]:
        """Run the steps of a group side by side, a round of all of them at a time."""
        connection = await self._connect()
        kinds: dict[Any, list[_Asked]] = {}
        for one in group:
            kinds.setdefault(one.make, []).append(one)
        running = {make: make([one.thing for one in asked]) for make, asked in kinds.items()}
        asked_of: dict[Any, Sequence[Statement]] = {}
        answers: dict[_Asked, Any] = {}

        def advance(make: Any, found: Sequence[Rows] | None) -> None:
            try:
                asked_of[make] = running[make].send(found)
            except StopIteration as ended:
                asked_of.pop(make, None)
                answers.update(zip(kinds[make], ended.value, strict=True))

        for make in running:
            advance(make, None)
        opening, is_open = self._open(group), True
        while asked_of:
            ends = is_open and all(isinstance(one, Last) for one in asked_of.values())
            rounds = [statement for statements in asked_of.values() for statement in statements]
            closing = [_COMMIT] if ends else []
            found = await _run_round(connection, [*opening, *rounds, *closing])
            del found[: len(opening)]
            opening, is_open = [], is_open and not ends
            for make, statements in list(asked_of.items()):
                mine, found = found[: len(statements)], found[len(statements) :]
                advance(make, mine)
        if is_open:
            await _run_round(connection, [_COMMIT])
        return [answers[one] for one in group]

    def _open(self, group: Sequence[_Asked]) -> list[Statement]:
        locked = sorted({one.workspace for one in group if one.workspace is not None})
        return [_BEGIN, *([Statement(_LOCK, (locked,))] if locked else ())]

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(
                self._url.get_secret_value(),
                autocommit=True,
                prepare_threshold=None,
                cursor_factory=psycopg.AsyncClientCursor,
                application_name="tollgate",
                client_encoding="utf8",
            )
            self.connections += 1
        return self._connection

    async def _undo(self) -> None:
        """Undo the transaction that failed. Without an answer, the server undoes it when the connection ends."""
        if self._connection is None:
            return
        try:
            await self._within(self._connection.execute("ROLLBACK"), TIMEOUT_S)
        except (OSError, TimeoutError, psycopg.Error):
            await self._disconnect()

    async def _within[T](self, work: Coroutine[Any, Any, T], left_s: float) -> T:
        """Return what ``work`` returns. Cut the connection, and raise TimeoutError, when it takes longer.

        To cancel it would not do: psycopg then waits for the answer of a server that may be gone.
        """
        task = asyncio.ensure_future(work)
        await asyncio.wait({task}, timeout=max(left_s, 0))
        if task.done():
            return task.result()
        if self._connection is None:
            task.cancel()
        else:
            with suppress(OSError), socket.socket(fileno=os.dup(self._connection.pgconn.socket)) as other:
                other.shutdown(socket.SHUT_RDWR)
        await asyncio.wait({task})
        raise TimeoutError

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _read(asked: Sequence[Sequence[Statement]]) -> Step[Sequence[Sequence[Rows]]]:
    found = yield Last([statement for one in asked for statement in one])
    ends = list(accumulate((len(one) for one in asked), initial=0))
    return [found[begin:end] for begin, end in pairwise(ends)]


async def _run_round(connection: psycopg.AsyncConnection[Any], statements: Sequence[Statement]) -> list[Rows]:
    """Send statements in one message, and return the rows of each."""
    sql = "; ".join([_translate(one.sql) for one in statements])
    cursor = await connection.execute(sql, [value for one in statements for value in one.values])
    found: list[Rows] = []
    while True:
        found.append(await cursor.fetchall() if cursor.description else ())
        if not cursor.nextset():
            break
    # ``BEGIN`` has two statements.
    return found[1:] if statements[0] is _BEGIN else found


@cache
def _translate(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


def _fail(one: _Asked, error: Exception) -> None:
    if not one.answer.done():
        one.answer.set_exception(error)


def _reason(error: Exception) -> str:
    """Return one line for operators. It has no value of any row."""
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return primary or str(error).partition("\n")[0] or type(error).__name__
