"""The copies of the workspace files in the ledger, made the newest before a command reads them."""

import asyncio

import click

from addon.fleet.copies import Copies, refresh
from addon.runtime.clock import SYSTEM_CLOCK
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import describe_error
from addon.store.backends import find_ledger, find_ledger_url
from addon.store.money.ledger import CHANGE_S
from addon.store.protocol import StoreUnavailable
from addon.text.unprintable import escape_unprintable


def refresh_copies(conf: ProxyConf) -> None:
    """Make the copies those of the ledger. While it is away, the last ones count, and a line on stderr says so.

    Raises ``StoreUnavailable`` where this machine has no copies yet.
    """
    if fault := find_stale(conf, must_prepare=True):
        if not conf.paths.workspaces.is_dir():
            raise StoreUnavailable(fault)
        click.echo(f"warning: {escape_unprintable(fault)}", err=True)


def find_stale(conf: ProxyConf, *, must_prepare: bool = False) -> str | None:
    """Make the copies those of the ledger. Return why they may be stale, with their age, or None."""
    copies = Copies(conf.paths.workspaces)
    try:
        if must_prepare:
            prepare_ledger(conf)
        refresh(find_ledger(conf).bounded(CHANGE_S), copies, must_check=True)
    except (StoreUnavailable, OSError) as error:
        return f"{_describe_age(copies)}: {describe_error(error)}"
    return None


def _describe_age(copies: Copies) -> str:
    if not copies.folder.is_dir():
        return (
            "the workspace files are in the ledger, which can't be read, and this machine has no copies yet"
        )
    age_s = copies.find_age_s()
    # Imported here: workers are forked from a process that imports the command of a start, and have no console.
    from addon.console.display import duration

    age = "of unknown age" if age_s is None else f"of {duration(age_s * 1000)} ago"
    return f"the ledger can't be read, so the last copies of workspace files count, {age}"


def prepare_ledger(conf: ProxyConf) -> None:
    """Create the tables in PostgreSQL where they are missing: a command may come before the first gateway.

    Raises ``StoreUnavailable``.
    """
    from addon.store.money.postgres.tables import prepare
    from addon.store.money.postgres.transactions import Transactions

    if not conf.ledger.url:
        return
    transactions = Transactions(find_ledger_url(conf.ledger.url, conf))

    async def run() -> None:
        try:
            await prepare(transactions, SYSTEM_CLOCK.now().date())
        finally:
            await transactions.close()

    asyncio.run(run())
