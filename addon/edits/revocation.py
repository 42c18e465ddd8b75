"""The revocation of a key, even when the workspace's file is broken. It ends all secrets of the key.

A gateway then serves the workspace on its last good text, so the key is turned off there too. Source: docs/commands.md.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from addon.edits.recording import ChangeRecord, Record, record_of
from addon.edits.toml_lines import Changes, set_values
from addon.edits.usable_keys import find_hashes_of
from addon.edits.workspace_files import (
    EditError,
    Plan,
    Write,
    find_file,
    lock_workspaces,
    unknown_key_error,
    write_unchanged,
)
from addon.settings.errors import SettingsError
from addon.settings.file_content import decode_text, parse_toml
from addon.settings.last_good import LastGood
from addon.settings.parsed_text import parse_text
from addon.settings.settings import SettingsFiles
from addon.settings.sources import Sources

# Without the lines of the previous secret, it stays ended if someone turns the key on again.
_REVOKED: Final[Changes] = {"active": False, "previous_hash": None, "previous_until": None}


@dataclass(frozen=True, slots=True)
class _Edit:
    """A text with the key turned off, or the reason why there is none. ``ids`` are the readable ids of its keys."""

    text: str | None
    ids: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Revocation:
    """A revocation that is not made yet. ``plan`` is None where the file can't be edited.

    ``in_file`` and ``in_last_good`` are the edits of the file, and of the workspace's last good text if it is in use.
    """

    file: Path
    key_id: str
    plan: Plan | None
    in_file: _Edit
    last_good: LastGood
    in_last_good: _Edit | None
    hashes: frozenset[str] = frozenset()

    @property
    def changes_nothing(self) -> bool:
        """Whether the key is off already, in a file that loads."""
        return self.in_last_good is None and self.plan is not None and self.plan.changes_nothing

    def record(self) -> ChangeRecord:
        """Return the record of the revocation. Without a plan, only the last good text changes."""
        if self.plan is not None and not self.plan.changes_nothing:
            return replace(record_of(self.plan, self.key_id), ended=self.hashes)
        text = f"Revoke the key {self.key_id} of the workspace {self.file.stem} in its last good settings"
        return ChangeRecord(text, workspace=self.file.stem, subject=self.key_id, ended=self.hashes)

    def apply(self, files: SettingsFiles, write: Write = write_unchanged) -> str | None:
        """Turn the key off with ``write``; return a warning if the file is broken. The caller has the lock.

        Raises ``SettingsError``, OSError, or ``EditError`` when the key may still work, or work again later.
        """
        reason = self.in_file.reason
        if self.plan is not None:
            error = self.plan.check(files).error
            if not self.plan.changes_nothing:
                write(self.file, self.plan.after, self.plan.before)
            if error is None:
                return None
            reason = str(error)
            if self.in_last_good is None and self._is_served():
                return f"the key is turned off in its file, which is served without one setting: {reason}"
        return self._apply_to_last_good(reason)

    def _is_served(self) -> bool:
        """Return whether the file is served though it does not load: only ``rpm_override`` can't be read."""
        parsed = parse_text(self.file, self.plan.after.encode()) if self.plan else None
        return parsed is not None and parsed.error is not None and parsed.table is not None

    def _apply_to_last_good(self, reason: str) -> str:
        key_id, in_file, in_last_good = self.key_id, self.in_file, self.in_last_good
        if in_last_good is None:
            where = (
                "turned off in its file, which" if in_file.text is not None else "not turned off: its file"
            )
            raise EditError(f"key {key_id} is {where} does not load, and no last good text is here: {reason}")
        if in_last_good.text is None:
            raise EditError(
                f"key {key_id} still works in the last good settings: {in_last_good.reason}; {reason}"
            )
        self.last_good.write(self.file.stem, in_last_good.text.encode())
        if in_file.text is None:
            raise EditError(
                f"key {key_id} is turned off in the last good settings, but not in its file, which can't be read; fix "
                f"it and revoke the key again, else it works again: {reason}"
            )
        return f"the file does not load; the key is turned off in its last good settings too: {reason}"


def revoke_key(conf_file: Path, workspace: str, key_id: str, *, record: Record) -> str | None:
    """Turn off a key in its workspace's file; return a warning if the file is broken. A key that is off has no line.

    Raises as ``Revocation.apply``.
    """
    files = SettingsFiles(conf_file)
    with lock_workspaces(conf_file) as folder:
        revocation = plan_revocation(files, folder, workspace, key_id)
        with record(revocation.record()) as recording:
            recording.is_made = not revocation.changes_nothing
            return revocation.apply(files, recording.write)


def plan_revocation(files: SettingsFiles, folder: Path, workspace: str, key_id: str) -> Revocation:
    """Plan to turn off a key. Raises ``SettingsError``, OSError, or ``EditError`` when there is no such key."""
    file, files = find_file(folder, workspace), files.fork()
    is_broken = files.check_workspace(file).error
    content = Sources().read(file)
    in_file = _turn_off(content, file, key_id)
    last_good_text = files.last_good.text(file.stem) if is_broken else None
    in_last_good = None if last_good_text is None else _turn_off(last_good_text, file, key_id)
    ids = (*in_file.ids, *(in_last_good.ids if in_last_good else ()))
    if key_id not in ids and (in_file.text is not None or in_last_good):
        raise unknown_key_error(file.stem, key_id, ids)
    if in_file.text is None and not is_broken:
        raise EditError(in_file.reason)
    summary = f"Revoke the key {key_id} of the workspace {workspace}"
    plan = None if in_file.text is None else Plan(file, content, in_file.text, summary)
    hashes = find_hashes_of(content, key_id) | find_hashes_of(last_good_text or b"", key_id)
    return Revocation(file, key_id, plan, in_file, files.last_good, in_last_good, hashes)


def _turn_off(content: bytes, file: Path, key_id: str) -> _Edit:
    """Return the text with the key turned off, or unchanged when it has no such key."""
    try:
        text, keys = decode_text(content, file), parse_toml(content, file).get("keys")
    except SettingsError as error:
        return _Edit(None, reason=str(error))
    ids = (
        [str(key.get("id")) if isinstance(key, dict) else "" for key in keys]
        if isinstance(keys, list)
        else []
    )
    if key_id not in ids:
        return _Edit(text, tuple(ids))
    try:
        return _Edit(set_values(text, _REVOKED, "keys", ids.index(key_id)), tuple(ids))
    except ValueError as error:
        return _Edit(None, tuple(ids), f"the workspace file {error}")
