"""``tollgate secrets``: master keys, and the sealed secrets in operators' files.

Neither a secret nor a master key is ever an argument. A rotation changes only the sealed values, in all files or in
none. Source: docs/commands.md.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path
from typing import Any, Final

import click

from addon.commands.auditing import record_in
from addon.commands.errors import report_errors
from addon.commands.options import conf_option
from addon.edits.recording import ChangeRecord, Record, file_evidence
from addon.runtime.folder_lock import locked
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import SettingsError, join_key_path
from addon.settings.file_content import parse_toml
from addon.settings.sealed_secrets import SCHEME, MasterKeys, make_master_key
from addon.settings.secrets import load_master_keys
from addon.settings.shared_settings import load_conf
from addon.settings.sources import Sources
from addon.settings.validation import validate
from addon.text.toml import load_toml

_MAX_SECRET_BYTES: Final = 1 << 20


@click.group()
def secrets() -> None:
    """Make master keys, seal secrets with them, and seal secrets again with a newer key."""


@secrets.command()
def key() -> None:
    """Print a new master key. It is not stored."""
    click.echo(make_master_key())
    click.echo(
        "keep it away from the files with the sealed secrets; without it no one can open them", err=True
    )


@secrets.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
@conf_option
@click.pass_context
def seal(context: click.Context, conf_file: Path) -> None:
    """Read a secret from standard input and print it sealed with the first master key."""
    if context.args:
        # Click's own error would show the arguments, and one may be the secret.
        raise click.UsageError("a secret is read from standard input, never from the command line")
    master_keys = _load_master_keys(conf_file)
    secret = _read_secret()
    if not secret:
        raise click.ClickException("standard input holds no secret")
    click.echo(SCHEME + master_keys.seal(secret))


@secrets.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--check", is_flag=True, help="Write nothing; exit with status 1 if there is a secret to seal again."
)
@conf_option
def rotate(files: tuple[Path, ...], conf_file: Path, *, check: bool) -> None:
    """Seal all secrets of workspace files, or of providers.toml, again with the first master key.

    Secrets that this key already opens do not change. Nothing is written if any secret can't be opened. The audit log
    is in the ledger of the configuration.
    """
    master_keys = _load_master_keys(conf_file)
    with report_errors():
        # Before the folders are locked: in a fleet it first brings the copies of workspace files.
        record = None if check else record_in(conf_file, "secrets rotate")
    with report_errors(), _lock_folders(files):
        # By its resolved path, a file with two names is rotated once.
        rotations = [
            rotate_secrets(file, Sources().read_text(file), master_keys)
            for file in {f.resolve(): f for f in files}.values()
        ]
        if record:
            _write([one for one in rotations if one.changed], conf_file, record)
    for one in rotations:
        click.echo(
            f"{one.file}: {one.changed} of {one.found} sealed secrets {'to seal' if check else 'sealed'} again"
        )
    if check and any(one.changed for one in rotations):
        raise click.exceptions.Exit(1)


def _write(rotations: Sequence["Rotation"], conf_file: Path, record: Record) -> None:
    """Write the files. Each has its line in the audit log, without any secret, also not a sealed one."""
    folder = load_conf(conf_file).paths.workspaces
    for one in rotations:
        text = f"Seal {one.changed} secrets of {one.file} again with the first master key"
        evidence = file_evidence(one.file, one.before.encode(), one.text)
        is_workspace = one.file.parent.resolve() == folder.resolve()
        with record(ChangeRecord(text, evidence, one.file.stem if is_workspace else "")) as recording:
            recording.write(one.file, one.text, one.before.encode())


@dataclass(frozen=True, slots=True)
class Rotation:
    """The new text of a file, and its numbers of changed and of all sealed secrets."""

    file: Path
    before: str
    text: str
    changed: int
    found: int


def rotate_secrets(file: Path, text: str, master_keys: MasterKeys) -> Rotation:
    """Seal the secrets in a file's text again where the first master key does not open them.

    Raises ``SettingsError``.
    """
    table = parse_toml(text.encode(), file)
    before, fresh = text, dict[str, str]()
    olds = []
    for place, name, path in _find_sealed(table):
        old = place[name].removeprefix(SCHEME)
        try:
            fresh[old] = fresh.get(old) or master_keys.reseal(old)
        except ValueError as error:
            raise SettingsError(file, path, str(error)) from None
        olds.append(old)
        place[name] = SCHEME + fresh[old]
    for old, new in fresh.items():
        text = _replace_token(text, old, new)
    changed = sum(fresh[old] != old for old in olds)
    if changed and load_toml(text) != table:
        raise SettingsError(
            file, "", "can't be edited in place; write each sealed secret as one plain string"
        )
    return Rotation(file, before, text, changed, len(olds))


def _find_sealed(place: Any, *path: str | int) -> Iterator[tuple[Any, str | int, str]]:
    """Return each sealed secret within a table or array: its container, its key or index there, and its dotted key."""
    for name, value in place.items() if isinstance(place, dict) else enumerate(place):
        if isinstance(value, str) and value.startswith(SCHEME):
            yield place, name, join_key_path(*path, name)
        elif isinstance(value, dict | list):
            yield from _find_sealed(value, *path, name)


def _replace_token(text: str, old: str, new: str) -> str:
    """Replace a token in each value. A replacement that changes no value is in a comment, so leave it out."""
    at = text.find(old)
    while at >= 0:
        edited = text[:at] + new + text[at + len(old) :]
        if load_toml(edited) != load_toml(text):
            text = edited
        at = text.find(old, at + 1)
    return text


@contextmanager
def _lock_folders(files: Iterable[Path]) -> Iterator[None]:
    """Lock the folders of the files against other writers, always in the same order."""
    with ExitStack() as locks:
        for folder in sorted({file.parent.resolve() for file in files}):
            locks.enter_context(locked(folder))
        yield


def _load_master_keys(conf_file: Path) -> MasterKeys:
    """Return the master keys that the gateway of ``conf_file`` has. They may be set where there is no such file."""
    try:
        paths = load_conf(conf_file.absolute()).paths
    except SettingsError:
        paths = validate(ProxyConf, conf_file.absolute(), {}).paths
    try:
        return load_master_keys(os.environ, Sources(), paths.master_keys)
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def _read_secret() -> str:
    if sys.stdin is None:
        raise click.ClickException("standard input is closed")
    if sys.stdin.isatty():
        return getpass("secret (not shown): ").strip()
    try:
        content = sys.stdin.buffer.read(_MAX_SECRET_BYTES + 1)
        if len(content) > _MAX_SECRET_BYTES:
            raise click.ClickException(f"standard input has more than {_MAX_SECRET_BYTES} bytes")
        return content.decode().strip()
    except UnicodeDecodeError:
        raise click.ClickException("standard input is not UTF-8") from None
