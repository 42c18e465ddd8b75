"""What became of a request on its way upstream: every field that was changed is named, with the reason and its source.

A source says where the rule stands: a key of families.toml or models.toml, or a table of the contract.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from policies.family import Family

Action = Literal["kept", "clamped", "dropped", "renamed", "set"]

CHAT_BODY: Final = "the contract, chat request body"
MESSAGE_OBJECT: Final = "the contract, message object"
STREAMING_CHUNK: Final = "the contract, streaming chunk"

_UNSAID: Final = Family("")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """What became of one field of the client's, or which field of ours was added."""

    field: str
    action: Action
    reason: str
    source: str


def family_rule(family: Family, key: str, entry: str | None = None) -> str:
    """Return where families.toml says it: ``families.toml [claude] clamps.temperature``, or that it is the default."""
    if getattr(family, key) == getattr(_UNSAID, key):
        return f"families.toml, default of {key}"
    name = family.name if _BARE_KEY.fullmatch(family.name) else f'"{family.name}"'
    return f"families.toml [{name}] {key if entry is None else f'{key}.{entry}'}"
