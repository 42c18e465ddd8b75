"""What became of a request on its way upstream: every field that was changed is named, with the reason."""

from dataclasses import dataclass
from typing import Literal

Action = Literal["kept", "clamped", "dropped", "renamed", "set"]


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one field of the client's, or which field of ours was added."""

    field: str
    action: Action
    reason: str
