"""A ledger in PostgreSQL whose months are archived: a month is a partition of ``usage``, which is dropped at once.

| lock | how long | who waits for it |
|---|---|---|
| ``SHARE ROW EXCLUSIVE`` of the partition | some seconds, to compare its rows | calls that come into this month |
| ``ACCESS EXCLUSIVE`` of ``usage`` | while the partition is dropped | all calls, ``_DROP_WAIT_MS`` at most |

A report that reads for longer makes the second one fail. It is then tried again after a rest.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from itertools import batched
from pathlib import Path
from typing import Any, Final

import psycopg

from addon.store.money.archives.archive_rows import (
    count_differing,
    read_attempts,
    read_calls,
    read_entries,
)
from addon.store.money.archives.archived_ledger import ArchiveBusy, ArchiveRefused, NamedCall, Step
from addon.store.money.archives.forgotten_budgets import CounterTable, forget_budgets, forget_counters
from addon.store.money.archives.forgotten_rows import EMPTY_CALLS
from addon.store.money.attempt_schema import ATTEMPTS
from addon.store.money.engine import ENTRIES
from addon.store.money.ledger import Ledger
from addon.store.money.postgres.ledger import READ_TIMEOUT_S, WRITE_TIMEOUT_S, PostgresPlace
from addon.store.money.postgres.schema import partition_name
from addon.store.money.postgres.sum_schema import COUNTER_PARTS, MERGING_LOCK
from addon.store.money.rows import CALL, USAGE
from addon.store.money.sqlite.copies import open_read_only
from addon.store.money.sums.rollup_schema import AFTER_ALL

_WRITERS_WAIT_MS: Final = 3000
"""Longer than PostgreSQL takes to end an autovacuum of the partition for a lock (``deadlock_timeout``)."""
_DROP_WAIT_MS: Final = 50
_DROP_TRIES: Final = 30
_DROP_REST_S: Final = 1.0
_EMPTIED_AT_ONCE: Final = 500
_PARTS: Final = CounterTable(COUNTER_PARTS, has_writers=True)


class PostgresArchivedLedger:
    """The ``ArchivedLedger`` in PostgreSQL. The names of its archives are made of ``file_name``."""

    def __init__(self, place: PostgresPlace, file_name: str) -> None:
        self.place = place
        self.file_name = file_name

    @contextmanager
    def alone(self) -> Iterator[None]:
        """See ``ArchivedLedger.alone``. The lock ends with its transaction, so it needs no state of a session."""
        if not self.place.exists():
            raise ArchiveRefused(f"there is no ledger yet in {self.place.name}")
        # A connection of its own: the place has one at a time.
        own = self.place.kept_open()
        with closing(own), own.change(WRITE_TIMEOUT_S) as ledger:
            ledger.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            if not ledger.execute(_TRY_ALONE).fetchone()[0]:
                raise ArchiveBusy(f"another process archives {self.place.name} right now")
            yield

    def build_sums(self, now: datetime) -> Iterator[Step]:  # noqa: ARG002
        """See ``ArchivedLedger.build_sums``. Here every row is in the sums from the first moment on."""
        return iter(())

    def wait_for_writers(self, ledger: Ledger, month: str) -> None:
        """See ``ArchivedLedger.wait_for_writers``. Who waited sees what the transaction wrote: triggers look anew."""
        ledger.execute(f"SET LOCAL lock_timeout = {_WRITERS_WAIT_MS}")
        try:
            ledger.execute(f"LOCK TABLE {partition_name(month)} IN SHARE ROW EXCLUSIVE MODE")
        except psycopg.errors.LockNotAvailable:
            raise ArchiveRefused(f"calls of {month} are being written; try again in a while") from None

    def remove_calls(self, file: Path, month: str) -> Iterator[Step]:
        """See ``ArchivedLedger.remove_calls``: compare at one moment, and then remove all, unless any has changed."""
        with self.place.read() as ledger, closing(open_read_only(file)) as filed:
            _require_none_late(ledger, month)
            differing = sum(count_differing(filed, USAGE, rows) for rows in read_calls(ledger, month))
            charges = [[row for row in rows if row[-1] == CALL] for rows in read_entries(ledger, month)]
            differing += sum(count_differing(filed, ENTRIES, rows) for rows in charges)
            differing += sum(count_differing(filed, ATTEMPTS, rows) for rows in read_attempts(ledger, month))
            compared = self._sum_up(ledger, month)
        if differing:
            raise ArchiveRefused(
                f"{differing} calls of {month} differ from those in {file}: they were not removed"
            )
        yield Step()
        with self.place.change(READ_TIMEOUT_S) as ledger:
            self.wait_for_writers(ledger, month)
            if self._sum_up(ledger, month) != compared:
                raise ArchiveRefused(f"calls of {month} were written meanwhile; run it again")
            ledger.execute(_REMOVE_CHARGES.format(partition_name(month)), (CALL,))
            ledger.execute(_REMOVE_ATTEMPTS, (month, month + AFTER_ALL))
            _drop(ledger, month)
        yield Step()

    def _sum_up(self, ledger: Ledger, month: str) -> Any:
        """Return a digest of all rows of a month, and of what its wallets paid."""
        calls = ledger.execute(_DIGEST.format(partition_name(month))).fetchone()
        return calls, ledger.execute(_CHARGES, (CALL, month, month + AFTER_ALL)).fetchone()

    def empty_calls(self, calls: Sequence[NamedCall], workspace: str, user: str) -> None:
        """See ``ArchivedLedger.empty_calls``."""
        for some in batched(sorted(calls), _EMPTIED_AT_ONCE):
            with self.place.change(WRITE_TIMEOUT_S) as ledger:
                ledger.execute(_ALONE_WITH_COUNTERS)
                ids = [one.id for one in some]
                forget_budgets(ledger, _PARTS, ids, user)
                ledger.execute(EMPTY_CALLS, (json.dumps(ids),))
        with self.place.change(WRITE_TIMEOUT_S) as ledger:
            ledger.execute(_ALONE_WITH_COUNTERS)
            forget_counters(ledger, _PARTS, workspace, user)
        # The rows of before are in the tables until then.
        months = sorted({one.month for one in calls})
        self.place.vacuum([*map(partition_name, months), COUNTER_PARTS])

    def find_copies(self) -> Sequence[Path]:
        """See ``ArchivedLedger.find_copies``. PostgreSQL has its own backups."""
        return ()


def _require_none_late(ledger: Ledger, month: str) -> None:
    if ledger.execute(_LATE, (month, month + AFTER_ALL)).fetchone():
        raise ArchiveRefused(f"calls of {month} came while it was archived; run it again")


def _drop(ledger: Ledger, month: str) -> None:
    """Drop the partition of a month. No trigger runs, so all sums stay."""
    ledger.execute(f"SET LOCAL lock_timeout = {_DROP_WAIT_MS}")
    for tries_left in reversed(range(_DROP_TRIES)):
        ledger.execute("SAVEPOINT before_drop")
        try:
            ledger.execute("LOCK TABLE ONLY usage IN ACCESS EXCLUSIVE MODE")
            ledger.execute(f"DROP TABLE {partition_name(month)}")
        except psycopg.errors.LockNotAvailable:
            ledger.execute("ROLLBACK TO SAVEPOINT before_drop")
            time.sleep(_DROP_REST_S if tries_left else 0)
        else:
            return
    raise ArchiveRefused(f"a report reads calls for too long to remove those of {month}; run it again")


# A merge puts the parts of writers into another row, which a statement that waits for one of them does not see.
_ALONE_WITH_COUNTERS: Final = f"SELECT pg_advisory_xact_lock({MERGING_LOCK})"
_TRY_ALONE: Final = "SELECT pg_try_advisory_xact_lock(hashtextextended('tollgate:archive', 0))"
_LATE: Final = """
    SELECT 1 FROM usage JOIN late_calls USING (id) WHERE created_at >= ? AND created_at < ? LIMIT 1
"""
_DIGEST: Final = "SELECT count(*), sum(hash_record_extended(one, 0)::numeric) FROM {} AS one"
_CHARGES: Final = """
    SELECT count(*), sum(amount_nanousd) FROM wallet_entries
    WHERE reference = ? AND created_at >= ? AND created_at < ?
"""
_REMOVE_ATTEMPTS: Final = "DELETE FROM attempts WHERE created_at >= ? AND created_at < ?"
_REMOVE_CHARGES: Final = """
    DELETE FROM wallet_entries USING {} AS call WHERE wallet_entries.id = call.id AND reference = ?
"""
