"""Errors of commands: each is one line on stderr."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from addon.edits import workspace_files
from addon.edits.workspace_files import EditError
from addon.settings.errors import SettingsError, describe_error
from addon.store.protocol import StoreUnavailable


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn an error that operators can fix into one line on stderr and exit status 1."""
    try:
        yield
    except (SettingsError, EditError, OSError, StoreUnavailable) as error:
        raise click.ClickException(describe_error(error)) from None


@contextmanager
def report_ledger_errors(ledger: Path) -> Iterator[None]:
    """Turn an error of the ledger's file into one line that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise click.ClickException(f"{ledger}: can't be read: {error}") from None


def unknown_workspace_error(workspace: str, known: Iterable[str]) -> click.ClickException:
    """Return the error of a workspace that does not exist. It suggests the nearest name."""
    return click.ClickException(str(workspace_files.unknown_workspace_error(workspace, known)))
