"""The forms of API keys: create, change, rotate and revoke."""

import shlex
from collections.abc import Mapping
from typing import Any, Final, cast

from addon.console.changes.field import Field, FieldErrors, make_fields, show_value
from addon.console.changes.file_change import FileChange, RevocationChange, UneditableFileError
from addon.console.changes.form import Change, Form, RequestedChange
from addon.edits.keys import SETTABLE, plan_key_changes, plan_new_key, plan_rotation
from addon.edits.revocation import plan_revocation
from addon.edits.toml_lines import format_value
from addon.edits.typed_settings import KEY_SETTINGS, parse_length, parse_names, parse_text
from addon.edits.workspace_files import read_file
from addon.settings.errors import suggest_name

REMOVABLE: Final = tuple(one.key for one in KEY_SETTINGS if one.can_remove and one.key != "label")
"""The settings that a key need not get from the key that it is like. A label is never copied."""

SHOWN_ONCE: Final = "The key is shown once, after you confirm. Only its hash is stored."


def _plan_create(asked: RequestedChange) -> Change:
    values = asked.values
    changes = {name: values[name] for name in SETTABLE if values[name] is not None}
    changes |= _find_removed(values)
    plan, key_id = plan_new_key(
        asked.files.folder,
        asked.names["workspace"],
        values["id"],
        changes,
        like=values["like"],
        key_hash=asked.key_hash,
    )
    return FileChange(plan, key_id, [SHOWN_ONCE], new_hash=asked.key_hash)


def _find_removed(values: Mapping[str, Any]) -> Mapping[str, None]:
    """Return the settings that a new key does not get from the key that it is like. Raises ``FieldErrors``."""
    removed = values["without"] or ()
    if removed and values["like"] is None:
        raise FieldErrors({"without": "is only for a key with the settings of another one"})
    for name in removed:
        if name not in REMOVABLE:
            raise FieldErrors({"without": f'unknown setting "{name}"{suggest_name(name, REMOVABLE)}'})
        if values[name] is not None:
            raise FieldErrors({"without": f"{name} has a value of its own"})
    return dict.fromkeys(removed)


def _read_key(asked: RequestedChange) -> Mapping[str, str]:
    read = read_file(asked.files.folder, asked.names["workspace"])
    index, _ = read.find_key(asked.names["key"])
    table = cast(Mapping[str, Any], read.raw["keys"][index])
    return {name: show_value(table.get(name)) for name in SETTABLE}


def _plan_set(asked: RequestedChange) -> Change:
    changes = asked.find_changes(SETTABLE)
    plan = plan_key_changes(asked.files.folder, asked.names["workspace"], asked.names["key"], changes)
    return FileChange(plan, asked.names["key"])


def _plan_rotate(asked: RequestedChange) -> Change:
    grace = asked.values["grace"]
    planned = plan_rotation(
        asked.files.folder, asked.names["workspace"], asked.names["key"], grace, asked.key_hash
    )
    until = planned.old_until
    notes = [
        f"The old key works until {format_value(until)}."
        if until
        else "The old key is refused as soon as the gateway has read the file, within two seconds."
    ]
    if planned.dropped_until is not None:
        notes.append(
            "The key before that one, which would have worked until"
            f" {format_value(planned.dropped_until)}, is refused from then on."
        )
    return FileChange(planned.plan, asked.names["key"], [SHOWN_ONCE, *notes], notes, new_hash=asked.key_hash)


def _plan_revoke(asked: RequestedChange) -> RevocationChange:
    workspace, key_id = asked.names["workspace"], asked.names["key"]
    revocation = plan_revocation(asked.files.loaded, asked.files.folder, workspace, key_id)
    if revocation.plan is None:
        words = ("tollgate", "keys", "revoke", workspace, key_id, "--conf", str(asked.files.conf_file))
        raise UneditableFileError(revocation.in_file.reason, shlex.join(words))
    return RevocationChange(revocation.plan, key_id, turn_off=revocation.apply, hashes=revocation.hashes)


def _require_revocable(asked: RequestedChange) -> Mapping[str, str]:
    """Return no texts. Raises ``EditError`` for an unknown key, and for a file that can't be edited."""
    _plan_revoke(asked)
    return {}


def _require_readable_file(asked: RequestedChange) -> Mapping[str, str]:
    read_file(asked.files.folder, asked.names["workspace"])
    return {}


def _require_key(asked: RequestedChange) -> Mapping[str, str]:
    _read_key(asked)
    return {"grace": "24h"}


CREATE: Final = Form(
    action="keys create",
    title="Create a key",
    plan=_plan_create,
    fields=(
        Field("id", "Key ID", parse_text, "Its name in logs and in the ledger. If empty: key-1, key-2, …"),
        Field(
            "like",
            "Copy the settings of",
            parse_text,
            "The ID of a key of this workspace. Its label is not copied.",
        ),
        Field(
            "without",
            "Do not copy",
            parse_names,
            f"Settings of that key that the new one does not get: {', '.join(REMOVABLE)}.",
        ),
        *make_fields(KEY_SETTINGS, is_new=True),
    ),
    current=_require_readable_file,
    makes_key=True,
)
SET: Final = Form(
    action="keys set",
    title="Change a key",
    plan=_plan_set,
    names=("workspace", "key"),
    fields=make_fields(KEY_SETTINGS, is_new=False),
    current=_read_key,
    intro="An empty field removes the setting.",
)
ROTATE: Final = Form(
    action="keys rotate",
    title="Rotate a key",
    plan=_plan_rotate,
    names=("workspace", "key"),
    fields=(
        Field(
            "grace",
            "Grace time",
            parse_length,
            "How long the old key goes on working: 30m, 24h, 7d; 0 after a leak.",
            is_required=True,
        ),
    ),
    current=_require_key,
    intro="The key gets a new secret. Its caps, counters and name go on.",
    makes_key=True,
)
REVOKE: Final = Form(
    action="keys revoke",
    title="Revoke a key",
    plan=_plan_revoke,
    names=("workspace", "key"),
    current=_require_revocable,
    intro=(
        "The key stays in the file, because the ledger refers to its name. Its calls are refused. It is not turned on"
        " again: create another key with its settings."
    ),
    is_final=True,
)
