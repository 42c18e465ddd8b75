"""``tollgate secrets``: master keys, and the secrets that stand sealed in the operators' own files.

Neither a secret nor a master key is ever an argument. A rotation changes the sealed values and no other byte, in all
the files or in none. Source: docs/commands.md.
"""

import os
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path
from typing import Any

import click

from addon.commands.errors import report_errors
from addon.runtime.atomic_files import write_atomically
from addon.runtime.folder_lock import locked
from addon.settings.errors import SettingsError, join_key_path
from addon.settings.sealed_secrets import SCHEME, MasterKeys, new_master_key
from addon.settings.secrets import load_master_keys
from addon.settings.sources import Sources


@click.group()
def secrets() -> None:
    """Make master keys, seal secrets with them, and seal them anew with a newer one."""


@secrets.command()
def key() -> None:
    """Print a new master key. It is stored nowhere else."""
    click.echo(new_master_key())
    click.echo("keep it apart from the files that it seals; without it they can't be opened", err=True)


@secrets.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
@click.pass_context
def seal(context: click.Context) -> None:
    """Read a secret from standard input and print it sealed with the first master key."""
    if context.args:
        # Click would show them, and one may be the secret.
        raise click.UsageError("a secret is read from standard input, never from the command line")
    master_keys = _master_keys()
    secret = _read_secret()
    if not secret:
        raise click.ClickException("standard input holds no secret")
    click.echo(SCHEME + master_keys.seal(secret))


@secrets.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Write nothing; status 1 where a secret waits for its new seal.")
def rotate(files: tuple[Path, ...], check: bool) -> None:
    """Seal every sealed secret of workspace files, or of providers.toml, anew with the first master key.

    Those that it opens already stay as they are. Nothing is written where one can't be opened.
    """
    master_keys = _master_keys()
    with report_errors(), _held(files):
        # One file under two names is one file.
        rotations = [
            rotated(file, Sources().read_text(file), master_keys)
            for file in {f.resolve(): f for f in files}.values()
        ]
        for one in rotations:
            if one.changed and not check:
                write_atomically(one.file, one.text)
    for one in rotations:
        click.echo(
            f"{one.file}: {one.changed} of {one.found} sealed secrets {'to seal' if check else 'sealed'} anew"
        )
    if check and any(one.changed for one in rotations):
        raise click.exceptions.Exit(1)


@dataclass(frozen=True, slots=True)
class Rotation:
    """One file's new text, how many sealed secrets are new in it, and how many there are."""

    file: Path
    text: str
    changed: int
    found: int


def rotated(file: Path, text: str, master_keys: MasterKeys) -> Rotation:
    """Return what a file of this text becomes so that the first master key opens all its sealed secrets.

    Raises ``SettingsError``.
    """
    table = Sources({file: text}).read_toml(file)
    fresh: dict[str, str] = {}
    olds = []
    for place, name, path in _sealed(table):
        old = place[name].removeprefix(SCHEME)
        try:
            fresh[old] = fresh.get(old) or master_keys.reseal(old)
        except ValueError as error:
            raise SettingsError(file, path, str(error)) from None
        olds.append(old)
        place[name] = SCHEME + fresh[old]
    for old, new in fresh.items():
        text = _replaced(text, old, new)
    changed = sum(fresh[old] != old for old in olds)
    if changed and tomllib.loads(text) != table:
        raise SettingsError(
            file, "", "can't be edited in place; write each sealed secret as one plain string"
        )
    return Rotation(file, text, changed, len(olds))


def _sealed(place: Any, *path: str | int) -> Iterator[tuple[Any, str | int, str]]:
    """Every sealed secret within a table or array: what holds it, its key or index there, and its dotted key."""
    for name, value in place.items() if isinstance(place, dict) else enumerate(place):
        if isinstance(value, str) and value.startswith(SCHEME):
            yield place, name, join_key_path(*path, name)
        elif isinstance(value, dict | list):
            yield from _sealed(value, *path, name)


def _replaced(text: str, old: str, new: str) -> str:
    """The text with another token in the place of each value's; where that changes no meaning, it is a comment's."""
    at = text.find(old)
    while at >= 0:
        edited = text[:at] + new + text[at + len(old) :]
        if tomllib.loads(edited) != tomllib.loads(text):
            text = edited
        at = text.find(old, at + 1)
    return text


@contextmanager
def _held(files: Iterable[Path]) -> Iterator[None]:
    """The files' folders, held against other writers, always in one order."""
    with ExitStack() as held:
        for folder in sorted({file.parent.resolve() for file in files}):
            held.enter_context(locked(folder))
        yield


def _master_keys() -> MasterKeys:
    try:
        return load_master_keys(os.environ, Sources())
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def _read_secret() -> str:
    if sys.stdin.isatty():
        return getpass("secret (not shown): ").strip()
    try:
        return sys.stdin.buffer.read().decode().strip()
    except UnicodeDecodeError:
        raise click.ClickException("standard input is not UTF-8") from None
