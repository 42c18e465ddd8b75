"""What the commands share: the options that several of them take, and how a fault is told in one line."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from pydantic import SecretStr

from addon.settings.files import SettingsError, fault_line, nearest
from addon.settings.files_schema import ProxyConf
from addon.settings.settings import Settings, SettingsFiles
from addon.store import StoreUnavailable
from addon.store.ledger.report import open_report

conf_option = click.option(
    "--conf",
    "conf_file",
    type=click.Path(path_type=Path),
    default="proxy.conf",
    show_default=True,
    help="The gateway's configuration file.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn what operators can put right into one line on stderr and exit status 1."""
    try:
        yield
    except (SettingsError, OSError, StoreUnavailable) as error:
        raise click.ClickException(fault_line(error)) from None


def load_served(conf_file: Path) -> Settings:
    """Return what a gateway would serve on, with a line on stderr for each file that is broken.

    Raises ``SettingsError``.
    """
    settings = SettingsFiles(conf_file).load()
    for problem in settings.problems:
        click.echo(f"{problem.consequence}: {problem}", err=True)
    return settings


@contextmanager
def naming(ledger: Path) -> Iterator[None]:
    """Turn what goes wrong with the ledger's file into one line that names it."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise click.ClickException(f"{ledger}: can't be read: {error}") from None


@contextmanager
def reading(ledger: Path) -> Iterator[sqlite3.Connection]:
    """Give a view of the ledger at one moment, as ``open_report`` does; a fault names the file."""
    with naming(ledger), open_report(ledger) as connection:
        yield connection


def redis_url(conf: ProxyConf) -> SecretStr:
    """Return where Redis is. Raises ``ClickException`` where it keeps nothing."""
    if conf.state.backend != "redis":
        raise click.ClickException(
            f'[state] backend is "{conf.state.backend}": everything is in the ledger itself, there is nothing to do'
        )
    return conf.state.redis_url


def unknown_workspace(workspace: str, known: Iterable[str], hint: str = "") -> click.ClickException:
    """Return the error that says so, with the name that may have been meant."""
    return click.ClickException(f'unknown workspace "{workspace}"{nearest(workspace, known)}{hint}')
