"""How each attempt of a call ended, for its ledger row and its log line. Pure."""

from typing import Final, NamedTuple

from policies.model import Mode
from policies.route import Target

ATTEMPT_ENDS: Final = "attempt_ends"
"""What a ledger row carries to the table ``attempts``: an ``AttemptEnd`` for each attempt, None where one was made."""


class AttemptEnd(NamedTuple):
    """The end of one attempt. The fields are columns of the table ``attempts`` (docs/ledger.md), in their order."""

    number: int
    provider: str
    deployment: str
    mode: Mode
    platform_key: int | None
    status: int
    error_code: str | None
    duration_ms: int


def make_attempt_end(
    number: int, target: Target, status: int, error_code: str | None, duration_s: float
) -> AttemptEnd:
    """Return the end of the attempt ``number``, from 1, at ``target`` with the key that was chosen."""
    model = target.model
    duration_ms = round(duration_s * 1000)
    return AttemptEnd(
        number,
        model.provider.name,
        model.place,
        target.mode,
        target.platform_key,
        status,
        error_code,
        duration_ms,
    )
