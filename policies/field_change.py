"""The changes to a request on its way upstream: each changed field, with the reason and the source of the rule.

A source is a key of families.toml or models.toml, or a table of the contract.
"""

import re
from typing import Final, Literal

from msgspec import Struct

from policies.family import Family

Action = Literal["kept", "clamped", "replaced", "dropped", "renamed", "set"]

LOSSES: Final = frozenset({"dropped", "clamped", "replaced"})
"""The actions after which the provider does not get what the client asked for."""

CHAT_BODY: Final = "the contract, chat request body"
MESSAGE_OBJECT: Final = "the contract, message object"
STREAMING_CHUNK: Final = "the contract, streaming chunk"

_DEFAULTS: Final = Family("")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


class FieldChange(Struct, frozen=True, gc=False):
    """The change of one field of the client's, or the addition of a field by the gateway."""

    field: str
    action: Action
    reason: str
    source: str


def name_family_rule(family: Family, key: str, entry: str | None = None) -> str:
    """Return the source of a family's rule, such as ``families.toml [claude] clamps.temperature``, or its default."""
    if getattr(family, key) == getattr(_DEFAULTS, key):
        return f"families.toml, default of {key}"
    name = family.name if _BARE_KEY.fullmatch(family.name) else f'"{family.name}"'
    if family.base is not None and getattr(family, key) != getattr(family.base, key):
        if key not in family.responses_rules:
            return f"families.toml, default of responses.{key}"
        name = f"{name}.responses"
    return f"families.toml [{name}] {key if entry is None else f'{key}.{entry}'}"
