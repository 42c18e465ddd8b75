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

from addon.commands.errors import report_errors, report_ledger_errors
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
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import SettingsError, describe_error, suggest_name
from addon.settings.settings import Settings, SettingsFiles, load_conf
from addon.settings.sources import Sources
from addon.store.backends import open_counters
from addon.store.ledger.report import Table, find_limits, find_names, find_recent, find_refusals, find_totals
from addon.store.ledger.totals import FAILED, GROUPS, Filter
from addon.store.protocol import StoreUnavailable
from policies.money import format_nanousd_rounded

RECENT_ROWS = 20
LIMITS, REFUSALS = "limits", "refusals"

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


def _parse_by_option(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Return one or two of ``GROUPS``, separated by a comma, or ``LIMITS`` or ``REFUSALS``."""
    if text is None or text in (LIMITS, REFUSALS):
        return text
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if part not in GROUPS:
            known = [*GROUPS, LIMITS, REFUSALS] if len(parts) == 1 else GROUPS
            raise click.BadParameter(f'unknown "{part}"{suggest_name(part, known)}', context, option)
    if len(parts) > 2 or len(set(parts)) < len(parts):
        raise click.BadParameter("it takes one name, or two different ones", context, option)
    return ",".join(parts)


def _parse_status_option(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    if text is None or text == FAILED or re.fullmatch("[1-5](xx|[0-9]{2})", text):
        return text
    raise click.BadParameter(f"{text!r} is not a status (429), a class (4xx) or {FAILED!r}", context, option)


@click.command("usage")
@conf_option
@click.option("--workspace", help="Only calls, refusals and limits of this workspace.")
@click.option("--key", metavar="ID", help="Only calls, refusals and limits of the keys with this id.")
@click.option("--model", metavar="SLUG", help="Only calls that this model served.")
@click.option("--provider", metavar="NAME", help="Only calls that went to this provider.")
@click.option(
    "--status",
    metavar="STATUS",
    callback=_parse_status_option,
    help="Only calls with this status (429), of this class (4xx), or those that failed (error).",
)
@click.option(
    "--since",
    metavar="WHEN",
    callback=_parse_moment_option,
    help="Only calls from this moment on: 2026-01-31, 2026-01-31T09:30 (UTC) or 7d.",
)
@click.option("--until", metavar="WHEN", callback=_parse_moment_option, help="Only calls before this moment.")
@click.option(
    "--by",
    metavar="NAME[,NAME]",
    callback=_parse_by_option,
    help=f"Only totals by one or two of {', '.join(GROUPS)}, or only {REFUSALS} or {LIMITS}."
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
@listing_options
def usage(
    conf_file: Path,
    workspace: str | None,
    key: str | None,
    model: str | None,
    provider: str | None,
    status: str | None,
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
    wanted = Filter(workspace, model, since, until, key, provider, status)
    _check_filters(by, wanted)
    with report_errors():
        conf = load_conf(conf_file)
        path = conf.paths.database
        with open_ledger(path) as ledger, report_ledger_errors(path):
            _check_names(conf_file, conf, ledger, wanted)
            tables = _read_tables(conf_file, ledger, by, wanted, limit)
    has_selection = wanted != Filter() and path.exists()
    kind = "refused" if by == REFUSALS else "recorded"
    nothing = f"No {kind} call matches." if has_selection else f"There is no {kind} call yet in {path}."
    click.echo(tables.format_as(form, nothing), nl=form != "csv")


def _check_filters(by: str | None, wanted: Filter) -> None:
    """Refuse filters that do not apply to what is asked for."""
    if by == LIMITS and (_selects_sent_calls(wanted) or wanted.since or wanted.until):
        raise click.UsageError(
            "limits are those of the current periods: no --model, --provider, --status, --since or --until"
        )
    if by == REFUSALS and _selects_sent_calls(wanted):
        raise click.UsageError("refused calls were not sent: no --model, --provider or --status")


def _selects_sent_calls(wanted: Filter) -> bool:
    return any((wanted.model, wanted.provider, wanted.status))


def _check_names(conf_file: Path, conf: ProxyConf, ledger: sqlite3.Connection, wanted: Filter) -> None:
    """Raise ``ClickException`` for a name that is neither in the ledger nor in the settings."""
    asked = {
        "workspace": wanted.workspace,
        "key": wanted.key,
        "model": wanted.model,
        "provider": wanted.provider,
    }
    for kind, name in asked.items():
        if name is None:
            continue
        known = find_names(ledger, kind, wanted.workspace)
        if name not in known:
            known |= _find_configured(conf_file, conf, kind, wanted.workspace)
        if name not in known:
            raise click.ClickException(f'unknown {kind} "{name}"{suggest_name(name, known)}')


def _find_configured(conf_file: Path, conf: ProxyConf, kind: str, workspace: str | None) -> set[str]:
    """Return the names that the settings have, none when they do not load."""
    try:
        if kind == "workspace":
            return {file.stem for file in Sources().list_toml(conf.paths.workspaces)}
        return _list_names(SettingsFiles(conf_file).load(), kind, workspace)
    except SettingsError:
        return set()


def _list_names(settings: Settings, kind: str, workspace: str | None) -> set[str]:
    if kind == "model":
        return set(settings.models)
    if kind == "provider":
        return set(settings.providers)
    return {key.id for one in settings.workspaces.values() if workspace in (None, one.id) for key in one.keys}


def _read_tables(
    conf_file: Path, ledger: sqlite3.Connection, by: str | None, wanted: Filter, limit: int | None
) -> "UsageTables":
    """Return the tables that are asked for: those of ``by``, or all that the filter allows."""
    if by == LIMITS:
        return UsageTables(None, {}, None, _find_limits(conf_file, ledger, wanted, limit))
    if by == REFUSALS:
        return UsageTables(None, {}, find_refusals(ledger, wanted, limit), None)
    if by:
        return UsageTables(None, {by: find_totals(ledger, by, wanted, limit)}, None, None)
    totals = {name: find_totals(ledger, name, wanted, limit) for name in ("workspace", "model", "day")}
    recent = find_recent(ledger, wanted, limit or RECENT_ROWS)
    if _selects_sent_calls(wanted):
        return UsageTables(recent, totals, None, None)
    refusals = find_refusals(ledger, wanted, limit)
    is_of_now = not (wanted.since or wanted.until)
    limits = _try_limits(conf_file, ledger, wanted, limit) if is_of_now else None
    return UsageTables(recent, totals, refusals, limits)


@dataclass(frozen=True, slots=True)
class UsageTables:
    """The tables to print. Those that are None are not printed."""

    recent: Table | None
    totals: Mapping[str, Table]
    refusals: Table | None
    limits: Table | None

    @property
    def first(self) -> Table:
        """The first table, the only one that CSV prints."""
        first = next(
            (table for table in (self.recent, *self.totals.values(), self.refusals, self.limits) if table),
            None,
        )
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
        if self.refusals is not None:
            shown["refusals"] = self.refusals.records()
        if self.limits is not None:
            shown["limits"] = self.limits.records()
        return format_json(shown)

    def format_text(self, form: Form, nothing: str) -> str:
        """Return all tables as text, each under its title. ``nothing`` replaces the calls when there are none."""
        parts = list(self._format_parts(form)) if any(table.rows for table in self.totals.values()) else []
        if (self.totals and not parts) or (not self.totals and self.refusals and not self.refusals.rows):
            parts.append(nothing)
        if self.refusals and self.refusals.rows:
            parts.append(f"Refused calls (UTC)\n\n{format_table(self.refusals, form)}")
        if self.limits and self.limits.rows:
            parts.append(f"Limits (UTC)\n\n{_format_limits(self.limits, form)}")
        return "\n\n".join(parts) or "There is no limit."

    def _format_parts(self, form: Form) -> Iterator[str]:
        if self.recent:
            yield f"Recent calls (UTC)\n\n{_format_calls(self.recent, form)}"
        for name, table in self.totals.items():
            shown = format_table(table, form, _TOTALS_OPTIONAL, format_nanousd_rounded)
            yield f"By {name.replace(',', ' and ')}\n\n{shown}"


def _find_limits(conf_file: Path, ledger: sqlite3.Connection, wanted: Filter, most: int | None) -> Table:
    """Return the limits of the wanted workspace and key: those of a key, and those of its whole workspace."""
    settings = load_served_settings(conf_file)
    shown = [
        one
        for one in settings.workspaces.values()
        if wanted.workspace in (None, one.id) and wanted.key in (None, *(key.id for key in one.keys))
    ]
    with open_counters(settings.conf, ledger) as read_used:
        table = find_limits(read_used, shown, datetime.now(UTC))
    key_place = table.columns.index("key_id")
    rows = [row for row in table.rows if wanted.key is None or row[key_place] in (None, wanted.key)]
    return replace(table, rows=rows[:most])


def _try_limits(
    conf_file: Path, ledger: sqlite3.Connection, wanted: Filter, most: int | None
) -> Table | None:
    """Return the limits. On an error print it and return None, so that the calls are still shown."""
    try:
        return _find_limits(conf_file, ledger, wanted, most)
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
