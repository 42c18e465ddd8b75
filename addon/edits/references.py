"""References to secrets in a workspace's file, and those that an edit in the console may not bring.

Who has the console's password must not reach the secrets of the machine. So the console takes no reference that
``[admin] references`` does not list, wherever in the file it is. One that was there may stay, but not move: the same
secret would go to another provider. Source: docs/console.md, "The file as text".
"""

from collections.abc import Collection, Iterator
from typing import Any

from addon.edits.workspace_files import Plan
from addon.settings.allowed_references import is_allowed
from addon.settings.errors import MAX_ERRORS, MORE_ERRORS, SettingsError, join_key_path
from addon.settings.sealed_secrets import SCHEME
from addon.settings.value_types import SecretReference, parse_secret
from addon.text.toml import TomlError, load_toml

type PlacedReference = tuple[tuple[str, ...], SecretReference]
"""A reference with the path of its key."""


def list_references(text: str) -> frozenset[PlacedReference] | None:
    """Return the references in a text, None where it is no TOML."""
    try:
        return frozenset(_list_below(load_toml(text), ()))
    except TomlError:
        return None


def find_refused_references(
    kept: Collection[PlacedReference],
    plan: Plan,
    patterns: Collection[str],
    sealed: Collection[str],
) -> list[SettingsError]:
    """Return an error for each reference of a planned text that is neither ``kept`` nor allowed by ``patterns``.

    ``sealed`` are the tokens that were made of typed secrets.
    """
    found = list_references(plan.after) or frozenset()
    errors = [
        SettingsError(plan.file, join_key_path(*path), _describe(reference))
        for path, reference in sorted(found - frozenset(kept), key=lambda one: one[0])
        if not (reference.kind == "sealed" and SCHEME + reference.name in sealed)
        and not is_allowed(reference, patterns, plan.file.parent)
    ]
    more = [SettingsError(plan.file, "", MORE_ERRORS)] if len(errors) > MAX_ERRORS else []
    return [*errors[:MAX_ERRORS], *more]


def _describe(reference: SecretReference) -> str:
    if reference.kind == "sealed":
        return "a sealed secret can't move in the console; type the secret itself in the form of own keys"
    return (
        f"this {reference.kind}: reference is not one of [admin] references, so the console does not take it"
    )


def _list_below(value: Any, path: tuple[str, ...]) -> Iterator[PlacedReference]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _list_below(below, (*path, name))
    elif isinstance(value, list):
        # The entries of a list have no names, and may move in it.
        for below in value:
            yield from _list_below(below, path)
    elif isinstance(value, str):
        try:
            reference = parse_secret(value)
        except ValueError:
            return
        yield path, reference
