"""Edits of the settings of a workspace itself: create a file, and change its top level."""

from pathlib import Path
from typing import Final

from addon.edits.toml_lines import Changes, Value, format_value, set_values
from addon.edits.workspace_files import EditError, edit_file, lock_workspaces, read_file, write_new_file

SETTABLE: Final = (
    *("name", "plan", "rpm_override", "monthly_spend_cap_usd", "overage_protection", "default_model"),
    *("fallback_model", "safety_net", "alert_at_percent"),
)
"""The keys of the top level that an edit may change, in the order of a new file."""


def create_workspace(conf_file: Path, workspace: str, values: Changes) -> None:
    """Write the file of a new workspace. Its name is its id, and ``overage_protection`` is on, unless they are given.

    Raises ``EditError``, or ``SettingsError`` where the file would not load.
    """
    complete: dict[str, Value] = {"name": workspace, "overage_protection": True}
    complete |= {name: value for name, value in values.items() if value is not None}
    lines = [f"{name} = {format_value(complete[name])}\n" for name in SETTABLE if name in complete]
    with lock_workspaces(conf_file) as folder:
        write_new_file(conf_file, folder, workspace, "".join(lines))


def set_workspace(conf_file: Path, workspace: str, changes: Changes) -> None:
    """Change settings of a workspace; None removes one. Raises as ``create_workspace``."""
    if "name" in changes and changes["name"] is None:
        raise EditError("a workspace must have a name")
    with lock_workspaces(conf_file) as folder:
        read = read_file(folder, workspace)
        edit_file(conf_file, read, lambda text: set_values(text, changes))
