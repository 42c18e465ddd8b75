"""Which settings of PostgreSQL may lose what it has acknowledged. Source: docs/limits.md, "When PostgreSQL fails"."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

type UnsafeKind = Literal["ledger_no_standby", "ledger_commits_early", "ledger_not_on_disk"]


class Unsafe(NamedTuple):
    """A setting that may lose commits: the name of its warning, and what it says."""

    kind: UnsafeKind
    text: str


SETTINGS: Final = "SELECT " + ", ".join(
    f"current_setting('{name}')" for name in ("synchronous_standby_names", "synchronous_commit", "fsync")
)
"""The statement whose row is the argument of ``find_unsafe``."""

_UNSAFE: Final = (
    (
        ("",),
        Unsafe(
            "ledger_no_standby",
            "PostgreSQL has no synchronous standby (synchronous_standby_names): a failover may lose commits",
        ),
    ),
    (
        ("off", "local"),
        Unsafe("ledger_commits_early", "PostgreSQL acknowledges what is not safe yet (synchronous_commit)"),
    ),
    (
        ("off",),
        Unsafe(
            "ledger_not_on_disk",
            "PostgreSQL does not write to its disk (fsync): a crash of its machine may lose the ledger",
        ),
    ),
)
"""For each setting, the values that may lose what was acknowledged, and what to say then."""


def find_unsafe(settings: Sequence[str]) -> list[Unsafe]:
    """Return what is unsafe in the row of ``SETTINGS``."""
    return [unsafe for value, (bad, unsafe) in zip(settings, _UNSAFE, strict=True) if value in bad]
