"""The copy of a ledger from one engine into the other, checked on both sides before anyone can use it."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from addon.store.money.copying.source import order_distribution, read_batches, read_sums
from addon.store.money.copying.tables import COPIED, OF_FLEETS
from addon.store.money.copying.targets import Target, fill_database, make_file
from addon.store.money.ledger import Ledger, LedgerPlace
from addon.store.money.postgres.ledger import PostgresPlace
from addon.store.money.reports.report import has_table
from addon.store.money.sqlite.migrations import find_pending
from addon.store.money.verify.verify import verify


class CopyRefused(Exception):  # noqa: N818  (the state of a ledger, no fault of the program)
    """The copy can't be made, or its sides differ. ``str`` is one line, and nothing is left of the copy."""


class Copied(NamedTuple):
    """The sums of both sides by name, what ``verify`` found in both, and what the target has no place for."""

    source: Mapping[str, int | str]
    target: Mapping[str, int | str]
    discrepancies: Sequence[str]
    left_out: Sequence[str]

    @property
    def agrees(self) -> bool:
        """Whether both sides have the same sums."""
        return self.source == self.target


def copy_ledger(source: LedgerPlace, target: PostgresPlace | Path, *, is_rehearsal: bool) -> Copied:
    """Copy a whole ledger. A rehearsal, and a copy whose sides differ, leave nothing behind.

    Raise ``CopyRefused`` and ``StoreUnavailable``.
    """
    if not source.exists():
        raise CopyRefused(f"{source.name}: there is no ledger")
    if not is_rehearsal and (processes := source.count_processes()):
        raise CopyRefused(
            f"{source.name}: gateways use it (processes: {processes}); stop them first, or --rehearse"
        )
    with _make(target, is_kept=not is_rehearsal) as made:
        with source.read() as ledger:
            ledger_id = _require_whole(source, ledger)
            _copy_rows(ledger, made)
            made.finish(ledger_id)
            copied = Copied(
                read_sums(ledger),
                read_sums(made.ledger),
                [*verify(ledger), *verify(made.ledger)],
                _find_left_out(ledger) if isinstance(target, Path) else (),
            )
        if not is_rehearsal:
            if not copied.agrees:
                raise CopyRefused(f"the copy differs from {source.name}: {_first_difference(copied)}")
            _require_unchanged(source, copied)
    return copied


def _make(target: PostgresPlace | Path, *, is_kept: bool) -> AbstractContextManager[Target]:
    if isinstance(target, Path):
        return make_file(target, is_kept=is_kept)
    return fill_database(target, is_kept=is_kept)


def _require_whole(source: LedgerPlace, ledger: Ledger) -> str:
    """Return the id of a ledger that this version has made or migrated."""
    if isinstance(ledger, sqlite3.Connection):
        ledger.create_function("buckets_text", 1, order_distribution, deterministic=True)
        if find_pending(ledger):
            raise CopyRefused(f"{source.name}: is of an earlier version; start a gateway on it once")
        if ledger.execute("SELECT redis_state FROM ledger").fetchone()[0] is not None:
            raise CopyRefused(
                f"{source.name}: an earlier version kept its counters in Redis; start a gateway on it once"
            )
    ledger_id, archived_month = ledger.execute("SELECT id, archived_month FROM ledger").fetchone()
    if archived_month is not None:
        raise CopyRefused(f"{source.name}: is the archive of {archived_month}")
    return str(ledger_id)


def _find_left_out(ledger: Ledger) -> Sequence[str]:
    """Return what a file has no place for, and what is to be done about each."""
    if not has_table(ledger, "revoked_keys"):
        return ()
    keys = ledger.execute("SELECT workspace, key_id FROM revoked_keys ORDER BY 1, 2, hash").fetchall()
    files = ledger.execute("SELECT id FROM workspace_files WHERE deleted = 0 ORDER BY 1").fetchall()
    return [
        *(
            f"the file of {workspace} must say active = false of the key {key_id}: it is revoked here"
            for workspace, key_id in dict.fromkeys(keys)
        ),
        *(f"the file of {workspace} is only here: tollgate workspaces pull DIR" for (workspace,) in files),
    ]


def _copy_rows(ledger: Ledger, made: Target) -> None:
    shared = OF_FLEETS if all(has_table(one, "revoked_keys") for one in (ledger, made.ledger)) else ()
    for table in (*COPIED, *shared):
        columns = made.columns(table)
        for rows in read_batches(ledger, table, columns):
            made.write(table, columns, rows)


def _require_unchanged(source: LedgerPlace, copied: Copied) -> None:
    """Refuse a copy of a ledger that someone has written to meanwhile."""
    with source.read() as ledger:
        now = read_sums(ledger)
    if now != copied.source or source.count_processes():
        raise CopyRefused(f"{source.name}: it was changed while it was copied; nothing was kept, try again")


def _first_difference(copied: Copied) -> str:
    name = next(one for one in copied.source if copied.source[one] != copied.target.get(one))
    return f"{name} {copied.source[name]} and {copied.target.get(name)}"
