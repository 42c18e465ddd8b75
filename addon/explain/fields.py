"""The changes to each field that a client sent, from its body to the upstream body, as one list for people. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from addon.explain.field_diff import diff_fields
from policies.family import CAP_FIELDS, Family
from policies.field_change import CHAT_BODY, FieldChange, name_family_rule
from policies.route import Target
from policies.sanitize import Sanitized


def explained_fields(
    given: Mapping[str, Any], sanitized: Sanitized, target: Target
) -> tuple[FieldChange, ...]:
    """Return at least one change for each key of ``given``, the client's whole body. They are grouped by field."""
    by_dialect = diff_fields(target, sanitized.body)
    # A field that the gateway added, and the dialect dropped, is not the client's.
    unused = {change.field for change in by_dialect if change.action == "dropped"} - given.keys()
    made = _without_redundant(
        change
        for change in (*sanitized.changes, *by_dialect)
        if change.field not in unused or "." in change.field
    )
    named = {change.field.partition(".")[0] for change in made}
    family = target.model.family
    made += [_unsent(name, value, family) for name, value in given.items() if name not in named]
    by_field: dict[str, list[FieldChange]] = {}
    for change in made:
        by_field.setdefault(change.field.partition(".")[0], []).append(change)
    return tuple(change for changes in by_field.values() for change in changes)


def _without_redundant(changes: Iterable[FieldChange]) -> list[FieldChange]:
    """Return the changes without each ``kept`` one whose field another change names."""
    listed = list(changes)
    changed = {change.field for change in listed if change.action != "kept"}
    return [change for change in listed if change.action != "kept" or change.field not in changed]


def _unsent(name: str, value: Any, family: Family) -> FieldChange:
    """Return the change of a key that ``sanitize`` did not get."""
    if value is None:
        return FieldChange(name, "dropped", "null is the same as an absent field", CHAT_BODY)
    if name in CAP_FIELDS:
        source = name_family_rule(family, "cap_field")
        return FieldChange(name, "renamed", f"{family.name} takes the cap as {family.cap_field}", source)
    if name == "stream":
        return FieldChange(name, "dropped", "a whole answer is the default", CHAT_BODY)
    source = name_family_rule(family, "extra")
    return FieldChange(name, "dropped", f"not of the contract, nor of {family.name}'s extra fields", source)
