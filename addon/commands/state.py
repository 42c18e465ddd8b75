"""``tollgate state``: the limits and the money in Redis. Source: docs/commands.md."""

import asyncio
from pathlib import Path

import click

from addon.commands.auditing import CommandRecord
from addon.commands.errors import report_errors, report_ledger_errors
from addon.commands.options import conf_option
from addon.commands.output import pluralize
from addon.commands.readers import require_redis_url
from addon.edits.recording import ChangeRecord
from addon.settings.settings import load_conf
from addon.store.redis.rebuild import rebuild_state


@click.group()
def state() -> None:
    """Restore limits, holds and spend in Redis."""


@state.command()
@click.option(
    "--take-over", is_flag=True, help="Record in this ledger from now on. Only when the previous one is lost."
)
@conf_option
def rebuild(take_over: bool, conf_file: Path) -> None:
    """Rebuild everything in Redis from the ledger. Redis may be empty, partly lost or intact.

    Gateways refuse calls during the rebuild and then continue by themselves. If it fails, they refuse calls until you
    run it again.
    """
    with report_errors():
        conf = load_conf(conf_file)
        path = conf.paths.database
        url = require_redis_url(conf)
        with report_ledger_errors(path), CommandRecord(path, "state rebuild")(_record(take_over)):
            rebuilt = asyncio.run(rebuild_state(url, path, take_over=take_over))
    click.echo(
        f"rebuilt {pluralize(rebuilt.workspaces, 'workspace')} with {pluralize(rebuilt.counters, 'counter')}"
        f" and {pluralize(rebuilt.holds, 'call')} in flight;"
        f" {rebuilt.recorded} calls and credits were still on their way to the ledger"
    )


def _record(take_over: bool) -> ChangeRecord:
    text = "Rebuild everything in Redis from the ledger"
    return ChangeRecord(f"{text}, and record in this ledger from now on" if take_over else text)
