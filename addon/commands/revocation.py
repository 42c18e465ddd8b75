"""``tollgate keys revoke``, also where the workspace's file is broken: then the key ends in the last good text too.

A gateway serves such a workspace on the last text that loaded. Source: docs/commands.md.
"""

from dataclasses import dataclass
from pathlib import Path

import click

from addon.commands.key_edits import turn_off_key
from addon.runtime.atomic_files import write_atomically
from addon.settings.builder import Problem
from addon.settings.errors import SettingsError, suggest_name
from addon.settings.file_content import decode_text, parse_toml
from addon.settings.last_good import LastGood
from addon.settings.settings import SettingsFiles
from addon.settings.sources import Sources


@dataclass(frozen=True, slots=True)
class _Edit:
    """A text in which the key is off, or why there is none; ``ids`` are its keys, as far as they can be read."""

    text: str | None
    ids: tuple[str, ...] = ()
    why: str = ""


def find_problem(conf_file: Path, file: Path, text: str) -> Problem | None:
    """Return what is wrong with ``file`` if it said ``text``. Raises ``SettingsError`` where nothing loads."""
    return _problem_of(file, SettingsFiles(conf_file, overlay={file: text}))


def revoke_key(conf_file: Path, file: Path, key_id: str) -> str | None:
    """Turn a key off in its workspace's file; return a warning where the file is broken all the same.

    Raises ``SettingsError``, OSError, or ``ClickException`` where the key may still work, or work again.
    """
    files = SettingsFiles(conf_file)
    is_broken = _problem_of(file, files)
    in_file = _turn_off(Sources().read(file), file, key_id)
    kept = files.last_good.text(file.stem) if is_broken else None
    in_kept = None if kept is None else _turn_off(kept, file, key_id)
    ids = (*in_file.ids, *(in_kept.ids if in_kept else ()))
    if key_id not in ids and (in_file.text is not None or in_kept):
        raise click.ClickException(f'workspace {file.stem} has no key "{key_id}"{suggest_name(key_id, ids)}')
    if in_file.text is None and not is_broken:
        raise click.ClickException(in_file.why)
    why = in_file.why
    if in_file.text is not None:
        problem = find_problem(conf_file, file, in_file.text)
        write_atomically(file, in_file.text)
        if problem is None:
            return None
        why = str(problem)
    return _revoke_in_kept(files.last_good, file, key_id, in_file, in_kept, why)


def _revoke_in_kept(
    last_good: LastGood, file: Path, key_id: str, in_file: _Edit, in_kept: _Edit | None, why: str
) -> str:
    if in_kept is None:
        where = "turned off in its file, which" if in_file.text is not None else "not turned off: its file"
        raise click.ClickException(
            f"key {key_id} is {where} does not load, and no last good text is here: {why}"
        )
    if in_kept.text is None:
        raise click.ClickException(
            f"key {key_id} still works in the last good settings: {in_kept.why}; {why}"
        )
    last_good.write(file.stem, in_kept.text.encode())
    if in_file.text is None:
        raise click.ClickException(
            f"key {key_id} is turned off in the last good settings, but not in its file, which can't be read; mend "
            f"it and revoke the key again, or it works again: {why}"
        )
    return f"the file does not load; the key is turned off in its last good settings too: {why}"


def _turn_off(said: bytes, file: Path, key_id: str) -> _Edit:
    """Return the text with the key turned off; as it is where it has no such key."""
    try:
        text, keys = decode_text(said, file), parse_toml(said, file).get("keys")
    except SettingsError as error:
        return _Edit(None, why=str(error))
    ids = (
        [str(key.get("id")) if isinstance(key, dict) else "" for key in keys]
        if isinstance(keys, list)
        else []
    )
    if key_id not in ids:
        return _Edit(text, tuple(ids))
    try:
        return _Edit(turn_off_key(text, ids.index(key_id)), tuple(ids))
    except ValueError as error:
        return _Edit(None, tuple(ids), f"the workspace file {error}")


def _problem_of(file: Path, files: SettingsFiles) -> Problem | None:
    return next((problem for problem in files.load().problems if problem.file == file), None)
