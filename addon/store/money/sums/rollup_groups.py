"""The groups of a table of sums, as they are kept, and as their calls give them. Source: docs/ledger.md."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from addon.store.money.ledger import Ledger
from addon.store.money.sums.rollup_schema import RollupTable, add_up, bucket_of

type Groups = dict[tuple[str, ...], tuple[Sequence[int], Sequence[Mapping[str, int]]]]
"""The sums and the filled buckets of each group. ``calls`` is the first sum of every table."""

WITHIN: Final = "call.created_at >= ? AND call.created_at < ?"
LATE: Final = f"{WITHIN} AND call.id IN (SELECT id FROM late_calls)"  # noqa: S608
"""Conditions for the calls to add up, with the moments from which on and before which."""


def read_groups(ledger: Ledger, table: RollupTable, period: str) -> Groups:
    """Return the groups of a period as the table has them."""
    # Of one row, this is its distribution as JSON in every engine.
    buckets = [f"group_concat({name})" for name in table.buckets]
    plain = ", ".join([*table.groups, *table.sums])
    rows = ledger.execute(
        f"SELECT {', '.join([plain, *buckets])} FROM {table.name}"  # noqa: S608
        f" WHERE {table.period} = ? GROUP BY {plain}",
        (period,),
    )
    return {
        key: (sums, [json.loads(one) for one in buckets])
        for key, sums, buckets in (_split(table, row) for row in rows)
    }


def sum_groups(ledger: Ledger, table: RollupTable, begin: str, end: str, where: str = WITHIN) -> Groups:
    """Return the groups that the calls have from one moment on until before another."""
    sums = [add_up(value) for value in table.sums.values()]
    # One list of all calls' buckets. Calls without the duration are not in it.
    buckets = [
        f"group_concat(iif({value} IS NULL, NULL, {bucket_of(value)}))" for value in table.buckets.values()
    ]
    rows = ledger.execute(
        f"SELECT {', '.join([*table.groups.values(), *sums, *buckets])} FROM usage AS call"  # noqa: S608
        f" WHERE {where} GROUP BY {', '.join(table.groups.values())}",
        (begin, end),
    )
    return {
        key: (sums, [Counter(one.split(",")) if one else {} for one in buckets])
        for key, sums, buckets in (_split(table, row) for row in rows)
    }


def subtract(groups: Groups, removed: Groups) -> Groups:
    """Return ``groups`` less the groups ``removed``. A group without calls is left out."""
    left = groups | {
        key: _subtract_group(groups.get(key), sums, buckets) for key, (sums, buckets) in removed.items()
    }
    return {key: found for key, found in left.items() if found[0][0]}


def _subtract_group(
    found: tuple[Sequence[int], Sequence[Mapping[str, int]]] | None,
    sums: Sequence[int],
    buckets: Sequence[Mapping[str, int]],
) -> tuple[Sequence[int], Sequence[Mapping[str, int]]]:
    before, filled = found or ([0] * len(sums), [{}] * len(buckets))
    less = [one - other for one, other in zip(before, sums, strict=True)]
    counts = [
        {name: count for name in one for count in [one[name] - other.get(name, 0)] if count}
        for one, other in zip(filled, buckets, strict=True)
    ]
    return less, counts


def _split(
    table: RollupTable, row: tuple[Any, ...]
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[Any, ...]]:
    groups = len(table.groups)
    sums = groups + len(table.sums)
    return row[:groups], row[groups:sums], row[sums:]
