"""Edits of routing rules, heuristics and aliases: add, change, move and remove one.

``place`` is the number of an entry in its list, from 1 on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from addon.edits.toml_lines import Changes, describe_changes, set_values
from addon.edits.toml_tables import insert_table, order_tables, remove_table
from addon.edits.workspace_files import EditError, Plan, WorkspaceFile, plan_edit, read_file
from addon.settings.errors import label_of


class PlaceError(EditError):
    """There is no such place in the list."""


@dataclass(frozen=True, slots=True)
class EntryKind:
    """A list of a workspace file. ``keys`` are those of an entry, in the order in which a new one has them."""

    array: str
    noun: str
    keys: tuple[str, ...]


RULES: Final = EntryKind("rules", "rule", ("keywords", "model"))
HEURISTICS: Final = EntryKind("heuristics", "heuristic", ("when", "threshold_tokens", "model"))
ALIASES: Final = EntryKind("aliases", "alias", ("name", "model"))


def read_entry(
    folder: Path, workspace: str, kind: EntryKind, place: int
) -> tuple[WorkspaceFile, Mapping[str, Any]]:
    """Return the file with one entry. Raises ``EditError``, or ``SettingsError`` where the file does not load."""
    read = read_file(folder, workspace)
    entries = read.raw.get(kind.array, [])
    if not 1 <= place <= len(entries):
        raise EditError(f"workspace {workspace} has no {kind.noun} {place}; it has {len(entries)}")
    return read, entries[place - 1]


def plan_new_entry(
    folder: Path, workspace: str, kind: EntryKind, values: Changes, place: int | None = None
) -> Plan:
    """Plan a new entry at a place, or as the last one. Raises as ``read_entry``."""
    read = read_file(folder, workspace)
    count = len(read.raw.get(kind.array, []))
    chosen = count + 1 if place is None else place
    _check_place(chosen, count + 1)
    entry = {name: value for name in kind.keys if (value := values.get(name)) is not None}
    summary = f"Add {_name(kind, chosen, entry)} to the workspace {workspace}"
    return plan_edit(read, lambda text: insert_table(text, kind.array, entry, chosen - 1), summary)


def plan_entry_changes(folder: Path, workspace: str, kind: EntryKind, place: int, changes: Changes) -> Plan:
    """Plan to change an entry. Raises as ``read_entry``."""
    read, entry = read_entry(folder, workspace, kind, place)
    summary = f"Change {_name(kind, place, entry)} of the workspace {workspace}: {describe_changes(changes)}"
    return plan_edit(read, lambda text: set_values(text, changes, kind.array, place - 1), summary)


def plan_entry_move(folder: Path, workspace: str, kind: EntryKind, place: int, to: int) -> Plan:
    """Plan to move an entry to another place. Raises as ``read_entry``."""
    read, entry = read_entry(folder, workspace, kind, place)
    order = list(range(len(read.raw[kind.array])))
    _check_place(to, len(order))
    order.insert(to - 1, order.pop(place - 1))
    summary = f"Move {_name(kind, place, entry)} of the workspace {workspace} to place {to}"
    return plan_edit(read, lambda text: order_tables(text, kind.array, order), summary)


def plan_entry_removal(folder: Path, workspace: str, kind: EntryKind, place: int) -> Plan:
    """Plan to remove an entry, with its comments. Raises as ``read_entry``."""
    read, entry = read_entry(folder, workspace, kind, place)
    summary = f"Remove {_name(kind, place, entry)} of the workspace {workspace}"
    return plan_edit(read, lambda text: remove_table(text, kind.array, place - 1), summary)


def _check_place(place: int, last: int) -> None:
    if not 1 <= place <= last:
        raise PlaceError(f"must be from 1 to {last}")


def _name(kind: EntryKind, place: int, entry: Mapping[str, Any]) -> str:
    label = label_of(entry)
    return f"the {kind.noun} {place} ({label})" if label else f"the {kind.noun} {place}"
