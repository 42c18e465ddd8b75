"""What a copy of a ledger copies: its tables, in order, with the key that their rows are read by. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from addon.store.money.sums.rollup_schema import TABLES as SUMS
from addon.store.money.sums.rollup_schema import RollupTable


class CopiedTable(NamedTuple):
    """A table and its key. ``distributions`` are the columns with how many calls took how long."""

    name: str
    key: Sequence[str]
    distributions: frozenset[str] = frozenset()


def _of_sums(table: RollupTable) -> CopiedTable:
    return CopiedTable(table.name, tuple(table.groups), frozenset(table.buckets))


COPIED: Final = (
    CopiedTable("archives", ("month",)),
    CopiedTable("archived_workspaces", ("workspace", "month")),
    CopiedTable("prices", ("hash",)),
    CopiedTable("usage", ("created_at", "id")),
    CopiedTable("attempts", ("call_id", "number")),
    CopiedTable("late_calls", ("id",)),
    CopiedTable("wallet_entries", ("created_at", "id")),
    CopiedTable("holds", ("id",)),
    CopiedTable("spend", ("scope", "period")),
    CopiedTable("refusals", ("hour", "workspace", "key_id", "code")),
    *map(_of_sums, SUMS),
    CopiedTable("rollup_progress", ("hours_from",)),
    CopiedTable("alerts", ("created_at", "id")),
    CopiedTable("alert_marks", ("name",)),
    CopiedTable("audit", ("number",)),
    CopiedTable("audit_intents", ("id",)),
)
"""The tables. Rates are not copied: they may be forgotten. The list of calls by the ids of their clients follows from
``usage``."""

OF_FLEETS: Final = (
    CopiedTable("workspace_files", ("id",)),
    CopiedTable("revoked_keys", ("hash",)),
    CopiedTable("key_claims", ("hash", "workspace", "machine")),
)
"""The tables that machines share, which only PostgreSQL has."""
