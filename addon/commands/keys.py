"""``tollgate keys``: the API keys of workspaces, edited in the operators' own files.

An edit changes only the lines of the key, and keeps comments and layout. It is written only if the file then loads.
Source: docs/commands.md.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from addon.commands.auditing import record_in
from addon.commands.edit_options import key_options, parse_with
from addon.commands.errors import report_errors, unknown_workspace_error
from addon.commands.options import conf_option, listing_options
from addon.commands.output import Form, echo_table, join_list
from addon.commands.readers import load_served_settings
from addon.edits.keys import create_key, enable_key, rotate_key, set_key
from addon.edits.revocation import revoke_key
from addon.edits.toml_lines import Value, describe_changes, format_value
from addon.edits.typed_settings import parse_length
from addon.edits.workspace_files import ExistingWorkspaceError, UnknownWorkspaceError
from addon.settings.errors import SettingsError
from addon.settings.settings import SettingsFiles
from addon.text.table import Table
from policies.key_models import find_idle_patterns
from policies.model import Key, Workspace
from policies.money import format_nanousd

type Changes = dict[str, Value | None]

COLUMNS = (
    *("workspace", "id", "active", "hash", "spend_cap_usd", "spend_reset", "request_cap", "request_reset"),
    *("tpm", "label", "models", "expires_at", "previous_until"),
)
_SHOWN_COLUMNS = (
    *("workspace", "id", "active", "hash", "spend_cap_usd", "request_cap", "tpm", "label", "models"),
    *("expires_at", "old_secret_until"),
)
"""The columns of a table for people. The cell of a cap has its period, too."""

_PERIODS = {"never": "", "daily": "/day", "weekly": "/week", "monthly": "/month"}


@click.group()
def keys() -> None:
    """Create, change, rotate, list and revoke API keys. A running gateway uses changes within two seconds."""


@keys.command()
@click.argument("workspace")
@click.option("--id", "key_id", help="The key's name in logs and in the ledger.  [default: key-1, key-2, …]")
@click.option("--new", is_flag=True, help="Create the workspace too.")
@click.option(
    "--like", metavar="ID", help="Copy the settings of this key, except for its label. Other options win."
)
@key_options
@conf_option
def create(
    workspace: str, key_id: str | None, new: bool, like: str | None, changes: Changes, conf_file: Path
) -> None:
    """Create a key of WORKSPACE and print it. Only its hash is stored, so it is printed only this once."""
    _require_output()
    with report_errors():
        try:
            made = create_key(
                conf_file,
                workspace,
                key_id,
                changes,
                like=like,
                is_new_workspace=new,
                record=record_in(conf_file, "keys create"),
            )
        except UnknownWorkspaceError as error:
            raise click.ClickException(f"{error} (--new creates one)") from None
        except ExistingWorkspaceError as error:
            raise click.ClickException(f"{error}; leave out --new") from None
    _echo_secret(made.secret, f"the key is made, but lost: tollgate keys revoke {workspace} {made.id}")
    click.echo(f"key {made.id} of workspace {workspace}; it is not stored and not shown again", err=True)
    if new:
        click.echo(f"its wallet pays for its calls: tollgate wallet credit {workspace} USD", err=True)
    _warn_of_idle_patterns(conf_file, workspace, made.id, changes)


@keys.command("set")
@click.argument("workspace")
@click.argument("key_id", metavar="ID")
@key_options
@conf_option
def set_command(workspace: str, key_id: str, changes: Changes, conf_file: Path) -> None:
    """Change settings of the key ID of WORKSPACE. An empty text removes one, as its --no- option does."""
    if not changes:
        raise click.UsageError("name at least one setting to change")
    with report_errors():
        set_key(conf_file, workspace, key_id, changes, record=record_in(conf_file, "keys set"))
    click.echo(f"key {key_id} of workspace {workspace}: {describe_changes(changes)}")
    _warn_of_idle_patterns(conf_file, workspace, key_id, changes)


@keys.command()
@click.argument("workspace")
@click.argument("key_id", metavar="ID")
@click.option(
    "--grace",
    default="24h",
    metavar="LENGTH",
    show_default=True,
    callback=parse_with(parse_length),
    help="How long the old secret goes on working: 30m, 24h, 7d; 0 after a leak.",
)
@conf_option
def rotate(workspace: str, key_id: str, grace: timedelta, conf_file: Path) -> None:
    """Give the key ID of WORKSPACE a new secret and print it. Its caps, counters and name go on."""
    _require_output()
    with report_errors():
        rotation = rotate_key(conf_file, workspace, key_id, grace, record=record_in(conf_file, "keys rotate"))
    _echo_secret(
        rotation.secret, f"the new secret is lost; rotate again: tollgate keys rotate {workspace} {key_id}"
    )
    click.echo(f"key {key_id} of workspace {workspace} has a new secret; it is not shown again", err=True)
    if rotation.old_until is None:
        click.echo(
            "its old secret is refused as soon as the gateway has read the file, within two seconds", err=True
        )
    else:
        click.echo(f"its old secret works until {_show(rotation.old_until)}", err=True)
    if rotation.dropped_until is not None:
        until = _show(rotation.dropped_until)
        click.echo(
            f"the secret before that one, which would have worked until {until}, is refused now", err=True
        )


@keys.command("list")
@click.argument("workspace", required=False)
@listing_options
@conf_option
def list_keys(workspace: str | None, form: Form, conf_file: Path) -> None:
    """List the keys of WORKSPACE, or of all."""
    with report_errors():
        settings = load_served_settings(conf_file)
        if workspace is not None and workspace not in settings.workspaces:
            raise unknown_workspace_error(workspace, settings.workspaces)
    shown = settings.workspaces.values() if workspace is None else [settings.workspaces[workspace]]
    rows = [_make_row(owner, key) for owner in shown for key in owner.keys]
    if form == "json":
        echo_table(Table(COLUMNS, rows), form, "")
    elif form == "csv":
        echo_table(Table(COLUMNS, [_join_models(row) for row in rows]), form, "")
    else:
        table = Table(_SHOWN_COLUMNS, [_make_shown_row(row) for row in rows])
        echo_table(table, form, "no keys", ["hash"], missing="-")


@keys.command()
@click.argument("workspace")
@click.argument("key_id", metavar="ID")
@conf_option
def revoke(workspace: str, key_id: str, conf_file: Path) -> None:
    """Turn off the key ID of WORKSPACE. The key stays in the file, because the ledger refers to its name."""
    with report_errors():
        record = record_in(conf_file, "keys revoke", must_not_stop=True)
        if warning := revoke_key(conf_file, workspace, key_id, record=record):
            click.echo(warning, err=True)
    click.echo(f"key {key_id} of workspace {workspace} is revoked")


@keys.command()
@click.argument("workspace")
@click.argument("key_id", metavar="ID")
@conf_option
def enable(workspace: str, key_id: str, conf_file: Path) -> None:
    """Turn on the key ID of WORKSPACE again, and take back its revocation on all machines."""
    with report_errors():
        enable_key(conf_file, workspace, key_id, record=record_in(conf_file, "keys enable"))
    click.echo(f"key {key_id} of workspace {workspace} is turned on")


def _require_output() -> None:
    if sys.stdout is None:
        raise click.ClickException("standard output is closed, so the key could not be shown")


def _echo_secret(secret: str, what_to_do: str) -> None:
    """Print a secret that is stored nowhere. Raise ``ClickException`` when it can't be printed."""
    try:
        click.echo(secret)
    except OSError as error:
        raise click.ClickException(f"standard output: {error.strerror}; {what_to_do}") from None


def _warn_of_idle_patterns(conf_file: Path, workspace: str, key_id: str, changes: Changes) -> None:
    """Name new patterns that allow no model. They are no error: the catalog may get the model later."""
    if not changes.get("models"):
        return
    try:
        settings = SettingsFiles(conf_file).load()
    except SettingsError:
        return  # The edit is made. Other programs may have broken a file since then.
    if owner := settings.workspaces.get(workspace):
        edited = [key for key in owner.keys if key.id == key_id]
        idle = [pattern for key in edited for pattern in find_idle_patterns(key, owner, settings.models)]
        for pattern in idle:
            click.echo(f"warning: {pattern} matches no model of the catalog", err=True)


def _make_row(owner: Workspace, key: Key) -> list[Any]:
    """Return the values of ``COLUMNS``."""
    cap, until = key.spend_cap_nanousd, key.previous_until
    return [
        owner.id,
        key.id,
        key.active,
        key.hash[:8],
        None if cap is None else format_nanousd(cap),
        None if cap is None else key.spend_reset,
        key.request_cap,
        None if key.request_cap is None else key.request_reset,
        key.tpm,
        key.label,
        None if key.models is None else list(key.models.patterns),
        None if key.expires_at is None else _show(key.expires_at),
        # The lines of a secret that has ended may stay in the file.
        None if until is None or until <= datetime.now(UTC) else _show(until),
    ]


def _make_shown_row(row: Sequence[Any]) -> list[Any]:
    """Return the cells of ``_SHOWN_COLUMNS`` for the values of ``COLUMNS``."""
    *name, spend_cap, spend_reset, request_cap, request_reset, tpm, label, models, expires_at, until = (
        _join_models(row)
    )
    caps = [_show_cap(spend_cap, spend_reset), _show_cap(request_cap, request_reset)]
    # A day is enough for the end of a key; a grace time is often shorter.
    day, minute = expires_at and expires_at[:10], until and until[:16].replace("T", " ")
    return [*name, *caps, tpm, label, models, day, minute]


def _show_cap(cap: object, reset: str | None) -> str | None:
    if cap is None:
        return None
    return f"{cap}{_PERIODS[reset or 'never']}"


def _join_models(row: Sequence[Any]) -> list[Any]:
    return [join_list(value) for value in row]


def _show(moment: datetime) -> str:
    return format_value(moment)
