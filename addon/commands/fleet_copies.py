"""The copies of the workspace files in the ledger, made the newest before a command reads them."""

import asyncio

import click

from addon.fleet.copies import Copies, refresh
from addon.runtime.clock import SYSTEM_CLOCK
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import describe_error
from addon.store.backends import find_ledger, find_ledger_url
from addon.store.protocol import StoreUnavailable
from addon.text.unprintable import escape_unprintable


def refresh_copies(conf: ProxyConf) -> None:
    """Make the copies those of the ledger. While it is away, the last ones count, and a line on stderr says so.

    Raises ``StoreUnavailable`` where this machine has no copies yet.
    """
    copies = Copies(conf.paths.workspaces)
    try:
        prepare_ledger(conf)
        refresh(find_ledger(conf), copies, must_check=True)
    except (StoreUnavailable, OSError) as error:
        if not copies.folder.is_dir():
            raise StoreUnavailable(
                f"the workspace files are in the ledger: {describe_error(error)}"
            ) from None
        reason = escape_unprintable(describe_error(error))
        click.echo(f"the last copies of the workspace files are used: {reason}", err=True)


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
