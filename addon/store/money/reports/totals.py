"""The totals of ``tollgate usage``. Totals are read from the rollups where these cover the time.

Source: docs/ledger.md, docs/decisions/triggers-keep-the-rollups.md.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Final

from addon.store.money.ledger import NO_LIMIT, Cursor, Ledger
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.sum_sources import (
    SUMS,
    Part,
    find_days,
    find_hours,
    needs_rows,
    split_time,
)

GROUPS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "workspace": ("workspace",),
        "key": ("workspace", "key_id"),
        "model": ("model_slug",),
        "provider": ("provider",),
        "deployment": ("deployment",),
        "mode": ("mode",),
        "api": ("api",),
        "status": ("status_class",),
        "user": ("end_user",),
        "day": ("day",),
        "hour": ("hour",),
    }
)
"""The groupings of totals, each with the columns that name a group. Days and hours are of UTC.

``tag:NAME`` is one, too: its column has the same name.
"""

TIMES: Final = frozenset({"day", "hour"})
"""The groupings that are sorted by time, newest first. The others are sorted by cost, highest first."""


def split_groups(by: str) -> list[str]:
    """Return the groupings of ``by``: one of ``GROUPS`` or a tag, or two that are separated by a comma."""
    return by.split(",")


def columns_of(by: str) -> list[str]:
    """Return the columns that name a group, each once."""
    return list(dict.fromkeys(chain.from_iterable(_columns_of(one) for one in split_groups(by))))


def _columns_of(one: str) -> Sequence[str]:
    return GROUPS.get(one, (one,))


def select_totals(ledger: Ledger, by: str, wanted: Filter, limit: int | None) -> Cursor:
    """Return sums by one or two of ``GROUPS``: those of the first are in order, and within them those of the second."""
    names = columns_of(by)
    selects, values = [], list[str]()
    needed = [*names, *wanted.columns()]
    days = None if "hour" in names else find_days(needed)
    for part in split_time(ledger, wanted, days, find_hours(needed), of_rows=needs_rows(names)):
        sql, of_part = select_part(part, names, wanted)
        selects.append(sql)
        values += of_part
    listed = _list(names)
    grouped = (
        f"SELECT {listed}, {', '.join(f'sum({name}) AS {name}' for name in SUMS)}"  # noqa: S608
        f" FROM ({' UNION ALL '.join(selects)}) AS part GROUP BY {listed}"
    )
    sql = f"SELECT * FROM ({grouped}) AS grouped ORDER BY {_order(by)} LIMIT ?"  # noqa: S608
    return ledger.execute(sql, (*values, NO_LIMIT if limit is None else limit))


def _order(by: str) -> str:
    first, *more = split_groups(by)
    order = _order_within(_columns_of(first))
    if first not in TIMES and more:
        # All groups of the first kind together, before those of the second kind in each.
        names = _list(_columns_of(first))
        order = f"sum(retail_nanousd) OVER by_first DESC, sum(calls) OVER by_first DESC, {names}"
        order = order.replace("by_first", f"(PARTITION BY {names})")
    rest = [order, *(_order_within(_columns_of(one)) for one in more)]
    return ", ".join(rest)


def _order_within(names: Sequence[str]) -> str:
    if names[0] in TIMES:
        return f"{names[0]} DESC"
    return f"retail_nanousd DESC, calls DESC, {_list(names)}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def select_part(
    part: Part, names: Sequence[str], wanted: Filter, summed: Sequence[str] = SUMS
) -> tuple[str, list[str]]:
    """Return the SQL of the sums in one part of the time, by the columns ``names``, and its values."""
    source = part.source
    where, values = part.select(wanted)
    columns = [f'{source.column(name)} AS "{name}"' for name in names]
    sums = [f"{source.sums[name]} AS {name}" for name in summed]
    groups = ", ".join(str(place + 1) for place in range(len(names)))
    return (
        f"SELECT {', '.join(columns + sums)} FROM {source.table} WHERE {where} GROUP BY {groups}",  # noqa: S608
        values,
    )
