"""Edits of keys: create, change and rotate. Each is one write of the file, so no key is live without its caps.

``Changes`` has the keys of ``[[keys]]`` in docs/configuration.md, in the types of TOML.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final, cast

from addon.edits.diff import NO_KEY_YET
from addon.edits.recording import Record, apply_recorded, record_of
from addon.edits.toml_lines import Changes, Value, add_table, describe_changes, set_values
from addon.edits.workspace_files import (
    EditError,
    Plan,
    WorkspaceFile,
    check_name,
    check_new_workspace,
    lock_workspaces,
    plan_edit,
    plan_new_file,
    read_file,
)
from addon.settings.api_keys import hash_key, make_key
from addon.settings.settings import SettingsFiles

SETTABLE: Final = (
    "label",
    "models",
    "expires_at",
    "spend_cap_usd",
    "spend_reset",
    "request_cap",
    "request_reset",
    "tpm",
)
"""The keys of ``[[keys]]`` that an edit may change."""

_COPIED: Final = tuple(name for name in SETTABLE if name != "label")
_RESETS: Final = {"spend_reset": "spend_cap_usd", "request_reset": "request_cap"}
_NEW_WORKSPACE: Final = 'name = "{name}"\noverage_protection = true\n'


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was created, and its secret, which is stored nowhere."""

    id: str
    secret: str


@dataclass(frozen=True, slots=True)
class PlannedRotation:
    """The plan of a new secret of a key.

    ``old_until``: the end of the secret before; None where it has ended at once. ``dropped_until``: the end that an
    even older secret had, which has ended at once; None where there was none.
    """

    plan: Plan
    old_until: datetime | None
    dropped_until: datetime | None


@dataclass(frozen=True, slots=True)
class Rotation:
    """The new secret of a key, which is stored nowhere, with the ends of those before, as in ``PlannedRotation``."""

    secret: str
    old_until: datetime | None
    dropped_until: datetime | None


def create_key(
    conf_file: Path,
    workspace: str,
    key_id: str | None = None,
    changes: Changes | None = None,
    *,
    like: str | None = None,
    is_new_workspace: bool = False,
    record: Record,
) -> NewKey:
    """Create a key, see ``plan_new_key``. Raises ``EditError``, or ``SettingsError`` where the file would not load."""
    secret = make_key()
    new_hash = hash_key(secret)
    with lock_workspaces(conf_file) as folder:
        plan, chosen = plan_new_key(
            folder,
            workspace,
            key_id,
            changes or {},
            like=like,
            is_new_workspace=is_new_workspace,
            key_hash=new_hash,
        )
        apply_recorded(plan, SettingsFiles(conf_file), record, chosen, new_hash)
    return NewKey(chosen, secret)


def plan_new_key(
    folder: Path,
    workspace: str,
    key_id: str | None,
    changes: Changes,
    *,
    like: str | None = None,
    is_new_workspace: bool = False,
    key_hash: str = NO_KEY_YET,
) -> tuple[Plan, str]:
    """Plan a key with the settings of the key ``like``, if given, and ``changes``. Without an id, number it.

    Return the plan with the id. Raises ``EditError``, or ``SettingsError`` where the file is broken.
    """
    if is_new_workspace:
        check_new_workspace(folder, workspace)
        if like is not None:
            raise EditError(f'the new workspace has no key "{like}"')
        chosen = _choose_id(workspace, (), key_id)
        entry = _make_entry(chosen, key_hash, changes)
        text = add_table(_NEW_WORKSPACE.format(name=workspace), "keys", entry)
        summary = f"Create the workspace {workspace} with the key {chosen}"
        return plan_new_file(folder, workspace, text, summary), chosen
    read = read_file(folder, workspace)
    chosen = _choose_id(read.file.stem, tuple(key.id for key in read.table.keys), key_id)
    copied = {} if like is None else _copy_settings(read, like, changes)
    entry = _make_entry(chosen, key_hash, copied | dict(changes))
    summary = f"Create the key {chosen} of the workspace {workspace}"
    return plan_edit(read, lambda text: add_table(text, "keys", entry), summary), chosen


def set_key(conf_file: Path, workspace: str, key_id: str, changes: Changes, *, record: Record) -> None:
    """Change settings of a key. Raises as ``create_key``."""
    with lock_workspaces(conf_file) as folder:
        plan = plan_key_changes(folder, workspace, key_id, changes)
        apply_recorded(plan, SettingsFiles(conf_file), record, key_id)


def enable_key(conf_file: Path, workspace: str, key_id: str, *, record: Record) -> None:
    """Turn on a key that was turned off or revoked, on all machines. Raises as ``create_key``."""
    with lock_workspaces(conf_file) as folder:
        read = read_file(folder, workspace)
        index, key = read.find_key(key_id)
        summary = f"Turn on the key {key_id} of the workspace {workspace}"
        plan = plan_edit(read, lambda text: set_values(text, {"active": True}, "keys", index), summary)
        change = replace(record_of(plan, key_id), allowed=frozenset(key.hashes))
        with record(change) as recording:
            if plan.changes_nothing:
                recording.is_made = False
            else:
                plan.apply(SettingsFiles(conf_file), recording.write)


def plan_key_changes(folder: Path, workspace: str, key_id: str, changes: Changes) -> Plan:
    """Plan to change settings of a key. Raises as ``plan_new_key``."""
    read = read_file(folder, workspace)
    index, _ = read.find_key(key_id)
    complete = _complete(changes, read.raw["keys"][index])
    summary = f"Change the key {key_id} of the workspace {workspace}: {describe_changes(complete)}"
    return plan_edit(read, lambda text: set_values(text, complete, "keys", index), summary)


def rotate_key(conf_file: Path, workspace: str, key_id: str, grace: timedelta, *, record: Record) -> Rotation:
    """Give a key a new secret, as ``plan_rotation`` says. Raises as ``create_key``."""
    secret = make_key()
    new_hash = hash_key(secret)
    with lock_workspaces(conf_file) as folder:
        planned = plan_rotation(folder, workspace, key_id, grace, new_hash)
        apply_recorded(planned.plan, SettingsFiles(conf_file), record, key_id, new_hash)
    return Rotation(secret, planned.old_until, planned.dropped_until)


def plan_rotation(
    folder: Path, workspace: str, key_id: str, grace: timedelta, key_hash: str = NO_KEY_YET
) -> PlannedRotation:
    """Plan a new secret of a key. Its caps, counters and name go on. The old secret works for ``grace``.

    A third secret is not kept. Raises as ``plan_new_key``.
    """
    now = datetime.now(UTC)
    read = read_file(folder, workspace)
    index, key = read.find_key(key_id)
    if not key.active:
        raise EditError(f"key {key_id} is not active, so a new secret would not work")
    if key.expires_at is not None and key.expires_at <= now:
        raise EditError(
            f"key {key_id} has expired, so a new secret would not work; give it another expires_at first"
        )
    until = _end_of(grace, now) if grace else None
    changes: dict[str, Value | None] = {
        "hash": f"sha256:{key_hash}",
        "previous_hash": None if until is None else f"sha256:{key.hash}",
        "previous_until": until,
    }
    summary = f"Give the key {key_id} of the workspace {workspace} a new secret"
    plan = plan_edit(read, lambda text: set_values(text, changes, "keys", index), summary)
    dropped = key.previous_until if key.previous_until is not None and key.previous_until > now else None
    return PlannedRotation(plan, until, dropped)


def _end_of(grace: timedelta, now: datetime) -> datetime:
    try:
        return (now + grace).replace(microsecond=0)
    except OverflowError:
        raise EditError("the grace time is too long") from None


def _choose_id(workspace: str, taken: tuple[str, ...], key_id: str | None) -> str:
    if key_id is None:
        return next(name for number in count(1) if (name := f"key-{number}") not in taken)
    check_name(key_id, "a key")
    if key_id in taken:
        raise EditError(f'workspace {workspace} already has a key "{key_id}"; choose another id')
    return key_id


def _make_entry(key_id: str, key_hash: str, changes: Changes) -> dict[str, Value]:
    entry: dict[str, Value] = {"id": key_id, "hash": f"sha256:{key_hash}", "active": True}
    complete = _complete(changes, {})
    return entry | {name: value for name in SETTABLE if (value := complete.get(name)) is not None}


def _copy_settings(read: WorkspaceFile, like: str, changes: Changes) -> dict[str, Value | None]:
    """Return the settings of the key ``like``, without the resets of caps that ``changes`` removes."""
    index, _ = read.find_key(like)
    table = cast(Mapping[str, Any], read.raw["keys"][index])
    without = {reset for reset, cap in _RESETS.items() if changes.get(cap, "") is None}
    return {name: table[name] for name in _COPIED if name in table and name not in without}


def _complete(changes: Changes, before: Mapping[str, Any]) -> dict[str, Value | None]:
    """Return the changes, with the removal of a reset whose cap is removed. Raises ``EditError`` for useless ones."""
    complete = dict(changes)
    for reset, cap in _RESETS.items():
        has_cap = complete.get(cap, before.get(cap)) is not None
        if not has_cap and complete.get(reset) is not None:
            raise EditError(f"{reset} has no effect without {cap}")
        if not has_cap and reset in before:
            complete[reset] = None
    expires_at = complete.get("expires_at")
    if isinstance(expires_at, datetime) and expires_at <= datetime.now(UTC):
        raise EditError(
            f"expires_at {expires_at:%Y-%m-%dT%H:%M:%S%:z} has passed; revoke the key to end it now"
        )
    return complete
