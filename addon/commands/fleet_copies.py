"""The copies of the workspace files in the ledger, made the newest before a command reads them."""

import asyncio
from contextlib import suppress

import click

from addon.console.display import duration
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
    with suppress(StoreUnavailable):  # The next line finds out why.
        prepare_ledger(conf)
    if fault := find_stale(conf):
        if not conf.paths.workspaces.is_dir():
            raise StoreUnavailable(f"the workspace files are in the ledger: {fault}")
        click.echo(f"warning: {escape_unprintable(fault)}", err=True)


def find_stale(conf: ProxyConf) -> str | None:
    """Make the copies those of the ledger. Return why they may be stale, with their age, or None."""
    copies = Copies(conf.paths.workspaces)
    try:
        refresh(find_ledger(conf).bounded(CHANGE_S), copies, must_check=True)
    except (StoreUnavailable, OSError) as error:
        age_s = copies.find_age_s()
        age = "of unknown age" if age_s is None else f"of {duration(age_s * 1000)} ago"
        return f"the ledger can't be read, so the last copies of workspace files count, {age}: {describe_error(error)}"
    return None


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
