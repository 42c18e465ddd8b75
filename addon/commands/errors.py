"""Errors of commands: each is one line on stderr."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from click.core import ParameterSource

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
        raise click.ClickException(describe_error(error) + missing_conf_hint(error)) from None


def missing_conf_hint(error: Exception) -> str:
    """Return how to name proxy.conf, if ``error`` says that the default one is missing, else an empty text."""
    context = click.get_current_context(silent=True)
    if context is None or not isinstance(error, SettingsError) or error.reason != "no such file":
        return ""
    conf_file = context.params.get("conf_file")
    is_default = context.get_parameter_source("conf_file") is ParameterSource.DEFAULT
    if not is_default or error.file.absolute() != Path(str(conf_file)).absolute():
        return ""
    return "; name another with --conf or TOLLGATE_CONF, or make a folder with one: tollgate init DIR"


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
