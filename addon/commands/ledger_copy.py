"""``tollgate ledger copy``: a whole ledger from one engine into the other. Source: docs/commands.md."""

import os
import sys
from pathlib import Path

import click

from addon.commands.errors import report_errors
from addon.commands.options import conf_option
from addon.commands.output import format_table
from addon.settings.conf_schema import ProxyConf
from addon.settings.ledger_url import read_ledger_url
from addon.settings.secrets import Secrets
from addon.settings.settings import load_conf
from addon.settings.sources import Sources
from addon.settings.store_urls import LEDGER_SCHEMES
from addon.settings.value_types import parse_secret
from addon.store.backends import find_ledger
from addon.store.money.copying.copying import Copied, CopyRefused, copy_ledger
from addon.store.money.postgres.ledger import PostgresPlace
from addon.text.table import Table
from addon.text.unprintable import escape_unprintable

_SECRETS = ("env:", "file:", "sealed:")


@click.command("copy")
@click.option(
    "--to",
    "target",
    metavar="TARGET",
    required=True,
    help="postgresql://HOST/DATABASE of an empty database, env:NAME or file:PATH of such a URL, or a new SQLite file.",
)
@click.option(
    "--rehearse", is_flag=True, help="Copy, compare and print, but keep nothing. Gateways may serve."
)
@conf_option
def copy(target: str, rehearse: bool, conf_file: Path) -> None:
    """Copy the whole ledger into another engine while no gateway serves, check both sides, and print both sums.

    A copy that is stopped, or whose sides differ, leaves nothing behind.
    """
    with report_errors():
        conf = load_conf(conf_file)
        source, into = find_ledger(conf), _parse_target(target, conf)
        try:
            copied = copy_ledger(source, into, is_rehearsal=rehearse)
        except CopyRefused as error:
            raise click.ClickException(str(error)) from None
    name = into.name if isinstance(into, PostgresPlace) else str(into)
    _print(copied, source.name, name)
    if rehearse:
        click.echo(f"rehearsal: nothing was kept in {name}")
    elif copied.agrees:
        click.echo(_next_step(target, into))
    if not copied.agrees or copied.discrepancies:
        sys.exit(1)


def _parse_target(text: str, conf: ProxyConf) -> PostgresPlace | Path:
    """Return where the copy goes. A file is relative to the current folder."""
    if not text.startswith((*LEDGER_SCHEMES, *_SECRETS)):
        return Path(text)
    try:
        if text.startswith(LEDGER_SCHEMES):
            return PostgresPlace.of_text(text)
        secrets = Secrets(os.environ, Sources(), conf.paths.master_keys)
        return PostgresPlace(read_ledger_url(parse_secret(text), secrets))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--to") from None


def _print(copied: Copied, source: str, target: str) -> None:
    rows = [(name, str(value), str(copied.target.get(name))) for name, value in copied.source.items()]
    click.echo(f"source: {source}\ntarget: {target}\n")
    click.echo(format_table(Table(("sum", "source", "target"), rows), "wide") + "\n")
    for line in copied.discrepancies:
        click.echo(escape_unprintable(line))
    for line in copied.left_out:
        click.echo(f"not copied: {escape_unprintable(line)}")
    differs = "both sides have the same sums" if copied.agrees else "the sides differ"
    found = f"{len(copied.discrepancies) or 'no'} discrepancies"
    click.echo(f"{differs}; verify found {found} in both")


def _next_step(target: str, into: PostgresPlace | Path) -> str:
    if isinstance(into, Path):
        return f'copied; now let [paths] database name {into}, with [ledger] url = ""'
    shown = target if target.startswith(_SECRETS) else into.name
    return f'copied; now set [ledger] url = "{shown}" and start the gateways'
