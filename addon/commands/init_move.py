"""``tollgate init DIR --from FOLDER``: moves the gateway in a folder, such as a checkout, into a new one.

Every file moves in one step within its file system. If a step fails, or the result would not load as before, each
step is undone; a script undoes them where the process was killed. Nothing moves while a gateway may write to the
ledger.
"""

import os
import shlex
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

import click

from addon.commands.auditing import CommandRecord
from addon.commands.init_git import Checkout
from addon.commands.init_source import CONF, OVERLAY, Source, find_place, read_source
from addon.edits.recording import ChangeRecord, file_evidence
from addon.runtime.folder_lock import locked
from addon.settings.checked_files import CheckedFiles, check_files
from addon.settings.settings import load_conf
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.money.sqlite.process_lock import find_running

UNFINISHED: Final = "undo-move.sh"
"""The script in the new folder that undoes a move that was cut off."""
_MAX_NAMED: Final = 10


def move_gateway(old: Path, new: Path, make: Callable[[set[str]], None]) -> str:
    """Move the gateway in ``old`` to the folder ``new``, which ``make`` makes without the named files.

    Return what was done and what is left to do. Raises ``ClickException``, ``SettingsError``, ``StoreUnavailable`` or
    OSError.
    """
    if new.is_relative_to(old):
        raise click.ClickException(f"{new}: is inside {old}, which upgrades change; name a folder outside")
    checkout = Checkout(old)
    before = check_files(old / CONF, os.environ)
    conf = load_conf(old / CONF)
    with _stopped_ledger(conf.paths.database), ExitStack() as undo:
        AuditSpool(conf.paths.database).settle()  # the evidence of changes names files that move
        source = read_source(old, conf, checkout)
        _require_one_file_system(source, new)
        tracked = [file for file in source.files if checkout.is_tracked(file)]
        replaced = {str(file.relative_to(old)) for file in (*source.files, old / CONF)}
        if conf.paths.catalog_overlay:
            replaced |= {f"{OVERLAY}/{name}.toml" for name in ("models", "providers", "families")}
        undo.callback(_remove, new, is_new=not new.exists())
        make(replaced)
        unfinished = _write_undo(source, new, tracked)
        for file in source.files:
            _move(file, new / file.relative_to(old), undo, is_copy=file in tracked)
        # The log has moved with the ledger. The new proxy.conf makes the move, so its evidence is that file.
        moved = {"database": new / find_place(conf.paths.database, old)}
        record = CommandRecord(conf.model_copy(update={"paths": conf.paths.model_copy(update=moved)}), "init")
        with record(_record_move(source, new)), ExitStack() as unwrite:
            for file, text in source.texts.items():
                _write(new / file.relative_to(old), text, unwrite)
            _require_same(before, check_files(new / CONF, os.environ), old, new)
            unwrite.pop_all()
        undo.pop_all()
    unfinished.unlink()
    return _leave(source, checkout, tracked, new)


def _record_move(source: Source, new: Path) -> ChangeRecord:
    evidence = file_evidence(new / CONF, None, source.texts[source.folder / CONF])
    return ChangeRecord(f"Move the gateway of {source.folder} to {new}", evidence)


def _require_one_file_system(source: Source, new: Path) -> None:
    place = next(parent for parent in (new, *new.parents) if parent.exists())
    for file in source.files:
        if file.lstat().st_dev != place.stat().st_dev:
            raise click.ClickException(
                f"{file}: is on another file system than {new}, so it can't be moved in one step; "
                f"make the folder next to {source.folder}, and move it as a whole later"
            )


@contextmanager
def _stopped_ledger(database: Path) -> Iterator[None]:
    """Keep gateways from starting on a ledger. Raises ``ClickException`` while one runs."""
    owners = database.with_name(f"{database.name}-owners")
    with ExitStack() as held:
        if owners.is_dir():
            held.enter_context(locked(owners))
        if running := find_running(owners):
            pids = ", ".join(sorted(one.partition("-")[0] for one in running))
            raise click.ClickException(f"{database}: a gateway runs on it (process {pids}); stop it first")
        if database.exists():
            _close_wal(database)
        yield


def _close_wal(database: Path) -> None:
    """Write the whole ledger into its one file. Raises ``ClickException`` while another program uses it."""
    try:
        with closing(sqlite3.connect(database, timeout=2, isolation_level=None)) as ledger:
            (is_busy, *_) = ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        raise click.ClickException(f"{database}: {error}") from None
    if is_busy:
        raise click.ClickException(f"{database}: another program uses it; end that first")


def _write_undo(source: Source, new: Path, tracked: list[Path]) -> Path:
    """Write a script that moves everything back, for the case that this process is killed. Return its file."""
    lines = ["#!/bin/sh", "# The move was cut off. This moves each file back. Then remove this folder."]
    for file in source.files:
        if file not in tracked:
            here, there = (shlex.quote(str(path)) for path in (new / file.relative_to(source.folder), file))
            lines.append(f"[ -e {there} ] || [ ! -e {here} -a ! -L {here} ] || mv -- {here} {there}")
    script = new / UNFINISHED
    script.write_text("\n".join([*lines, ""]), encoding="utf-8", errors="surrogateescape")
    with script.open("rb") as written:
        os.fsync(written.fileno())
    return script


def _move(file: Path, target: Path, undo: ExitStack, *, is_copy: bool) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_copy:
        shutil.copy2(file, target)
    else:
        file.rename(target)
        undo.callback(target.rename, file)


def _write(file: Path, text: str, undo: ExitStack) -> None:
    if file.exists():
        undo.callback(file.write_bytes, file.read_bytes())
    else:
        undo.callback(file.unlink, missing_ok=True)
    with open(os.open(file, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as stream:
        stream.write(text.encode())


def _remove(folder: Path, *, is_new: bool) -> None:
    """Remove what was made. What was moved is back in its place by then."""
    if is_new:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _require_same(before: CheckedFiles, after: CheckedFiles, old: Path, new: Path) -> None:
    """Raise ``ClickException`` unless the new files load as the old ones did."""
    errors = [str(error).replace(str(new), str(old)) for error in after.errors]
    known = [str(error) for error in before.errors]
    if others := sorted(set(errors) ^ set(known)):
        raise click.ClickException(f"{new}: would not load as {old} does, so nothing is moved: {others[0]}")
    if before.settings and after.settings and before.settings.workspaces != after.settings.workspaces:
        raise click.ClickException(f"{new}: would serve something else, so nothing is moved")


def _leave(source: Source, checkout: Checkout, tracked: list[Path], new: Path) -> str:
    """Make the old folder as git has it. Return the text about it."""
    conf_file = source.folder / CONF
    if checkout.is_tracked(conf_file):
        tracked = [conf_file, *tracked]
    elif checkout.is_known:
        conf_file.unlink()
    said = [f"Moved the gateway of {source.folder}: {CONF} and {len(source.files)} more."]
    if source.has_edited_catalog:
        said.append(
            f"Its catalog is edited, so {new} has it as a copy, which upgrades do not renew: write your tables into"
            f' {new / "catalog"}, and set [paths] catalog = "".'
        )
    failed = checkout.restore(tracked)
    if not checkout.is_known:
        said.append(f"{source.folder} is no git checkout, so its {CONF} stays. Do not serve it any more.")
    if failed:
        said.append(f"git can't restore {', '.join(map(str, failed))}: do it before you upgrade.")
    if left := checkout.find_changes():
        more = f" and {len(left) - _MAX_NAMED} more" if len(left) > _MAX_NAMED else ""
        said.append(
            f"Other changes stay there, and an upgrade may meet them: {', '.join(left[:_MAX_NAMED])}{more}."
        )
    elif checkout.is_known:
        said.append("It is as git has it, so upgrades meet no change of yours.")
    return "\n".join(said)
