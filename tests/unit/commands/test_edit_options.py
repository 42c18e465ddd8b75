"""The texts that options of ``keys`` and ``workspaces`` take."""

from datetime import UTC, datetime, timedelta

import click
import pytest
from click.testing import CliRunner, Result

from addon.commands.edit_options import key_options, workspace_options
from addon.edits.toml_lines import describe_changes
from addon.edits.typed_settings import parse_length, parse_when


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("0", timedelta(0)),
        ("0h", timedelta(0)),
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("24h", timedelta(hours=24)),
        ("90d", timedelta(days=90)),
        ("2w", timedelta(weeks=2)),
    ],
)
def test_a_length(text: str, length: timedelta) -> None:
    assert parse_length(text) == length


@pytest.mark.parametrize("text", ["", "1", "h", "-1h", "1.5h", "1 h", "1y", "1M", "1h30m", "9999999d", "١h"])
def test_no_length(text: str) -> None:
    with pytest.raises(ValueError, match="must be a length such as 30m"):
        parse_length(text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
        ("2027-01-31T12:00:00Z", datetime(2027, 1, 31, 12, tzinfo=UTC)),
        ("2027-01-31 12:00:00+02:00", datetime(2027, 1, 31, 10, tzinfo=UTC)),
        ("2027-01-31T12:00:00.5Z", datetime(2027, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_a_moment(text: str, moment: datetime) -> None:
    assert parse_when(text) == moment


def test_a_moment_as_a_length_from_now() -> None:
    before = datetime.now(UTC)
    found = parse_when("90d")
    assert before - timedelta(seconds=1) <= found - timedelta(days=90) <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tomorrow", "must be a length such as 90d, a day"),
        ("2027-02-30", "must be a length such as 90d, a day"),
        ("2027-01-31T12:00:00", "must have an offset from UTC"),
        ("999999w", "is too long"),
        ("0001-01-01T00:00:00+12:00", "must be a length such as 90d, a day"),
    ],
)
def test_no_moment(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_when(text)


@click.command()
@key_options
def of_key(changes: dict[str, object]) -> None:
    click.echo(repr(changes))


@click.command()
@workspace_options
def of_workspace(changes: dict[str, object]) -> None:
    click.echo(repr(changes))


def run(command: click.Command, *words: str) -> Result:
    return CliRunner().invoke(command, words)


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ((), {}),
        (("--label", "a b"), {"label": "a b"}),
        (("--label", ""), {"label": None}),
        (("--no-label",), {"label": None}),
        (("--models", "a*, b", "--models", "c"), {"models": ["a*", "b", "c"]}),
        (("--models", ""), {"models": None}),
        (("--no-models",), {"models": None}),
        (
            ("--spend-cap", "20.5", "--spend-reset", "weekly"),
            {"spend_cap_usd": "20.5", "spend_reset": "weekly"},
        ),
        (("--no-spend-cap", "--request-cap", "7"), {"spend_cap_usd": None, "request_cap": 7}),
        (("--request-cap", ""), {"request_cap": None}),
        (("--tpm", "5000"), {"tpm": 5000}),
        (("--no-tpm",), {"tpm": None}),
        (("--expires", ""), {"expires_at": None}),
    ],
)
def test_the_changes_of_a_key(words: tuple[str, ...], changes: dict[str, object]) -> None:
    assert run(of_key, *words).stdout == f"{changes!r}\n"


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ((), {}),
        (("--safety-net",), {"safety_net": True}),
        (("--no-safety-net",), {"safety_net": False}),
        (("--no-overage-protection", "--plan", "pro"), {"plan": "pro", "overage_protection": False}),
        (("--rpm", "6", "--no-monthly-cap"), {"rpm_override": 6, "monthly_spend_cap_usd": None}),
        (("--tpm", "200000", "--no-rpm"), {"rpm_override": None, "tpm": 200_000}),
        (("--default-model", ""), {"default_model": None}),
        (("--alert-at", "80, 100"), {"alert_at_percent": [80, 100]}),
        (("--alert-at", "none"), {"alert_at_percent": []}),
        (("--alert-at", ""), {"alert_at_percent": None}),
        (("--no-alert-at",), {"alert_at_percent": None}),
    ],
)
def test_the_changes_of_a_workspace(words: tuple[str, ...], changes: dict[str, object]) -> None:
    assert run(of_workspace, *words).stdout == f"{changes!r}\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--label", "a", "--no-label"), "use either --label or --no-label"),
        (("--spend-cap", "much"), "Invalid value for '--spend-cap'"),
        (("--spend-reset", "yearly"), "Invalid value for '--spend-reset'"),
        (("--request-cap", "0"), "must be a whole number from 1 on"),
        (("--expires", "soon"), "Invalid value for '--expires'"),
        (("--label", "a\nb"), "must be printable"),
        (("--models", "a,\x1b[1m"), "must be printable"),
        (("--models", ","), "Invalid value for '--models': has no name; an empty text removes the setting"),
        (("--models", " , "), "Invalid value for '--models': has no name"),
        (("--models", "a", "--models", " "), "Invalid value for '--models': has no name"),
    ],
)
def test_a_wrong_option_is_named(words: tuple[str, ...], reason: str) -> None:
    result = run(of_key, *words)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_a_change_is_named_by_the_keys_of_the_file() -> None:
    assert (
        describe_changes({"label": "x", "models": None, "request_cap": 1})
        == "label, request_cap set; models removed"
    )
    assert describe_changes({"models": None}) == "models removed"
