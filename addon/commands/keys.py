"""``tollgate keys``: the API keys of workspaces, edited in the operators' own files.

An edit changes only the lines of the key, and keeps comments and layout. A new key is written only if the file then
loads. Source: docs/commands.md.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from addon.commands.errors import report_errors, unknown_workspace_error
from addon.commands.key_edits import add_key
from addon.commands.options import conf_option, json_option
from addon.commands.output import format_json
from addon.commands.readers import load_served_settings
from addon.commands.revocation import find_problem, revoke_key
from addon.runtime.atomic_files import write_atomically
from addon.runtime.folder_lock import locked
from addon.settings.api_keys import hash_key, make_key
from addon.settings.file_content import parse_toml
from addon.settings.settings import load_conf
from addon.settings.sources import Sources
from addon.settings.validation import validate
from addon.settings.value_types import NAME, NAME_IS
from addon.settings.workspace_schema import WorkspaceTable
from policies.model import Key, Workspace
from policies.money import format_nanousd

_NEW_WORKSPACE = 'name = "{name}"\noverage_protection = true\n'


@click.group()
def keys() -> None:
    """Create, list and revoke API keys. Changes take effect in a running gateway within two seconds."""


@keys.command()
@click.argument("workspace")
@click.option("--id", "key_id", help="The key's name in logs and in the ledger.  [default: key-1, key-2, …]")
@click.option("--new", is_flag=True, help="Create the workspace too.")
@conf_option
def create(workspace: str, key_id: str | None, new: bool, conf_file: Path) -> None:
    """Create a key of WORKSPACE and print it. Only its hash is stored, so it is printed only this once."""
    key = make_key()
    with _lock_workspaces(conf_file) as folder:
        file = (
            _make_file_path(folder, workspace)
            if new
            else _find_file(folder, workspace, " (--new creates one)")
        )
        text = _NEW_WORKSPACE.format(name=workspace) if new else Sources().read_text(file)
        key_id = _choose_id(file, text, key_id)
        _write_if_it_loads(conf_file, file, add_key(text, key_id, hash_key(key)))
    click.echo(key)
    click.echo(f"key {key_id} of workspace {workspace}; it is not stored and not shown again", err=True)
    if new:
        click.echo(f"its wallet pays for its calls: tollgate wallet credit {workspace} USD", err=True)


@keys.command("list")
@click.argument("workspace", required=False)
@json_option
@conf_option
def list_keys(workspace: str | None, as_json: bool, conf_file: Path) -> None:
    """List the keys of WORKSPACE, or of all."""
    with report_errors():
        settings = load_served_settings(conf_file)
        if workspace is not None and workspace not in settings.workspaces:
            raise unknown_workspace_error(workspace, settings.workspaces)
    shown = settings.workspaces.values() if workspace is None else [settings.workspaces[workspace]]
    rows = [_make_row(owner, key) for owner in shown for key in owner.keys]
    if as_json:
        click.echo(format_json(rows))
    elif rows:
        # Every cell is text. Without the option a hash such as 12e45678 would be printed as a number.
        click.echo(tabulate(rows, headers="keys", disable_numparse=True, missingval="-"))
    else:
        click.echo("no keys")


@keys.command()
@click.argument("workspace")
@click.argument("key_id", metavar="ID")
@conf_option
def revoke(workspace: str, key_id: str, conf_file: Path) -> None:
    """Turn off the key ID of WORKSPACE. The key stays in the file, because the ledger refers to its name."""
    with _lock_workspaces(conf_file) as folder:
        file = _find_file(folder, workspace)
        if warning := revoke_key(conf_file, file, key_id):
            click.echo(warning, err=True)
    click.echo(f"key {key_id} of workspace {workspace} is revoked")


@contextmanager
def _lock_workspaces(conf_file: Path) -> Iterator[Path]:
    """Lock the workspaces folder against other writers and return it."""
    with report_errors():
        folder = load_conf(conf_file).paths.workspaces
        with locked(folder):
            try:
                yield folder
            except ValueError as error:
                raise click.ClickException(f"the workspace file {error}") from None


def _find_file(folder: Path, workspace: str, hint: str = "") -> Path:
    files = {file.stem: file for file in Sources().list_toml(folder)}
    if workspace not in files:
        raise unknown_workspace_error(workspace, files, hint)
    return files[workspace]


def _make_file_path(folder: Path, workspace: str) -> Path:
    if workspace in (file.stem for file in Sources().list_toml(folder)):
        raise click.ClickException(f'workspace "{workspace}" already exists; leave out --new')
    _check_name(workspace, "a workspace")
    return folder / f"{workspace}.toml"


def _check_name(name: str, noun: str) -> None:
    if not NAME.fullmatch(name):
        raise click.ClickException(f'"{name}" can\'t name {noun}: it must be {NAME_IS}')


def _read_key_ids(file: Path, text: str) -> list[str]:
    table = parse_toml(text.encode(), file)
    return [key.id for key in validate(WorkspaceTable, file, table).keys]


def _choose_id(file: Path, text: str, key_id: str | None) -> str:
    taken = _read_key_ids(file, text)
    if key_id is None:
        return next(name for number in count(1) if (name := f"key-{number}") not in taken)
    _check_name(key_id, "a key")
    if key_id in taken:
        raise click.ClickException(f'workspace {file.stem} already has a key "{key_id}"; choose another --id')
    return key_id


def _write_if_it_loads(conf_file: Path, file: Path, text: str) -> None:
    if problem := find_problem(conf_file, file, text):
        raise problem.error
    write_atomically(file, text)


def _make_row(owner: Workspace, key: Key) -> dict[str, Any]:
    cap = key.spend_cap_nanousd
    return {
        "workspace": owner.id,
        "id": key.id,
        "active": key.active,
        "hash": key.hash[:8],
        "spend_cap_usd": None if cap is None else format_nanousd(cap),
        "spend_reset": None if cap is None else key.spend_reset,
        "request_cap": key.request_cap,
        "request_reset": None if key.request_cap is None else key.request_reset,
    }
