"""The archives that ``tollgate ledger reconcile`` reads beside the ledger."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from addon.commands.readers import open_ledger
from addon.store.money.archives.archive_check import is_archive_of
from addon.store.money.archives.archives import find_month_of_file
from addon.store.money.ledger import LedgerPlace
from addon.store.money.reports.archived_calls import find_missing
from addon.store.money.sqlite.place import SqlitePlace
from policies.utc_time import format_utc


@contextmanager
def open_with_archives(place: LedgerPlace, files: Sequence[Path]) -> Iterator[list[Any]]:
    """Open the ledger and archives of it, the ledger first. Raises ``ClickException`` for any other file."""
    with ExitStack() as opened:
        ledger = opened.enter_context(open_ledger(place))
        found = {"": ledger}
        for file in files:
            if not file.exists():
                raise click.ClickException(f"{file}: no such file")
            archive = opened.enter_context(open_ledger(SqlitePlace(file)))
            if not is_archive_of(archive, ledger):
                raise click.ClickException(f"{file} is no archive of {place.name}")
            if found.setdefault(find_month_of_file(archive) or "", archive) is not archive:
                raise click.ClickException(f"{file}: the archive of this month is named twice")
        yield list(found.values())


def require_archives(
    ledger: Any,
    archives: Sequence[Any],
    since: datetime,
    first: datetime,
    until: datetime,
) -> None:
    """Raise ``ClickException`` when calls from ``first`` on are in an archive that is not open.

    Earlier calls, since ``since``, matter only for days whose calls the vendor counts as of the next day.
    """
    opened = {find_month_of_file(one) for one in archives}
    for begin, is_needed in ((first, True), (since, False)):
        missing = find_missing(ledger, format_utc(begin), format_utc(until))
        files = [
            file for month, file in zip(missing.months, missing.files, strict=True) if month not in opened
        ]
        if files and is_needed:
            named = " ".join(f"--ledger {file}" for file in files)
            raise click.ClickException(f"calls of this time are archived: add {named}")
        if files:
            named = f"--ledger {files[0]}"
            click.echo(
                f"calls right before this time are archived: {named} compares those that ended in it",
                err=True,
            )
