"""The keys of operators' files that people set one by one, and the texts that they type for them.

Commands make options of ``KEY_SETTINGS`` and ``WORKSPACE_SETTINGS``, and the console makes fields of forms.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, get_args

from addon.edits.toml_lines import Value
from addon.text.masking import mask_credentials
from policies.model import Plan, Reset
from policies.money import parse_usd_nanousd

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_WHEN_IS: Final = (
    "must be a length such as 90d, a day such as 2027-01-31, or a moment such as 2027-01-31T12:00:00Z"
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of a file with its option, and its ``label`` in a form.

    ``parse`` is None for a choice or a flag. ``remover`` removes the key. A form shows ``hint`` instead of ``help``,
    if there is one.
    """

    key: str
    option: str
    help: str
    label: str
    metavar: str = ""
    parse: Callable[[str], Value | None] | None = None
    choices: Sequence[str] = ()
    can_repeat: bool = False
    can_remove: bool = True
    hint: str = ""

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


def parse_text(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable")
    if mask_credentials(text) != text:
        raise ValueError("looks like a credential, and would be written into the file")
    return text


def parse_count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or not int(text):
        raise ValueError("must be a whole number from 1 on")
    return int(text)


def parse_usd(text: str) -> str:
    parse_usd_nanousd(text)
    return text


def parse_names(text: str) -> list[str]:
    """Return names separated by commas. Raises ``ValueError`` where there is none: no list would mean all names."""
    names = [name for part in text.split(",") if (name := parse_text(part.strip()))]
    if not names:
        raise ValueError("has no name; an empty text removes the setting")
    return names


def parse_percents(text: str) -> list[int]:
    """Return percentages separated by commas; none for ``none``."""
    if text == "none":
        return []
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,3}", part) for part in parts):
        raise ValueError("must be whole numbers separated by commas, such as 80,95,100, or none")
    return [int(part) for part in parts]


KEY_SETTINGS: Final = (
    Setting("label", "--label", "A note for people, such as the owner.", "Label", "TEXT", parse_text),
    Setting(
        "models",
        "--models",
        "The only models that it may use: slugs, or beginnings of slugs and *. Repeat it, or separate them by commas.",
        "Models",
        "PATTERN",
        parse_names,
        can_repeat=True,
        hint="The only models that it may use, separated by commas: slugs, or beginnings of slugs and *.",
    ),
    Setting(
        "expires_at",
        "--expires",
        "When it ends: 90d, 2027-01-31 or 2027-01-31T12:00:00Z.",
        "Expires",
        "WHEN",
        parse_when,
    ),
    Setting(
        "spend_cap_usd",
        "--spend-cap",
        "The most that its calls may cost in a period.",
        "Spend cap in USD",
        "USD",
        parse_usd,
    ),
    Setting(
        "spend_reset",
        "--spend-reset",
        "When the period of --spend-cap begins again.",
        "Spend cap begins again",
        choices=get_args(Reset),
        can_remove=False,
        hint="When the period of the spend cap begins again.",
    ),
    Setting(
        "request_cap", "--request-cap", "The most requests in a period.", "Request cap", "N", parse_count
    ),
    Setting(
        "request_reset",
        "--request-reset",
        "When the period of --request-cap begins again.",
        "Request cap begins again",
        choices=get_args(Reset),
        can_remove=False,
        hint="When the period of the request cap begins again.",
    ),
    Setting(
        "tpm",
        "--tpm",
        "The most tokens a minute, of prompts and answers.",
        "Tokens a minute",
        "N",
        parse_count,
        hint="The most tokens a minute of its calls, of prompts and answers. If empty: no limit of its own.",
    ),
)
WORKSPACE_SETTINGS: Final = (
    Setting("name", "--name", "The customer's name.", "Name", "TEXT", parse_text, can_remove=False),
    Setting(
        "plan",
        "--plan",
        "The plan.",
        "Plan",
        choices=get_args(Plan),
        can_remove=False,
        hint="standard: the wallet pays for metered calls. pro: they need no wallet. Not set: standard.",
    ),
    Setting(
        "rpm_override",
        "--rpm",
        "Requests a minute, instead of the plan's.",
        "Requests a minute",
        "N",
        parse_count,
        hint="Instead of the limit of the plan. If empty: that limit.",
    ),
    Setting(
        "tpm",
        "--tpm",
        "The most tokens a minute, of prompts and answers.",
        "Tokens a minute",
        "N",
        parse_count,
        hint="The most tokens a minute of all its calls, of prompts and answers. If empty: no limit.",
    ),
    Setting(
        "monthly_spend_cap_usd",
        "--monthly-cap",
        "The most that metered calls may cost in a UTC calendar month.",
        "Monthly cap in USD",
        "USD",
        parse_usd,
        hint="The most that metered calls may cost in a UTC calendar month, such as 250. If empty: no cap.",
    ),
    Setting(
        "default_model",
        "--default-model",
        "The model of calls that name none.",
        "Default model",
        "SLUG",
        parse_text,
        hint="The model of calls that name none. If empty: such calls are refused.",
    ),
    Setting(
        "fallback_model",
        "--fallback-model",
        "The model after a failed call.",
        "Fallback model",
        "SLUG",
        parse_text,
        hint="The model of the next attempts after a failed call with the platform's key. If empty: none.",
    ),
    Setting(
        "context_fallback_model",
        "--context-fallback-model",
        "The model after a prompt that is too long for another.",
        "Model for long prompts",
        "SLUG",
        parse_text,
        hint="The model that a call tries next where its prompt is too long for the first one. If empty: none.",
    ),
    Setting(
        "safety_net",
        "--safety-net",
        "Repeat failed calls with the customer's own key on the platform's.",
        "Safety net",
        hint="Whether a call that fails with the customer's own key is tried again with the platform's. Not set: off.",
    ),
    Setting(
        "alert_at_percent",
        "--alert-at",
        "The used parts of budgets that are worth an alert, in percent: 80,95,100.",
        "Alerts at percent",
        "PERCENTS",
        parse_percents,
        hint=(
            "The used parts of budgets that are worth an alert: 50,90; none for no alert. If empty: 80,95,100."
        ),
    ),
    Setting(
        "hosted_tools",
        "--hosted-tools",
        "The tools that providers may run during its calls: web_search.",
        "Tools of providers",
        "NAMES",
        parse_names,
        hint="The tools that providers may run and charge for, separated by commas: web_search. If empty: none.",
    ),
    Setting(
        "overage_protection",
        "--overage-protection",
        "Hold the money of each call before it is sent.",
        "Overage protection",
        hint="Whether a call's completion is kept so short that no budget is exceeded. Not set: on.",
    ),
)
