"""``tollgate usage``: recorded calls and the use of limits, as tables for people, as JSON or CSV for programs."""

from pathlib import Path

import click

from addon.commands.errors import report_errors
from addon.commands.options import conf_option, ledger_option, listing_options
from addon.commands.output import Form
from addon.commands.readers import choose_ledger, note_missing, open_ledger
from addon.commands.usage_options import (
    BUDGETS,
    LIMITS,
    REFUSALS,
    check_filters,
    check_names,
    complete_by_option,
    parse_by_option,
    parse_moment_option,
    parse_status_option,
)
from addon.commands.usage_reader import RECENT_ROWS, UsageReader
from addon.settings.settings import load_conf
from addon.store.money.reports.call_filter import MODES, Filter
from addon.store.money.reports.totals import GROUPS
from policies.exchange import KNOWN_APIS


@click.command("usage")
@conf_option
@click.option("--workspace", help="Only calls, refusals and limits of this workspace.")
@click.option("--key", metavar="ID", help="Only calls, refusals and limits of the keys with this id.")
@click.option("--model", metavar="SLUG", help="Only calls that this model served.")
@click.option("--provider", metavar="NAME", help="Only calls that went to this provider.")
@click.option(
    "--deployment", metavar="NAME", help="Only calls that this place of a model served: PROVIDER/model-id."
)
@click.option(
    "--status",
    metavar="STATUS",
    callback=parse_status_option,
    help="Only calls with this status (429), of this class (4xx), or those that failed (error).",
)
@click.option(
    "--mode", type=click.Choice(MODES), help="Only calls with a key of the platform, or of the customer."
)
@click.option("--api", type=click.Choice(KNOWN_APIS), help="Only calls and refusals of this API.")
@click.option(
    "--since",
    metavar="WHEN",
    callback=parse_moment_option,
    help="Only calls from this moment on: 2026-01-31, 2026-01-31T09:30 (UTC) or 7d.",
)
@click.option("--until", metavar="WHEN", callback=parse_moment_option, help="Only calls before this moment.")
@click.option(
    "--by",
    metavar="NAME[,NAME]",
    callback=parse_by_option,
    shell_complete=complete_by_option,
    help=f"Only totals by one or two of {', '.join(GROUPS)} and tag:NAME, or only {REFUSALS}, {LIMITS} or {BUDGETS}."
    " Without it: recent calls, totals, refusals and limits.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=2**31),
    help=f"The largest number of rows of each table.  [default: {RECENT_ROWS} recent calls, all else]",
)
@click.option(
    "--format",
    "named_form",
    type=click.Choice(["table", "json", "csv"]),
    help="The same as --json, --csv or neither.",
)
@ledger_option
@listing_options
def usage(
    conf_file: Path,
    ledger_file: Path | None,
    workspace: str | None,
    key: str | None,
    model: str | None,
    provider: str | None,
    deployment: str | None,
    status: str | None,
    mode: str | None,
    api: str | None,
    since: str | None,
    until: str | None,
    by: str | None,
    limit: int | None,
    named_form: Form | None,
    form: Form,
) -> None:
    """Show recent calls, totals by workspace, model and day (UTC), refused calls, and the use of every limit."""
    if named_form and form != "table":
        raise click.UsageError("use either --format or one of --json, --csv and --wide")
    form = named_form or form
    wanted = Filter(
        workspace, model, since, until, key, provider, status, mode, deployment=deployment, api=api
    )
    check_filters(by, wanted)
    if by in (LIMITS, BUDGETS) and ledger_file is not None:
        raise click.UsageError(f"{by} are those of now, which no other file has: no --ledger")
    with report_errors():
        conf = load_conf(conf_file)
        place = choose_ledger(conf, ledger_file)
        has_ledger = place.exists()
        with open_ledger(place) as ledger:
            check_names(conf_file, conf, ledger, wanted)
            reader = UsageReader(conf_file, ledger, wanted, limit, is_archive=ledger_file is not None)
            tables = reader.read(by)
            note_missing(reader.find_missing(by, tables))
    has_selection = wanted != Filter() and has_ledger
    kind = "refused" if by == REFUSALS else "recorded"
    nothing = f"No {kind} call matches." if has_selection else f"There is no {kind} call yet in {place.name}."
    click.echo(tables.format_as(form, nothing), nl=form != "csv")
