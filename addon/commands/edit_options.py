"""The options that set keys of operators' files, and the texts that they take.

``key_options`` and ``workspace_options`` give a command one argument ``changes``: new values by the file's own keys,
None where an option removes one.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import wraps
from typing import Any, Final, get_args

import click

from addon.edits.toml_lines import Value
from addon.text.masking import mask_credentials
from policies.model import Plan, Reset
from policies.money import parse_usd_nanousd

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_WHEN_IS: Final = (
    "must be a length such as 90d, a day such as 2027-01-31, or a moment such as 2027-01-31T12:00:00Z"
)


@dataclass(frozen=True, slots=True)
class _Setting:
    """One key of a file with its option. ``parse`` is None for a choice or a flag. ``remover`` removes the key."""

    key: str
    option: str
    help: str
    metavar: str = ""
    parse: Callable[[str], Value | None] | None = None
    choices: Sequence[str] = ()
    can_repeat: bool = False
    can_remove: bool = True

    @property
    def remover(self) -> str:
        return f"--no-{self.option.removeprefix('--')}"


def parse_length(text: str) -> timedelta:
    """Return a length such as ``24h``, ``90d`` or ``0``. Raises ``ValueError``."""
    match = re.fullmatch(r"0|([0-9]{1,6})([smhdw])", text)
    if match is None:
        raise ValueError("must be a length such as 30m, 24h or 7d, or 0")
    return timedelta(**{_UNITS[match[2]]: int(match[1])}) if match[2] else timedelta(0)


def parse_when(text: str) -> datetime:
    """Return the moment of a length from now, of the beginning of a day in UTC, or of a moment with its offset.

    Raises ``ValueError``.
    """
    if re.fullmatch(r"[0-9]{1,6}[smhdw]", text):
        try:
            return (datetime.now(UTC) + parse_length(text)).replace(microsecond=0)
        except OverflowError:
            raise ValueError("is too long") from None
    try:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(_WHEN_IS) from None
    if moment.tzinfo is None:
        raise ValueError("must have an offset from UTC: add Z, or one such as +02:00")
    try:
        return moment.astimezone(UTC).replace(microsecond=0)
    except OverflowError:
        raise ValueError(_WHEN_IS) from None


def _parse_text(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable")
    if mask_credentials(text) != text:
        raise ValueError("looks like a credential, and would be written into the file")
    return text


def _parse_count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or not int(text):
        raise ValueError("must be a whole number from 1 on")
    return int(text)


def _parse_usd(text: str) -> str:
    parse_usd_nanousd(text)
    return text


def _parse_names(text: str) -> list[str] | None:
    return [name for part in text.split(",") if (name := _parse_text(part.strip()))] or None


def _parse_percents(text: str) -> list[int]:
    """Return percentages separated by commas; none for ``none``."""
    if text == "none":
        return []
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,3}", part) for part in parts):
        raise ValueError("must be whole numbers separated by commas, such as 80,95,100, or none")
    return [int(part) for part in parts]


_KEY_SETTINGS: Final = (
    _Setting("label", "--label", "A note for people, such as the owner.", "TEXT", _parse_text),
    _Setting(
        "models",
        "--models",
        "The only models that it may use: slugs, or beginnings of slugs and *. Repeat it, or separate them by commas.",
        "PATTERN",
        _parse_names,
        can_repeat=True,
    ),
    _Setting(
        "expires_at",
        "--expires",
        "When it ends: 90d, 2027-01-31 or 2027-01-31T12:00:00Z.",
        "WHEN",
        parse_when,
    ),
    _Setting(
        "spend_cap_usd", "--spend-cap", "The most that its calls may cost in a period.", "USD", _parse_usd
    ),
    _Setting(
        "spend_reset",
        "--spend-reset",
        "When the period of --spend-cap begins again.",
        choices=get_args(Reset),
        can_remove=False,
    ),
    _Setting("request_cap", "--request-cap", "The most requests in a period.", "N", _parse_count),
    _Setting(
        "request_reset",
        "--request-reset",
        "When the period of --request-cap begins again.",
        choices=get_args(Reset),
        can_remove=False,
    ),
)
_WORKSPACE_SETTINGS: Final = (
    _Setting("name", "--name", "The customer's name.", "TEXT", _parse_text, can_remove=False),
    _Setting("plan", "--plan", "The plan.", choices=get_args(Plan), can_remove=False),
    _Setting("rpm_override", "--rpm", "Requests a minute, instead of the plan's.", "N", _parse_count),
    _Setting(
        "monthly_spend_cap_usd",
        "--monthly-cap",
        "The most that metered calls may cost in a UTC calendar month.",
        "USD",
        _parse_usd,
    ),
    _Setting("default_model", "--default-model", "The model of calls that name none.", "SLUG", _parse_text),
    _Setting("fallback_model", "--fallback-model", "The model after a failed call.", "SLUG", _parse_text),
    _Setting(
        "safety_net", "--safety-net", "Repeat failed calls with the customer's own key on the platform's."
    ),
    _Setting(
        "alert_at_percent",
        "--alert-at",
        "The used parts of budgets that are worth an alert, in percent: 80,95,100.",
        "PERCENTS",
        _parse_percents,
    ),
    _Setting("overage_protection", "--overage-protection", "Hold the money of each call before it is sent."),
)


def key_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of ``[[keys]]``."""
    return _add_options(command, _KEY_SETTINGS)


def workspace_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a workspace file's top level."""
    return _add_options(command, _WORKSPACE_SETTINGS)


def name_options(changes: dict[str, Value | None]) -> str:
    """Return what changes did, in the file's own keys: ``label, models set; expires_at removed``."""
    given = [key for key, value in changes.items() if value is not None]
    removed = [key for key, value in changes.items() if value is None]
    parts = [f"{', '.join(given)} set"] * bool(given) + [f"{', '.join(removed)} removed"] * bool(removed)
    return "; ".join(parts)


def _add_options(command: Callable[..., None], settings: Sequence[_Setting]) -> Callable[..., None]:
    @wraps(command)
    def with_changes(*args: Any, **options: Any) -> None:
        changes: dict[str, Value | None] = {}
        for one in settings:
            value, is_removed = options.pop(one.key), options.pop(f"no_{one.key}", False)
            if one.can_repeat and value is not None:
                value = [name for names in value for name in names or ()]
            if value is not None and is_removed:
                raise click.UsageError(f"use either {one.option} or {one.remover}")
            if value is not None or is_removed:
                # An empty text removes a key too.
                is_empty = value == "" or (one.can_repeat and not value)
                changes[one.key] = None if is_removed or is_empty else value
        command(*args, changes=changes, **options)

    wrapped: Callable[..., None] = with_changes
    for one in reversed(settings):
        wrapped = _add_option(wrapped, one)
    return wrapped


def _add_option(command: Callable[..., None], setting: _Setting) -> Callable[..., None]:
    if setting.choices:
        kind = click.Choice(list(setting.choices))
        return click.option(setting.option, setting.key, type=kind, help=setting.help)(command)
    if setting.parse is None:
        names = f"{setting.option}/{setting.remover}"
        return click.option(names, setting.key, default=None, help=setting.help)(command)
    if setting.can_remove:
        remove = click.option(
            setting.remover, f"no_{setting.key}", is_flag=True, help=f"Remove {setting.key}."
        )
        command = remove(command)
    return click.option(
        setting.option,
        setting.key,
        metavar=setting.metavar,
        multiple=setting.can_repeat,
        default=None,
        callback=parse_with(setting.parse),
        help=setting.help,
    )(command)


def parse_with(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback that parses the text of an option. An empty text stays as it is."""

    def convert(text: str, context: click.Context, option: click.Parameter) -> Any:
        try:
            return parse(text) if text else text
        except ValueError as error:
            raise click.BadParameter(str(error), context, option) from None

    def callback(context: click.Context, option: click.Parameter, given: Any) -> Any:
        if isinstance(given, tuple):
            return [convert(text, context, option) for text in given] if given else None
        return None if given is None else convert(given, context, option)

    return callback
