"""Changes to the small objects of an answer: a new object when something changes, else the very same one. Pure."""

from collections.abc import Sequence
from operator import is_
from typing import Any


def with_member(value: dict[str, Any], key: str, member: object) -> dict[str, Any]:
    """Return ``value`` with this member. 1 and True are different here, as in JSON."""
    if key in value and (known := value[key]) is not member:
        return value if type(known) is type(member) and known == member else {**value, key: member}
    return value if key in value else {**value, key: member}


def without(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return ``value`` without these members."""
    if not any(key in value for key in keys):
        return value
    return {name: member for name, member in value.items() if name not in keys}


def keep_if_same[T](old: list[T], new: Sequence[T]) -> list[T]:
    """Return ``old`` when ``new`` has the very same elements, else ``new``."""
    if len(old) == len(new) and all(map(is_, old, new)):
        return old
    return list(new)
