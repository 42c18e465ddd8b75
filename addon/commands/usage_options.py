"""The options of ``tollgate usage``: parse their values, and check that they make sense together."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from addon.commands.fleet_copies import refresh_copies
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import SettingsError, shorten_name, suggest_name
from addon.settings.settings import Settings, SettingsFiles
from addon.settings.sources import Sources
from addon.store.money.ledger import Ledger
from addon.store.money.reports.call_filter import FAILED, Filter, is_status
from addon.store.money.reports.names import find_names
from addon.store.money.reports.totals import GROUPS
from addon.store.protocol import StoreUnavailable
from policies.tags import TAG, TAG_NAME_IS, is_tag

LIMITS: Final = "limits"
REFUSALS: Final = "refusals"
BUDGETS: Final = "budgets"
"""Values of ``--by`` that are not a name of ``GROUPS``."""
_TABLES: Final = (LIMITS, BUDGETS, REFUSALS)

_UNITS = MappingProxyType({"m": "minutes", "h": "hours", "d": "days", "w": "weeks"})


def parse_moment(text: str, now: datetime) -> datetime:
    """Return the moment in UTC. A date is its first moment; a text without a time zone is UTC.

    Raises ValueError or OverflowError when ``text`` is neither ISO 8601 nor a length of time before ``now``.
    """
    if ago := re.fullmatch(r"([0-9]{1,9})([mhdw])", text):
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def parse_moment_option(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Return the moment in the format of the ledger's ``created_at``, so that both compare as text."""
    try:
        return text and parse_moment(text, datetime.now(UTC)).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a date (2026-01-31), moment (2026-01-31T09:30) or time ago (90m 12h 7d 2w)",
            context,
            option,
        ) from None


def parse_by_option(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Return one or two of ``GROUPS`` or tags, separated by a comma, or ``LIMITS``, ``BUDGETS`` or ``REFUSALS``."""
    if text is None or text in _TABLES:
        return text
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if part in _TABLES:
            raise click.BadParameter(f'"{part}" takes no second name', context, option)
        if part.startswith(TAG) and not is_tag(part):
            raise click.BadParameter(
                f"the name of a tag has {TAG_NAME_IS}",
                context,
                option,
            )
        if part not in GROUPS and not is_tag(part):
            known = [*GROUPS, *_TABLES] if len(parts) == 1 else GROUPS
            raise click.BadParameter(
                f'unknown "{shorten_name(part)}"{suggest_name(part, known)}', context, option
            )
    if len(parts) > 2 or len(set(parts)) < len(parts):
        raise click.BadParameter("it takes one name, or two different ones", context, option)
    return ",".join(parts)


def complete_by_option(context: click.Context, option: click.Parameter, text: str) -> list[str]:  # noqa: ARG001
    """Return the values of ``--by`` that begin with ``text``."""
    first, comma, begun = text.rpartition(",")
    names = [name for name in GROUPS if name != first] if comma else [*GROUPS, *_TABLES]
    return [first + comma + name for name in names if name.startswith(begun)]


def parse_status_option(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    if text is None or is_status(text):
        return text
    raise click.BadParameter(f"{text!r} is not a status (429), a class (4xx) or {FAILED!r}", context, option)


def check_filters(by: str | None, wanted: Filter) -> None:
    """Refuse filters that do not apply to what is asked for, or that no call can pass."""
    if wanted.since and wanted.until and wanted.since > wanted.until:
        raise click.UsageError("--since is after --until, so no call can match")
    if by in (LIMITS, BUDGETS) and (wanted.selects_sent_calls or wanted.api or wanted.since or wanted.until):
        raise click.UsageError(
            f"{by} are those of the current periods:"
            " no --model, --provider, --deployment, --status, --mode, --api, --since or --until"
        )
    if by == BUDGETS and wanted.key:
        raise click.UsageError("budgets are of users and tags, with any key: no --key")
    if by == REFUSALS and wanted.selects_sent_calls:
        raise click.UsageError(
            "refused calls were not sent: no --model, --provider, --deployment, --status or --mode"
        )


def check_names(conf_file: Path, conf: ProxyConf, ledger: Ledger, wanted: Filter) -> None:
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
            raise click.ClickException(f'unknown {kind} "{shorten_name(name)}"{suggest_name(name, known)}')


def _find_configured(conf_file: Path, conf: ProxyConf, kind: str, workspace: str | None) -> set[str]:
    """Return the names that the settings have, none when they do not load."""
    if conf.paths.are_workspaces_in_ledger:
        with suppress(StoreUnavailable):  # Then there are no copies, and no names.
            refresh_copies(conf)
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
