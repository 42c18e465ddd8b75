"""Edits of the settings of a workspace itself: create a file, and change its top level."""

from pathlib import Path
from typing import Final

from addon.edits.recording import Record, apply_recorded
from addon.edits.toml_lines import Changes, Value, describe_changes, format_value, set_values
from addon.edits.workspace_files import EditError, Plan, lock_workspaces, plan_edit, plan_new_file, read_file
from addon.settings.settings import SettingsFiles

SETTABLE: Final = (
    *("name", "plan", "rpm_override", "tpm", "monthly_spend_cap_usd", "overage_protection", "default_model"),
    *("fallback_model", "context_fallback_model", "safety_net", "alert_at_percent", "hosted_tools"),
)
"""The keys of the top level that an edit may change, in the order of a new file."""


def create_workspace(conf_file: Path, workspace: str, values: Changes, *, record: Record) -> None:
    """Write the file of a new workspace. Raises ``EditError``, or ``SettingsError`` where the file would not load."""
    with lock_workspaces(conf_file) as folder:
        apply_recorded(plan_new_workspace(folder, workspace, values), SettingsFiles(conf_file), record)


def plan_new_workspace(folder: Path, workspace: str, values: Changes) -> Plan:
    """Plan a new workspace. Its name is its id, and ``overage_protection`` is on, unless they are given.

    Raises ``EditError``.
    """
    complete: dict[str, Value] = {"name": workspace, "overage_protection": True}
    complete |= {name: value for name, value in values.items() if value is not None}
    lines = [f"{name} = {format_value(complete[name])}\n" for name in SETTABLE if name in complete]
    return plan_new_file(folder, workspace, "".join(lines), f"Create the workspace {workspace}")


def set_workspace(conf_file: Path, workspace: str, changes: Changes, *, record: Record) -> None:
    """Change settings of a workspace; None removes one. Raises as ``create_workspace``."""
    _check(changes)
    with lock_workspaces(conf_file) as folder:
        apply_recorded(plan_workspace_changes(folder, workspace, changes), SettingsFiles(conf_file), record)


def plan_workspace_changes(folder: Path, workspace: str, changes: Changes) -> Plan:
    """Plan to change settings of a workspace. Raises ``EditError``, or ``SettingsError`` where its file is broken."""
    _check(changes)
    read = read_file(folder, workspace)
    summary = f"Change the workspace {workspace}: {describe_changes(changes)}"
    return plan_edit(read, lambda text: set_values(text, changes), summary)


def _check(changes: Changes) -> None:
    if "name" in changes and changes["name"] is None:
        raise EditError("a workspace must have a name")
