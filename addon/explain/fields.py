"""What became of each field that a client sent, on all of its way: one list for people to read. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from addon.explain.field_diff import translations
from policies.family import Family
from policies.field_change import CHAT_BODY, Change, family_rule
from policies.model import Attempt
from policies.sanitize import Sanitized


def explained_fields(given: Mapping[str, Any], sanitized: Sanitized, attempt: Attempt) -> tuple[Change, ...]:
    """Return at least one change for each key of ``given``, the client's whole body, those of one field together."""
    by_dialect = translations(attempt, sanitized.body)
    # A field of ours that a dialect has no use for is nobody's.
    unused = {change.field for change in by_dialect if change.action == "dropped"} - given.keys()
    made = _without_needless(
        change
        for change in (*sanitized.changes, *by_dialect)
        if change.field not in unused or "." in change.field
    )
    told = {change.field.partition(".")[0] for change in made}
    family = attempt.model.family
    made += [_unsent(name, value, family) for name, value in given.items() if name not in told]
    by_field: dict[str, list[Change]] = {}
    for change in made:
        by_field.setdefault(change.field.partition(".")[0], []).append(change)
    return tuple(change for changes in by_field.values() for change in changes)


def _without_needless(changes: Iterable[Change]) -> list[Change]:
    """That a family takes a field as it is says nothing where something else became of it."""
    listed = list(changes)
    changed = {change.field for change in listed if change.action != "kept"}
    return [change for change in listed if change.action != "kept" or change.field not in changed]


def _unsent(name: str, value: Any, family: Family) -> Change:
    """A key of the client's that ``sanitize`` was not given."""
    if value is None:
        return Change(name, "dropped", "null is the same as an absent field", CHAT_BODY)
    if name in ("max_tokens", "max_completion_tokens"):
        source = family_rule(family, "cap_field")
        return Change(name, "renamed", f"{family.name} takes the cap as {family.cap_field}", source)
    if name == "stream":
        return Change(name, "dropped", "a whole answer is the default", CHAT_BODY)
    source = family_rule(family, "extra")
    return Change(name, "dropped", f"not of the contract, nor of {family.name}'s extra fields", source)
