"""What one transaction in PostgreSQL does: the steps of a group of things, side by side, a round of all at a time."""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import psycopg

from addon.store.money.engine import Last, Make, Rows, Statement
from addon.store.money.postgres.connection import Connection
from addon.store.money.postgres.failures import CONFLICTS

_BEGIN: Final = (
    Statement("BEGIN"),
    Statement("SET LOCAL statement_timeout = 1000"),
    # A gateway that was stopped in the midst of a transaction holds up no other for longer.
    Statement("SET LOCAL idle_in_transaction_session_timeout = 2000"),
    # Only a plain scan of an index forgets the rows that are dead, and holds leave thousands a second. Others look at
    # all of them, for each call, until the next vacuum.
    Statement("SET LOCAL enable_bitmapscan = off"),
    Statement("SET LOCAL enable_seqscan = off"),
    # A plan that must scan a table counts as dear then, and to compile it takes longer than a call may wait.
    Statement("SET LOCAL jit = off"),
    # The plans of functions are kept, whatever they are called with.
    Statement("SET LOCAL plan_cache_mode = force_generic_plan"),
)
_COMMIT: Final = Statement("COMMIT")
ROLLBACK: Final = Statement("ROLLBACK")


@dataclass(slots=True, eq=False)
class Asked:
    """A thing that waits to be done. Two with the same ``key`` are never in one transaction."""

    make: Make[Any, Any]
    thing: Any
    key: Hashable
    workspace: str | None
    deadline_s: float
    answer: asyncio.Future[Any]


class Group:
    """A group of things that one transaction does."""

    def __init__(self, group: Sequence[Asked]) -> None:
        self._group = group
        self._is_commit_sent = False
        self._kinds: dict[Make[Any, Any], list[Asked]] = {}
        for one in group:
            self._kinds.setdefault(one.make, []).append(one)

    def may_repeat(self, connection: Connection, error: psycopg.Error) -> bool:
        """Return whether nothing of it was committed, and it may be committed the next time."""
        if isinstance(error, CONFLICTS):
            return True
        return connection.is_lost and not self._is_commit_sent

    async def do(self, connection: Connection) -> list[Any]:
        """Run the steps of the group side by side, a round of all of them at a time. Return an answer for each."""
        self._is_commit_sent = False
        running: dict[Any, Any] = {
            make: make([one.thing for one in asked]) for make, asked in self._kinds.items()
        }
        asked_of: dict[Any, Sequence[Statement]] = {}
        answers: dict[Asked, Any] = {}

        def advance(make: Any, found: Sequence[Rows] | None) -> None:
            try:
                asked_of[make] = running[make].send(found)
            except StopIteration as ended:
                asked_of.pop(make, None)
                answers.update(zip(self._kinds[make], ended.value, strict=True))

        for make in running:
            advance(make, None)
        opening = self._open()
        while asked_of:
            ends = not self._is_commit_sent and all(isinstance(one, Last) for one in asked_of.values())
            rounds = [statement for statements in asked_of.values() for statement in statements]
            connection.probe()
            self._is_commit_sent |= ends
            found = await connection.run([*opening, *rounds, *((_COMMIT,) if ends else ())])
            del found[: len(opening)]
            opening = ()
            for make, statements in list(asked_of.items()):
                mine, found = found[: len(statements)], found[len(statements) :]
                advance(make, mine)
        if not self._is_commit_sent and not opening:
            self._is_commit_sent = True
            await connection.run([_COMMIT])
        return [answers[one] for one in self._group]

    def _open(self) -> Sequence[Statement]:
        """Begin, and lock the workspaces in one order, so that two transactions never wait for each other."""
        places = sorted({_place_of(one.workspace) for one in self._group if one.workspace is not None})
        if not places:
            return _BEGIN
        locks = ", ".join([f"pg_advisory_xact_lock({place})" for place in places])
        return (*_BEGIN, Statement(f"SELECT {locks}"))


def _place_of(workspace: str) -> int:
    """Return the number that stands for a workspace among PostgreSQL's locks."""
    digest = blake2b(workspace.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)
