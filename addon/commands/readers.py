"""Readers of the settings and the ledger that a gateway works on."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from pydantic import SecretStr

from addon.commands.errors import report_ledger_errors
from addon.settings.conf_schema import ProxyConf
from addon.settings.settings import Settings, SettingsFiles
from addon.store.backends import find_redis_url
from addon.store.ledger.report import open_report


def load_served_settings(conf_file: Path) -> Settings:
    """Return the settings that a gateway would serve on. Print a line on stderr for each broken file.

    Raises ``SettingsError``.
    """
    settings = SettingsFiles(conf_file).load()
    for problem in settings.problems:
        click.echo(f"{problem.consequence}: {problem}", err=True)
    return settings


@contextmanager
def open_ledger(ledger: Path) -> Iterator[sqlite3.Connection]:
    """Open a view of the ledger at one moment, as ``open_report`` does. An error names the file."""
    with report_ledger_errors(ledger), open_report(ledger) as connection:
        yield connection


def require_redis_url(conf: ProxyConf) -> SecretStr:
    """Return the URL of Redis. Raises ``ClickException`` when the state is not in Redis.

    Raises ``StoreUnavailable`` when the secret that holds the URL can't be read.
    """
    if conf.state.backend != "redis":
        raise click.ClickException(
            f'[state] backend is "{conf.state.backend}": everything is in the ledger itself, there is nothing to do'
        )
    return find_redis_url(conf)
