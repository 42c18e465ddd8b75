"""``tollgate workspaces push``, ``pull`` and ``diff``: workspace files in the ledger, and a folder for git."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from addon.commands.auditing import CommandRecord, edit_ledger
from addon.commands.errors import report_errors
from addon.commands.options import conf_option
from addon.edits.diff import make_diff
from addon.edits.recording import ChangeRecord, record_of
from addon.edits.shared_files import (
    FileDifference,
    compare,
    find_changed_since,
    read_base,
    read_folder,
    write_base,
)
from addon.edits.usable_keys import find_usable
from addon.edits.workspace_files import EditError, Plan
from addon.fleet.copies import Copies
from addon.fleet.recording import editing
from addon.fleet.tables import FileWrite, read_files
from addon.runtime.atomic_files import write_atomically
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import raise_first
from addon.settings.settings import SettingsFiles, load_conf
from addon.store.backends import find_ledger

_folder = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))


@click.command()
@_folder
@click.option("--force", is_flag=True, help="Overwrite changes of others that DIR has not pulled.")
@conf_option
def push(folder: Path, conf_file: Path, *, force: bool) -> None:
    """Make the workspace files in the ledger those of DIR, all or none. Files that DIR lacks are removed.

    Refused where the ledger has changed since the last pull into DIR.
    """
    with report_errors():
        conf, texts = _load_conf(conf_file), read_folder(folder)
        base = read_base(folder)
        copies = Copies(conf.paths.workspaces)
        record = edit_ledger(conf, "workspaces push", CommandRecord(conf, "workspaces push"))
        with editing(record, copies):
            in_ledger = _read_ledger(conf)
            differences = compare(in_ledger, texts)
            changed = find_changed_since(base, in_ledger)
            lost = [
                one.workspace for one in differences if one.workspace in changed and one.in_ledger is not None
            ]
            if lost and not force:
                raise EditError(
                    f"changed in the ledger since the last pull: {', '.join(lost)}; see tollgate workspaces diff,"
                    " pull, or push with --force"
                )
            _check(conf_file, copies.folder, differences)
            if differences:
                record.commit([_write_of(one) for one in differences], _records(copies.folder, differences))
        with suppress(OSError):
            write_base(folder, texts)
    _echo(differences, "nothing to push: the ledger has these files")


@click.command()
@_folder
@click.option("--force", is_flag=True, help="Overwrite changes in DIR that were not pushed.")
@conf_option
def pull(folder: Path, conf_file: Path, *, force: bool) -> None:
    """Make the workspace files in DIR those of the ledger. Other files stay.

    Refused where a file in DIR has changed since the last pull or push.
    """
    with report_errors():
        in_ledger = _read_ledger(_load_conf(conf_file))
        folder.mkdir(parents=True, exist_ok=True)
        texts = read_folder(folder)
        differences = compare(texts, in_ledger)
        edited = find_changed_since(read_base(folder), texts)
        lost = [one.workspace for one in differences if one.workspace in edited and one.in_ledger is not None]
        if lost and not force:
            raise EditError(
                f"changed in {folder} since the last pull: {', '.join(lost)}; push, or pull with --force"
            )
        for one in differences:
            file = folder / f"{one.workspace}.toml"
            if one.in_folder is None:
                file.unlink(missing_ok=True)
            else:
                write_atomically(file, one.in_folder)
        write_base(folder, in_ledger)
    _echo(differences, f"nothing to pull: {folder} has the files of the ledger")


@click.command()
@_folder
@conf_option
def diff(folder: Path, conf_file: Path) -> None:
    """Show what a push of DIR would change, without secrets. The exit status is 1 if there is a difference."""
    with report_errors():
        differences = compare(_read_ledger(_load_conf(conf_file)), read_folder(folder))
    for one in differences:
        click.echo(f"{one.workspace}.toml: {one.kind}")
        for line in make_diff(one.in_ledger or "", one.in_folder or ""):
            click.echo(f"  {line}")
    if differences:
        raise click.exceptions.Exit(1)


def _load_conf(conf_file: Path) -> ProxyConf:
    conf = load_conf(conf_file)
    if not conf.paths.are_workspaces_in_ledger:
        raise EditError(
            f'the workspace files are in {conf.paths.workspaces}; this needs [paths] workspaces = "ledger"'
        )
    return conf


def _read_ledger(conf: ProxyConf) -> dict[str, str]:
    with find_ledger(conf).read() as ledger:
        return {name: file.text for name, file in read_files(ledger).items()}


def _check(conf_file: Path, folder: Path, differences: Sequence[FileDifference]) -> None:
    """Raise ``SettingsError`` with the errors of the files that would not load."""
    # A file that is removed has no key any more.
    texts = {
        one.workspace: 'name = "removed"\n' if one.in_folder is None else one.in_folder for one in differences
    }
    overlay = {folder / f"{name}.toml": text for name, text in texts.items()}
    files = SettingsFiles(conf_file, overlay=overlay)
    files.load()
    raise_first(error for error in files.errors if error.file in overlay)


def _write_of(one: FileDifference) -> FileWrite:
    return FileWrite(one.workspace, one.in_folder, None if one.in_ledger is None else one.in_ledger.encode())


def _records(folder: Path, differences: Sequence[FileDifference]) -> list[ChangeRecord]:
    """Return the records of a push. A key that moves to another workspace does not end."""
    has = frozenset[str]().union(*(find_usable((one.in_folder or "").encode()) for one in differences))
    records = []
    for one in differences:
        before = None if one.in_ledger is None else one.in_ledger.encode()
        verb = {"added": "Add", "changed": "Change", "removed": "Remove"}[one.kind]
        summary = f"{verb} the workspace {one.workspace}"
        record = record_of(Plan(folder / f"{one.workspace}.toml", before, one.in_folder or "", summary))
        records.append(replace(record, ended=record.ended - has))
    return records


def _echo(differences: Sequence[FileDifference], nothing: str) -> None:
    for one in differences:
        click.echo(f"{one.workspace}.toml: {one.kind}")
    if not differences:
        click.echo(nothing)
