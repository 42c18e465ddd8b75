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
from addon.commands.readers import require_file
from addon.settings.settings import load_conf
from addon.store.money.archives.archive_file import ArchiveRefused
from addon.store.money.archives.archive_run import archive_months
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
        path = require_file(
            conf, "its months can't be moved into files yet; pg_dump --table='usage_2026_01' saves one"
        )
        if not folder.is_dir():
            raise click.ClickException(f"{folder}: no such folder")
        with report_archive_errors(path):
            is_done = False
            for step in archive_months(path, folder, before, CommandRecord(conf, "ledger archive"), now()):
                if step.text:
                    click.echo(step.text)
                    is_done = True
    if not is_done:
        click.echo(f"There are no calls from before {before} in {path}.")


def now() -> datetime:
    """Return the time that decides which months have ended."""
    return datetime.now(UTC)


@contextmanager
def report_archive_errors(ledger: Path) -> Iterator[None]:
    """Turn an error of archiving into one line."""
    try:
        yield
    except ArchiveRefused as error:
        raise click.ClickException(str(error)) from None
    except BlockingIOError as error:
        raise click.ClickException(str(error)) from None
    except sqlite3.Error as error:
        raise click.ClickException(f"{ledger}: {error}; nothing is lost, run the command again") from None
