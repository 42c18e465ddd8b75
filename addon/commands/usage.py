"""``tollgate usage``: recorded calls and the use of limits, as tables for people, as JSON or CSV for programs."""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from addon.commands.errors import report_errors
from addon.commands.options import conf_option, listing_options
from addon.commands.output import (
    LIMIT_HEADERS,
    TABLE_WIDTH,
    Form,
    format_csv,
    format_json,
    format_limit,
    format_table,
)
from addon.commands.readers import load_served_settings, open_ledger
from addon.commands.text_table import Column, format_columns
from addon.settings.errors import SettingsError, describe_error
from addon.settings.settings import load_conf
from addon.store.backends import open_counters
from addon.store.ledger.report import Table, find_limits, find_recent, find_totals
from addon.store.ledger.totals import GROUPS, Filter
from addon.store.protocol import StoreUnavailable
from policies.money import format_nanousd_rounded

RECENT_ROWS = 20
LIMITS = "limits"

_CALL_COLUMNS = (
    "created_at",
    "workspace",
    "key_id",
    "model_slug",
    "mode",
    "fallback",
    "status",
    "error_code",
    "prompt_tokens",
    "completion_tokens",
    "usage_source",
    "retail_nanousd",
    "duration_ms",
)
_CALLS_OPTIONAL = ("usage_source", "fallback", "mode")
_TOTALS_OPTIONAL = ("wholesale_nanousd", "cached_tokens", "failed_calls")
"""The columns that a table leaves out first when it is too wide."""

_UNITS = MappingProxyType({"m": "minutes", "h": "hours", "d": "days", "w": "weeks"})


def parse_moment(text: str, now: datetime) -> datetime:
    """Return the moment in UTC. A date is its first moment; a text without a time zone is UTC.

    Raises ValueError or OverflowError when ``text`` is neither ISO 8601 nor a length of time before ``now``.
    """
    if ago := re.fullmatch(r"([0-9]{1,9})([mhdw])", text):
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _parse_moment_option(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Return the moment in the format of the ledger's ``created_at``, so that both compare as text."""
    try:
        return text and parse_moment(text, datetime.now(UTC)).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a date (2026-01-31), moment (2026-01-31T09:30) or time ago (90m 12h 7d 2w)",
            context,
            option,
        ) from None


@click.command("usage")
@conf_option
@click.option("--workspace", help="Only calls and limits of this workspace.")
@click.option("--model", metavar="SLUG", help="Only calls that this model served.")
@click.option(
    "--since",
    metavar="WHEN",
    callback=_parse_moment_option,
    help="Only calls from this moment on: 2026-01-31, 2026-01-31T09:30 (UTC) or 7d.",
)
@click.option("--until", metavar="WHEN", callback=_parse_moment_option, help="Only calls before this moment.")
@click.option(
    "--by",
    type=click.Choice([*GROUPS, LIMITS]),
    help="Only totals by this, or only limits. Without it: recent calls, totals and limits.",
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
@listing_options
def usage(
    conf_file: Path,
    workspace: str | None,
    model: str | None,
    since: str | None,
    until: str | None,
    by: str | None,
    limit: int | None,
    named_form: Form | None,
    form: Form,
) -> None:
    """Show recent calls, totals by workspace, model and day (UTC), and the use of every limit."""
    if named_form and form != "table":
        raise click.UsageError("use either --format or one of --json, --csv and --wide")
    form = named_form or form
    if by == LIMITS and (model or since or until):
        raise click.UsageError("limits are those of the current periods: no --model, --since or --until")
    wanted = Filter(workspace, model, since, until)
    totals = () if by == LIMITS else (by,) if by else ("workspace", "model", "day")
    with report_errors():
        path = load_conf(conf_file).paths.database
        with open_ledger(path) as ledger:
            tables = UsageTables(
                None if by else find_recent(ledger, wanted, limit or RECENT_ROWS),
                {name: find_totals(ledger, name, wanted, limit) for name in totals},
                _find_limits(conf_file, ledger, workspace, limit) if by == LIMITS else None,
            )
            if not (by or model or since or until):
                tables = replace(tables, limits=_try_limits(conf_file, ledger, workspace, limit))
    has_selection = wanted != Filter() and path.exists()
    nothing = "No recorded call matches." if has_selection else f"There is no recorded call yet in {path}."
    click.echo(tables.format_as(form, nothing), nl=form != "csv")


@dataclass(frozen=True, slots=True)
class UsageTables:
    """The tables to print. ``recent`` and ``limits`` are None when they are not printed."""

    recent: Table | None
    totals: Mapping[str, Table]
    limits: Table | None

    @property
    def first(self) -> Table:
        """The first table, the only one that CSV prints."""
        first = next((table for table in (self.recent, *self.totals.values(), self.limits) if table), None)
        assert first is not None  # noqa: S101  (one of them was asked for)
        return first

    def format_as(self, form: Form, nothing: str) -> str:
        """Return the tables in ``form``. For ``nothing`` see ``format_text``."""
        if form == "json":
            return self.format_json()
        return format_csv(self.first) if form == "csv" else self.format_text(form, nothing)

    def format_json(self) -> str:
        """Return all tables as JSON, each under its name."""
        shown: dict[str, Any] = {} if self.recent is None else {"recent": self.recent.records()}
        if self.totals:
            shown["totals"] = {name: table.records() for name, table in self.totals.items()}
        if self.limits is not None:
            shown["limits"] = self.limits.records()
        return format_json(shown)

    def format_text(self, form: Form, nothing: str) -> str:
        """Return all tables as text, each under its title. ``nothing`` replaces the calls when there are none."""
        parts = list(self._format_parts(form)) if any(table.rows for table in self.totals.values()) else []
        if self.totals and not parts:
            parts.append(nothing)
        if self.limits and self.limits.rows:
            parts.append(f"Limits (UTC)\n\n{_format_limits(self.limits, form)}")
        return "\n\n".join(parts) or "There is no limit."

    def _format_parts(self, form: Form) -> Iterator[str]:
        if self.recent:
            yield f"Recent calls (UTC)\n\n{_format_calls(self.recent, form)}"
        for name, table in self.totals.items():
            yield f"By {name}\n\n{format_table(table, form, _TOTALS_OPTIONAL, format_nanousd_rounded)}"


def _find_limits(
    conf_file: Path, ledger: sqlite3.Connection, workspace: str | None, most: int | None
) -> Table:
    settings = load_served_settings(conf_file)
    shown = [one for one in settings.workspaces.values() if workspace in (None, one.id)]
    with open_counters(settings.conf, ledger) as read_used:
        table = find_limits(read_used, shown, datetime.now(UTC))
    return replace(table, rows=table.rows[:most])


def _try_limits(
    conf_file: Path, ledger: sqlite3.Connection, workspace: str | None, most: int | None
) -> Table | None:
    """Return the limits. On an error print it and return None, so that the calls are still shown."""
    try:
        return _find_limits(conf_file, ledger, workspace, most)
    except (SettingsError, StoreUnavailable, sqlite3.Error) as error:
        click.echo(f"limits are not shown: {describe_error(error)}", err=True)
        return None


def _format_calls(recent: Table, form: Form) -> str:
    rows = [[call[name] for name in _CALL_COLUMNS] for call in recent.records()]
    return format_table(Table(_CALL_COLUMNS, rows), form, _CALLS_OPTIONAL, format_nanousd_rounded)


def _format_limits(limits: Table, form: Form) -> str:
    """Return the limits as text. Requests and USD share the columns, because each limit has only one of them."""
    rows = [[row["workspace"], row["key_id"] or "", *format_limit(row)] for row in limits.records()]
    headers = ("workspace", "key", *LIMIT_HEADERS)
    columns = [
        Column(
            header, "text" if place < 2 else "moment" if place < 4 else "number", [row[place] for row in rows]
        )
        for place, header in enumerate(headers)
    ]
    return format_columns(columns, None if form == "wide" else TABLE_WIDTH).text
