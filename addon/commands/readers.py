"""Readers of the settings and the ledger that a gateway works on."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click

from addon.commands.errors import report_ledger_errors
from addon.commands.fleet_copies import refresh_copies
from addon.settings.conf_schema import ProxyConf
from addon.settings.settings import Settings, SettingsFiles, load_conf
from addon.store.backends import find_ledger
from addon.store.money.ledger import LedgerPlace
from addon.store.money.reports.archived_calls import Missing
from addon.store.money.reports.report import has_table
from addon.store.money.sqlite.copies import open_read_only
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.protocol import StoreUnavailable


def load_served_settings(conf_file: Path) -> Settings:
    """Return the settings that a gateway would serve on. Print a line on stderr for each broken file.

    Raises ``SettingsError``.
    """
    if (conf := load_conf(conf_file)).paths.are_workspaces_in_ledger:
        refresh_copies(conf)
    settings = SettingsFiles(conf_file).load()
    for problem in settings.problems:
        click.echo(f"{problem.consequence}: {problem}", err=True)
    return settings


def read_regular_file(file: Path, most_bytes: int) -> bytes:
    """Return a file's content, of a larger file ``most_bytes`` + 1. Raises ``OSError``, also for a pipe or a device.

    A pipe would let the command wait for whoever writes into it.
    """
    with open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file: save it as one", str(file))
        return opened.read(most_bytes + 1)


@contextmanager
def open_ledger(place: LedgerPlace) -> Iterator[Any]:
    """Open a view of the ledger at one moment. An error names the ledger."""
    try:
        with place.read() as ledger:
            yield ledger
    except StoreUnavailable as error:
        reason = str(error).removeprefix(f"{place.name}: ")
        raise click.ClickException(f"{place.name}: can't be read: {reason}") from None


def require_file(conf: ProxyConf, otherwise: str) -> Path:
    """Return the file of the ledger. Raises ``ClickException``, which says ``otherwise``, for a ledger elsewhere."""
    if conf.ledger.url:
        raise click.ClickException(f"the ledger is in PostgreSQL, by [ledger] url: {otherwise}")
    return conf.paths.database


def choose_ledger(conf: ProxyConf, file: Path | None) -> LedgerPlace:
    """Return the ledger to read: that of the configuration, or ``file``. Raises ``ClickException`` for no ledger.

    Raises ``StoreUnavailable`` when the secret that holds its URL can't be read.
    """
    if file is None:
        return find_ledger(conf)
    if not file.exists():
        raise click.ClickException(f"{file}: no such file")
    with report_ledger_errors(file), closing(open_read_only(file)) as connection:
        if not has_table(connection, "usage") or not has_table(connection, "ledger"):
            raise click.ClickException(f"{file} is no ledger of Tollgate")
    return SqlitePlace(file)


def note_missing(missing: Missing) -> None:
    """Say on standard error which archived calls a report lacks."""
    if missing.months:
        what = "these sums lack archived calls" if missing.in_sums else "earlier calls are archived"
        click.echo(
            f"{what} of {', '.join(missing.months)}; --ledger FILE shows them: {', '.join(missing.files)}",
            err=True,
        )
