"""``tollgate usage``: shows what was booked, to people in tables and to programs in JSON or CSV."""

import csv
import io
import json
import re
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from tabulate import tabulate

from addon.commands.common import clear_errors, conf_option
from addon.settings import load_conf
from addon.store.report import GROUPS, Table, find_recent, find_totals, make_filter, open_report
from policies.money import format_nanousd_rounded

RECENT_ROWS = 20

_SHOWN_OF_A_CALL = (
    "created_at",
    "workspace",
    "key_id",
    "model_slug",
    "mode",
    "status",
    "error_code",
    "prompt_tokens",
    "completion_tokens",
    "usage_source",
    "retail_nanousd",
    "duration_ms",
)
_UNITS = MappingProxyType({"m": "minutes", "h": "hours", "d": "days", "w": "weeks"})


def parse_moment(text: str, now: datetime) -> datetime:
    """Return the moment in UTC; a date is its first moment, and what names no zone is UTC.

    Raises ValueError or OverflowError for what is neither a moment of ISO 8601 nor a length of time before ``now``.
    """
    if ago := re.fullmatch(r"([0-9]{1,9})([mhdw])", text):
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _moment(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Return the moment as text that compares with the ledger's ``created_at``."""
    try:
        return text and parse_moment(text, datetime.now(UTC)).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is no date (2026-01-31), moment (2026-01-31T09:30) or time ago (90m 12h 7d 2w)",
            context,
            option,
        ) from None


@click.command("usage")
@conf_option
@click.option("--workspace", help="Only calls of this workspace.")
@click.option("--model", metavar="SLUG", help="Only calls that this model served.")
@click.option(
    "--since",
    metavar="WHEN",
    callback=_moment,
    help="Only calls from then on: 2026-01-31, 2026-01-31T09:30 (UTC) or 7d.",
)
@click.option("--until", metavar="WHEN", callback=_moment, help="Only calls before then.")
@click.option(
    "--by", type=click.Choice(list(GROUPS)), help="Only totals, by this; without it, recent calls too."
)
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=2**31),
    help=f"At most so many rows a table.  [default: {RECENT_ROWS} recent calls, all totals]",
)
@click.option(
    "--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True
)
def usage(
    conf_file: Path,
    workspace: str | None,
    model: str | None,
    since: str | None,
    until: str | None,
    by: str | None,
    limit: int | None,
    form: str,
) -> None:
    """Show recent calls, and totals by workspace, model and day (UTC)."""
    wanted = make_filter(workspace, model, since, until)
    with clear_errors():
        path = load_conf(conf_file).paths.database
    totals = (by,) if by else ("workspace", "model", "day")
    try:
        with open_report(path) as ledger:
            recent = None if by else find_recent(ledger, wanted, limit or RECENT_ROWS)
            tables = {name: find_totals(ledger, name, wanted, limit) for name in totals}
    except (sqlite3.Error, OSError) as error:
        raise click.ClickException(f"{path}: can't be read: {error}") from None
    if form == "json":
        click.echo(_as_json(recent, tables))
    elif form == "csv":
        click.echo(_as_csv(recent or tables[totals[0]]), nl=False)
    elif any(table.rows for table in tables.values()):
        click.echo(_as_text(recent, tables))
    elif wanted.values and path.exists():
        click.echo("No booked call matches.")
    else:
        click.echo(f"No call was booked yet in {path}.")


def _as_json(recent: Table | None, totals: dict[str, Table]) -> str:
    shown: dict[str, Any] = {} if recent is None else {"recent": recent.records()}
    shown["totals"] = {name: table.records() for name, table in totals.items()}
    return json.dumps(shown, indent=2)


def _as_csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def _as_text(recent: Table | None, totals: dict[str, Table]) -> str:
    parts = [] if recent is None else [f"Recent calls (UTC)\n\n{_draw(_shown_of_calls(recent))}"]
    parts += [f"By {name}\n\n{_draw(table)}" for name, table in totals.items()]
    return "\n\n".join(parts)


def _shown_of_calls(recent: Table) -> Table:
    return Table(_SHOWN_OF_A_CALL, [[call[name] for name in _SHOWN_OF_A_CALL] for call in recent.records()])


def _draw(table: Table) -> str:
    numeric = [any(isinstance(value, int) for value in column) for column in zip(*table.rows, strict=True)]
    return tabulate(
        [[_shown(*cell) for cell in zip(table.columns, row, strict=True)] for row in table.rows],
        headers=[name.replace("_nanousd", "_usd").replace("_", "\n") for name in table.columns],
        colalign=["right" if is_numeric else "left" for is_numeric in numeric],
        disable_numparse=True,
    )


def _shown(column: str, value: Any) -> str:
    """A value for the eye. Text that came from outside gets no say over the terminal."""
    if value is None:
        return ""
    if column.endswith("_nanousd"):
        return format_nanousd_rounded(value)
    if column == "created_at":
        return str(value)[:19].replace("T", " ")
    return "".join(character if character.isprintable() else "?" for character in str(value))
