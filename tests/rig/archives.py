"""Ledgers with calls of several months, and runs of archiving that end after any step."""

import os
import signal
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from addon.edits.recording import ChangeRecord, Recording
from addon.store.money.archives.archive_run import archive_months
from addon.store.money.archives.archived_ledger import ArchivedLedger, Step
from addon.store.money.archives.archived_sqlite import SqliteArchivedLedger
from addon.store.money.audit.audit import AuditLine
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.money.engine import Step as EngineStep
from addon.store.money.ledger import LedgerPlace
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.report import find_totals
from addon.store.money.rows import USAGE
from addon.store.money.settlements import credit, settle
from addon.store.money.sqlite.engine import SQLITE, run
from addon.store.money.sqlite.file import LedgerFile
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.money.sqlite.recount import count_again
from addon.store.money.sums.rollups import build_step, is_behind
from addon.store.money.verify.verify import verify
from addon.store.protocol import Settlement, WalletEntry
from policies.attempt_ends import ATTEMPT_ENDS, AttemptEnd
from policies.usage import Usage
from rig.ledger import make_priced_row
from rig.money import USD

NOW = datetime(2024, 2, 20, 12, tzinfo=UTC)
BEFORE = "2024-02"
MONTHS = ("2023-12", "2024-01")
USERS = ("ann@example.com", "ben@example.com")


def make_call(number: int, created_at: datetime, **changes: Any) -> dict[str, Any]:
    """Return the row of a call that costs what its counts cost."""
    usage = Usage(prompt_tokens=number, completion_tokens=2, total_tokens=number + 2)
    cost = number + 2
    priced = {"usage": usage, "wholesale_nanousd": cost // 1000, "retail_nanousd": cost // 1000}
    row = make_priced_row(f"call-{number}", **priced, created_at=created_at)
    who = {"workspace": ("acme", "beta")[number % 2], "key_id": ("ci", "web")[number // 2 % 2]}
    named: dict[str, Any] = {
        "end_user": USERS[number % 2],
        "client_request_id": f"{USERS[number % 2]}/{number}",
    }
    if number // 1000 % 3 == 0:
        ends = [AttemptEnd(one, "OPENAI", f"OPENAI/{one}", "payg", one, 200, None, number) for one in (1, 2)]
        named |= {"attempts": 2, ATTEMPT_ENDS: ends}
    return {**row, **who, **named, **changes}


def write_call(ledger: Path, row: dict[str, Any]) -> None:
    """Write a call as a gateway does. Its wallet paid for it."""
    with closing(LedgerFile(ledger)) as file:
        file.transact(lambda connection: run(connection, _settle(row)))


def _settle(row: dict[str, Any]) -> EngineStep[None]:
    return settle([Settlement(row, from_wallet=True)], SQLITE)


def make_ledger(ledger: Path, calls: int = 45) -> None:
    """Make a ledger with calls from December to February, a credit in each workspace, and refusals."""
    begin = datetime(2023, 12, 3, 7, tzinfo=UTC)
    with closing(LedgerFile(ledger)) as file:
        for workspace in ("acme", "beta"):
            entry = WalletEntry(f"{workspace}/invoice", begin, workspace, 5 * USD, "invoice")
            file.transact(lambda connection, entry=entry: run(connection, credit([entry], SQLITE)))
        for number in range(1, calls + 1):
            row = make_call(number * 1000, begin + timedelta(hours=1790 * number / calls))
            file.transact(lambda connection, row=row: run(connection, _settle(row)))
        file.connection.execute(
            "INSERT INTO refusals (hour, workspace, key_id, code, count)"
            " VALUES ('2023-12-03T07', 'acme', 'ci', 'bad_request', 3)"
        )
        while is_behind(file.connection, NOW):
            build_step(file.connection, NOW, 100)


def give_budgets(ledger: sqlite3.Connection) -> None:
    """Let a budget of its user and one of its team have paid for each call."""
    ledger.execute(
        "UPDATE usage SET budgets = json_array('budget:' || workspace || '/user/' || substr(created_at, 1, 7)"
        " || '/=' || end_user, 'budget:' || workspace || '/tag:team/ever/=search')"
    )
    count_again(ledger)


def forgotten_in(counters: Sequence[Any]) -> list[Any]:
    """Return counters as they are once the second of ``USERS`` is forgotten."""
    return sorted((scope.replace(f"={USERS[1]}", "(forgotten)"), *rest) for scope, *rest in counters)


def archive(ledger: Path, folder: Path, before: str = BEFORE, now: datetime = NOW) -> Iterator[Step]:
    """Archive as the command does."""
    yield from archive_in(SqliteArchivedLedger(ledger), ledger, folder, before, now)


def archive_in(
    archived: ArchivedLedger, path: Path, folder: Path, before: str = BEFORE, now: datetime = NOW
) -> Iterator[Step]:
    """Archive as the command does. The audit lines of this machine wait next to ``path``."""
    spool = AuditSpool(path)

    def record(change: ChangeRecord) -> AbstractContextManager[Recording]:
        line = AuditLine("command", "", "", "ledger archive", "", None, change.text, "alice")
        return spool.record(line, change.evidence)

    yield from archive_months(archived, folder, before, record, spool, now)
    spool.drain(archived.place, 1)


def archive_until_killed(ledger: Path, folder: Path, steps: int) -> bool:
    """Archive in a process that is killed after so many steps. Return whether it ended before."""
    return is_killed_after(steps, lambda: archive(ledger, folder))


def is_killed_after(steps: int, work: Callable[[], Iterable[Step]]) -> bool:
    """Make steps in a process that is killed after so many. Return whether it ended before."""
    child = os.fork()
    if child == 0:
        try:
            for number, _ in enumerate(work(), 1):
                if number == steps:
                    os.kill(os.getpid(), signal.SIGKILL)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the run failed"
    return not os.WIFSIGNALED(status)


def read_sums(ledger: Path | LedgerPlace) -> dict[str, Any]:
    """Return all that must stay as it is: totals, counters, refusals and wallets. The ledger verifies."""
    with _place_of(ledger).read() as connection:
        assert verify(connection) == []
        groups = ("workspace", "key", "model", "provider", "status", "day", "hour")
        totals = {by: list(map(tuple, find_totals(connection, by, Filter(), None).rows)) for by in groups}
        counters = connection.execute("SELECT * FROM spend ORDER BY 1, 2").fetchall()
        return {
            **totals,
            "spend": counters,
            "refusals": connection.execute("SELECT * FROM refusals").fetchall(),
        }


def read_calls(ledger: Path | LedgerPlace) -> list[dict[str, Any]]:
    """Return the calls of a ledger or an archive, by their ids."""
    sql = f"SELECT {', '.join(USAGE.columns)} FROM usage ORDER BY id"
    with _place_of(ledger).read() as connection:
        return [dict(zip(USAGE.columns, row, strict=True)) for row in connection.execute(sql)]


def find_tried(ledger: Path | LedgerPlace) -> list[tuple[Any, ...]]:
    """Return the attempts of a ledger or an archive."""
    with _place_of(ledger).read() as connection:
        return list(map(tuple, connection.execute("SELECT * FROM attempts ORDER BY call_id, number")))


def _place_of(ledger: Path | LedgerPlace) -> LedgerPlace:
    return SqlitePlace(ledger) if isinstance(ledger, Path) else ledger
