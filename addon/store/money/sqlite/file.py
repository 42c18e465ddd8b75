"""The ledger's open SQLite file: its reads, and its writes, each with a timeout and one type of error.

A transaction takes some tens of microseconds, less than a change of threads, so it runs in the thread of the event
loop. No transaction stays open across an await. When the file is locked, it is tried again while other calls go on.

Most of a transaction's time is its commit, so writes share one:

| a write comes | it is committed |
|---|---|
| in a turn of the event loop without another write | at once |
| later in such a turn, or in the turn after a group | with those of ``GROUP_TURNS``, after ``MAX_GROUP_S`` at most |
| while the file is locked | in one group with all others that wait |

The steps of a group run one after the other, in the order in which they were asked. Each one sees what the ones before
it did. When one fails, the group is undone, and each step gets a transaction of its own. So a faulty step fails alone.
When a transaction can't be committed, none of it is written, and each of its writes gets the error.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.runtime.folder_lock import locked
from addon.store.money.archives.archives import find_month_of_file
from addon.store.money.sqlite.connection import (
    NEVER_WRITABLE,
    is_locked,
    make_unavailable,
    open_connection,
    raising_unavailable,
)
from addon.store.protocol import TIMEOUT_S, StoreUnavailable

type Work[T] = Callable[[sqlite3.Connection], T]
"""The work of a write. It may run again, when its transaction was undone."""

MAX_GROUP = 64
"""The most writes of one transaction. Other tasks run before the next one."""
GROUP_TURNS = 3
MAX_GROUP_S = 0.003
"""How many turns of the loop, and how long, a group grows at most."""

# A transaction of another process takes less than a millisecond, a full group a few, so the first tries block the event
# loop, for some 0.8 ms. Only when the lock stays do other calls of this process run between two tries. Before there
# were groups, with four busy processes on two cores, this gave a fifth more calls than turns of the event loop alone,
# and a median of 0.3 ms instead of 4 ms.
_TRIES_IN_PLACE = 8
_IN_PLACE_S = 0.0001
_RETRY_S = 0.0005
_MAX_RETRY_S = 0.02
_MIN_TURNS = 40
"""How many turns other tasks get, at least, before a locked file counts as unavailable.

Time also passes while this process is stopped, so the clock alone does not decide. In a process that runs, these turns
take at most ``TIMEOUT_S`` together."""

_REPLACED = "the file was removed or replaced; restart to record calls in the new one"


@dataclass(slots=True, eq=False)
class _Write:
    """A write that waits for the end of a turn, or for the lock. ``turns`` counts how often the file was locked."""

    step: Work[Any]
    answer: asyncio.Future[Any]
    deadline_s: float
    turns: int = 0


class LedgerFile:
    """The file ``path``, created with its folder when it is missing.

    It waits for the locks of other processes until ``disable_busy_timeout`` is called.

    It and its methods raise ``StoreUnavailable``.
    """

    def __init__(self, path: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self.path = path
        self._path = str(path)
        self._clock = clock
        self._waiting: list[_Write] = []
        self._grouping: asyncio.AbstractEventLoop | None = None
        """The loop whose turns end with a group; None when a write is committed at once."""
        self._locked_turns = 0
        self._turns = 0
        """How many turns the group has waited."""
        self._group_until_s = 0.0
        with raising_unavailable(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # When several processes switch a new file to WAL at once, SQLite fails instead of waiting for the lock.
            with locked(path.parent):
                self.connection = open_connection(path)
                self._require_ledger()
                opened = os.stat(self._path)
                self._identity = opened.st_dev, opened.st_ino

    def _require_ledger(self) -> None:
        """Raise ``StoreUnavailable`` for an archive: nothing is ever written into one."""
        if month := find_month_of_file(self.connection):
            self.connection.close()
            raise StoreUnavailable(
                f"{self.path}: is the archive of {month}; [paths] database names the ledger"
            )

    def disable_busy_timeout(self) -> None:
        """Let SQLite report a lock at once from now on. A locked file then blocks no other call."""
        self.connection.execute("PRAGMA busy_timeout = 0")

    def close(self) -> None:
        """Commit what waits for the end of this turn, and close the file."""
        while self._waiting and not self._locked_turns:
            self._commit_next()
        for write in self._waiting:
            _fail(write, StoreUnavailable(f"{self.path}: it is closed"))
        self._waiting.clear()
        self.connection.close()

    async def write[T](self, step: Work[T], timeout_s: float = TIMEOUT_S) -> T:
        """Run ``step`` in a transaction and return its answer when that is committed. Raises ``NEVER_WRITABLE`` too."""
        loop = asyncio.get_running_loop()
        if self._grouping is not loop:
            self._grouping = loop
            loop.call_soon(self._end_turn)
            try:
                alone: T = self.transact(step)[0]
            except NEVER_WRITABLE:
                raise
            except (OSError, sqlite3.Error) as error:
                if not is_locked(error):
                    raise make_unavailable(self.path, error) from error
            else:
                return alone
        answer: asyncio.Future[T] = loop.create_future()
        now_s = self._clock.monotonic_s()
        if not self._waiting:
            self._turns, self._group_until_s = 0, now_s + MAX_GROUP_S
        self._waiting.append(_Write(step, answer, now_s + timeout_s))
        return await answer

    async def read[T](self, work: Callable[[], T], timeout_s: float = TIMEOUT_S) -> T:
        """Run ``work``, which writes nothing, and return its result. Try again while the file is locked."""
        deadline_s = self._clock.monotonic_s() + timeout_s
        for tries in count(1):
            try:
                return work()
            except (OSError, sqlite3.Error) as error:
                is_over = tries > _MIN_TURNS and self._clock.monotonic_s() > deadline_s
                if is_over or not is_locked(error):
                    raise make_unavailable(self.path, error) from error
            await asyncio.sleep(_retry_s(tries))
        raise AssertionError("unreachable")

    def transact(self, *steps: Work[Any]) -> list[Any]:
        """Run ``steps`` in one transaction, now, and return their answers. When one fails, none has an effect.

        Every transaction runs here. Raises ``OSError``, ``sqlite3.Error``, and what a step raises.
        """
        found = os.stat(self._path)
        if (found.st_dev, found.st_ino) != self._identity:
            # A row that is written into a deleted file is lost.
            raise sqlite3.OperationalError(_REPLACED)
        with self.connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            return [step(connection) for step in steps]

    def _end_turn(self) -> None:
        """Commit the writes that wait, or let them wait for another turn. The next turn is grouped if this one was."""
        loop = self._grouping
        if not self._waiting or loop is None:
            self._grouping = None
            return
        if self._may_grow():
            loop.call_soon(self._end_turn)
            return
        try:
            self._commit_next()
        finally:
            if self._locked_turns:
                loop.call_later(_retry_s(self._locked_turns), self._end_turn)
            else:
                loop.call_soon(self._end_turn)

    def _may_grow(self) -> bool:
        """Return whether the group waits for the writes of another turn.

        The other calls of a busy loop reach their next write in a few turns, and a commit costs as much as a write.
        """
        self._turns += 1
        is_full = len(self._waiting) >= MAX_GROUP
        return self._turns < GROUP_TURNS and not is_full and self._clock.monotonic_s() < self._group_until_s

    def _commit_next(self) -> None:
        """Commit the next group. When the file is locked, keep its writes, except those whose time is over."""
        # A write that was cancelled is left out.
        waiting = [write for write in self._waiting if not write.answer.done()]
        group, self._waiting = waiting[:MAX_GROUP], waiting[MAX_GROUP:]
        locked_out = self._commit(group)
        self._locked_turns = self._locked_turns + 1 if locked_out else 0
        self._waiting[:0] = [write for write in locked_out if not self._has_given_up(write)]

    def _commit(self, group: Sequence[_Write]) -> Sequence[_Write]:
        """Answer the writes of a group. Return those that can't be answered yet, because the file is locked."""
        try:
            answers = self._transact_in_place([write.step for write in group])
        except Exception as error:  # noqa: BLE001  (it is passed on)
            if is_locked(error):
                return group
            if len(group) > 1:
                # The fault may be of one step alone.
                return [waiting for write in group for waiting in self._commit([write])]
            _fail(group[0], self._public_error(error))
        else:
            for write, answer in zip(group, answers, strict=True):
                write.answer.set_result(answer)
        return ()

    def _transact_in_place(self, steps: Sequence[Work[Any]]) -> list[Any]:
        """As ``transact``. When the file has just been locked, try again at once, some times."""
        for _ in range(0 if self._locked_turns else _TRIES_IN_PLACE - 1):
            try:
                return self.transact(*steps)
            except sqlite3.Error as error:
                if not is_locked(error):
                    raise
            time.sleep(_IN_PLACE_S)
        return self.transact(*steps)

    def _has_given_up(self, write: _Write) -> bool:
        """Count a turn in which the file was locked. Fail a write whose time is over, and return whether it is."""
        write.turns += 1
        if write.turns <= _MIN_TURNS or self._clock.monotonic_s() <= write.deadline_s:
            return False
        _fail(write, StoreUnavailable(f"{self.path}: database is locked"))
        return True

    def _public_error(self, error: Exception) -> Exception:
        if isinstance(error, (OSError, sqlite3.Error)) and not isinstance(error, NEVER_WRITABLE):
            unavailable = make_unavailable(self.path, error)
            unavailable.__cause__ = error
            return unavailable
        return error


def _fail(write: _Write, error: Exception) -> None:
    if not write.answer.done():
        write.answer.set_exception(error)


def _retry_s(turns: int) -> float:
    """Return the time until a locked file is tried again. It grows, so that a long lock costs little."""
    return min(_RETRY_S * turns, _MAX_RETRY_S)
