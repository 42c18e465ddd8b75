"""``tollgate alerts``: a test of the webhook, and the queue. Source: docs/commands.md, docs/alerts.md."""

import asyncio
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from addon.alerts import events
from addon.alerts.webhook import Outcome, Webhook
from addon.commands.errors import report_errors
from addon.commands.options import conf_option, limit_option, listing_options
from addon.commands.output import Form, echo_table
from addon.commands.readers import load_served_settings, open_ledger
from addon.settings.alert_target import AlertTarget
from addon.settings.egress_proxy import EgressProxy
from addon.settings.settings import load_conf
from addon.store.backends import find_ledger
from addon.store.money.alerts import list_alerts

LIST_ROWS = 20


@click.group()
def alerts() -> None:
    """Test the webhook of [alerts], and show the events that wait or were sent."""


@alerts.command()
@conf_option
def test(conf_file: Path) -> None:
    """Send one event "test" to the webhook, and show the answer. Exit with status 1 if it does not take it.

    This command sends it, not a running gateway: it reads the same files, but the variables of this shell.
    """
    with report_errors():
        settings = load_served_settings(conf_file)
        if not settings.conf.alerts.webhook:
            raise click.ClickException("[alerts] webhook is empty: events are only logged")
        if settings.alert_target is None:
            raise click.ClickException("an environment variable that [alerts] names is not set in this shell")
        outcome = asyncio.run(_send(settings.alert_target, settings.egress_proxy))
    signed = "signed" if settings.alert_target.secret else "not signed: [alerts] secret is empty"
    took = f"{outcome.duration_s * 1000:.0f} ms"
    if outcome.is_taken:
        click.echo(f"the webhook took the event: {outcome.answer} after {took} ({signed})")
        return
    click.echo(f"the webhook did not take the event: {outcome.answer}, after {took}", err=True)
    sys.exit(1)


async def _send(target: AlertTarget, proxy: EgressProxy | None) -> Outcome:
    now = datetime.now(UTC)
    webhook = Webhook(target, proxy)
    try:
        return await webhook.send(events.tested(now).pack(socket.gethostname()).body, now, 1)
    finally:
        await webhook.close()


@alerts.command("list")
@limit_option("events", LIST_ROWS)
@listing_options
@conf_option
def list_(limit: int, form: Form, conf_file: Path) -> None:
    """Show the events that wait, and then those that were sent or given up, the newest first."""
    with report_errors(), open_ledger(find_ledger(load_conf(conf_file))) as ledger:
        table = list_alerts(ledger, limit)
    echo_table(table, form, "There was no alert yet.", optional=("ended_at", "next_at", "id"))
