"""``tollgate ledger archive``: whole months in files of their own. Source: docs/commands.md."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from addon.commands.auditing import CommandRecord
from addon.commands.errors import report_errors
from addon.commands.options import conf_option
from addon.settings.settings import load_conf
from addon.store.backends import find_archived_ledger
from addon.store.money.archives.archive_run import archive_months
from addon.store.money.archives.archived_ledger import ArchiveRefused
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.protocol import StoreUnavailable
from policies.retention import parse_month


def _parse_before(context: click.Context, option: click.Parameter, text: str) -> str:
    try:
        return parse_month(text)
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--before",
    metavar="MONTH",
    required=True,
    callback=_parse_before,
    help="Archive the months before this one: 2026-01.",
)
@conf_option
def archive(folder: Path, before: str, conf_file: Path) -> None:
    """Move the calls of each whole month before MONTH into a file of its own in DIR, also while gateways serve.

    The sums stay. A command that was killed is run again.
    """
    with report_errors():
        conf = load_conf(conf_file)
        if not folder.is_dir():
            raise click.ClickException(f"{folder}: no such folder")
        ledger, record = find_archived_ledger(conf), CommandRecord(conf, "ledger archive")
        name, is_done = ledger.place.name, False
        # With a ledger in PostgreSQL, the only files of SQLite are archives.
        with report_archive_errors(str(folder) if conf.ledger.url else name):
            for step in archive_months(
                ledger, folder, before, record, AuditSpool(conf.paths.database), now()
            ):
                if step.text:
                    click.echo(step.text)
                    is_done = True
    if not is_done:
        click.echo(f"There are no calls from before {before} in {name}.")


def now() -> datetime:
    """Return the time that decides which months have ended."""
    return datetime.now(UTC)


@contextmanager
def report_archive_errors(ledger: str) -> Iterator[None]:
    """Turn an error of archiving into one line, which names the ledger."""
    try:
        yield
    except ArchiveRefused as error:
        raise click.ClickException(str(error)) from None
    except BlockingIOError as error:
        raise click.ClickException(str(error)) from None
    except StoreUnavailable as error:
        raise click.ClickException(f"{error}; nothing is lost, run the command again") from None
    except sqlite3.Error as error:
        raise click.ClickException(f"{ledger}: {error}; nothing is lost, run the command again") from None
