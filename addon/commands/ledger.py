"""``tollgate ledger``: checks and backups of the ledger. Source: docs/commands.md."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from addon.commands.auditing import CommandRecord
from addon.commands.errors import report_errors
from addon.commands.ledger_archive import archive
from addon.commands.ledger_copy import copy
from addon.commands.ledger_forget import forget
from addon.commands.ledger_reconcile import reconcile
from addon.commands.ledger_recount import recount
from addon.commands.ledger_verify import describe_counts, verify
from addon.commands.options import conf_option
from addon.commands.readers import require_file
from addon.edits.recording import ChangeRecord
from addon.settings.settings import load_conf
from addon.store.money.audit.audit_chain import read_chain
from addon.store.money.reports.report import open_report
from addon.store.money.sqlite.backup import BackupRefused, CopyCheck, back_up, restore
from addon.text.unprintable import escape_unprintable


@click.group()
def ledger() -> None:
    """Check, back up and restore the ledger."""


for command in (verify, reconcile, recount, archive, copy, forget):
    ledger.add_command(command)


@ledger.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@conf_option
def backup(file: Path, force: bool, conf_file: Path) -> None:
    """Copy the ledger to FILE, also while gateways serve, and check the copy. Exit with status 1 on a discrepancy."""
    with report_errors():
        path = require_file(load_conf(conf_file), "back it up with pg_dump, or pg_basebackup for the server")
        with _report_copy_errors(file):
            check = back_up(path, file, overwrite=force)
    click.echo(f"{file}: {_describe_check(check)}")
    if check.discrepancies:
        sys.exit(1)


@ledger.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--force", is_flag=True, help="Restore FILE despite discrepancies. A damaged file is never restored."
)
@conf_option
def restore_backup(file: Path, force: bool, conf_file: Path) -> None:
    """Put the backup FILE in the place of the ledger, while no gateway serves. The replaced ledger stays next to it."""
    with report_errors():
        conf = load_conf(conf_file)
        path = require_file(conf, "restore it with pg_restore, or the server from its pg_basebackup")
        with _report_copy_errors(file), CommandRecord(conf, "ledger restore")(_record_restore(path, file)):
            restored = restore(path, file, despite_discrepancies=force)
    click.echo(f"{path}: {_describe_check(restored.check)}")
    if restored.replaced:
        click.echo(f"the ledger before is {restored.replaced}")


def _record_restore(ledger: Path, file: Path) -> ChangeRecord:
    """Return the record of a restore. It has the head of the log that it ends."""
    inode = ledger.stat().st_ino if ledger.exists() else None
    chain = None
    with suppress(OSError, sqlite3.Error), open_report(ledger) as before:
        chain = read_chain(before)
    ended = f"; the audit log before ended with line {chain.line}, {chain.head}" if chain else ""
    return ChangeRecord(
        f"Restore the ledger from {file.absolute()}{ended}",
        {"replaced": str(ledger.absolute()), "inode": inode},
    )


@contextmanager
def _report_copy_errors(file: Path) -> Iterator[None]:
    """Turn an error of a backup into one line."""
    try:
        yield
    except BackupRefused as error:
        raise click.ClickException(str(error)) from None
    except BlockingIOError:
        raise click.ClickException(f"{file}: another process makes this copy right now") from None
    except OSError as error:
        raise click.ClickException(
            f"{error.filename or file}: {(error.strerror or str(error)).lower()}"
        ) from None
    except sqlite3.Error as error:
        raise click.ClickException(f"{file}: can't be copied: {error}") from None


def _describe_check(check: CopyCheck) -> str:
    if check.counts is None:
        return "whole; its tables are of an earlier version, so calls and counters were not compared"
    return "\n".join(
        [describe_counts(check.counts, check.discrepancies), *map(escape_unprintable, check.discrepancies)]
    )
