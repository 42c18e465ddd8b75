"""The check of costs: each row's cost is computed again from its own counts and its own price set."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from addon.store.money.ledger import Ledger
from addon.store.money.price_set_schema import NOT_KEPT
from addon.store.money.reports.price_sets import read_price_sets
from addon.store.money.reports.report import has_table
from addon.store.money.verify.plain_costs import IS_PLAINLY_RIGHT, write_sets
from policies.money import compute_call_costs_nanousd
from policies.price_set import PriceSet
from policies.usage import Usage

MAX_NAMED: Final = 1_000
"""How many calls are named. Those after them are counted."""

_PAGE_ROWS: Final = 5_000
_FACTS: Final = ("id", "mode", "price_set", "wholesale_nanousd", "retail_nanousd")
_ROWS: Final = f"""
    SELECT {", ".join((*_FACTS, *Usage.__struct_fields__))}, created_at
    FROM usage LEFT JOIN sets ON sets.name = usage.price_set
    WHERE price_set IS DISTINCT FROM '{NOT_KEPT}' AND (created_at, id) > (?, ?) AND ({IS_PLAINLY_RIGHT}) IS NOT TRUE
    ORDER BY created_at, id LIMIT {_PAGE_ROWS}
"""  # noqa: S608

type _Sets = dict[str, PriceSet | None]
"""Price sets by their names, None for one that was changed."""


def count_not_kept(connection: Ledger) -> int:
    """Return how many calls are of a version that kept no prices, so that their costs can't be computed again."""
    kept = f" WHERE price_set = '{NOT_KEPT}'" if _rows_name_sets(connection) else ""
    found: tuple[int] = connection.execute(f"SELECT count(*) FROM usage{kept}").fetchone()  # noqa: S608
    return found[0]


def find_wrong_costs(connection: Ledger) -> Iterator[str]:
    """Yield a line for each call whose cost does not follow from its row, and for each set that was changed."""
    if not has_table(connection, "prices"):
        if _rows_name_sets(connection):
            yield "prices: the table is missing"
        return
    sets: _Sets = {}
    for stored in read_price_sets(connection):
        sets[stored.hash] = stored.prices
        if stored.fault:
            yield f"price set {stored.hash}: {stored.fault}"
    wrong = 0
    for row in _read_unclear(connection, sets):
        if fault := _check_row(row, sets):
            wrong += 1
            if wrong <= MAX_NAMED:
                yield f"call {row[0]}: {fault}"
    if wrong > MAX_NAMED:
        yield f"and {wrong - MAX_NAMED} more calls do not agree with their prices"


def _read_unclear(connection: Ledger, sets: _Sets) -> Iterator[Sequence[Any]]:
    """Yield the rows whose costs are not plainly right, in order, some at a time. Add sets that came meanwhile."""
    statement = f"WITH {write_sets(sets)} {_ROWS}"
    behind: Sequence[str] = ("", "")
    while True:
        rows = connection.execute(statement, behind).fetchall()
        if any(row[2] not in sets for row in rows):
            sets.update((stored.hash, stored.prices) for stored in read_price_sets(connection))
        yield from rows
        if len(rows) < _PAGE_ROWS:
            return
        behind = (rows[-1][-1], rows[-1][0])


def _rows_name_sets(connection: Ledger) -> bool:
    """Return False for a ledger that no gateway of a version with price sets has opened."""
    sql = "SELECT 1 FROM pragma_table_info('usage') WHERE name = 'price_set'"
    return connection.execute(sql).fetchone() is not None


def _check_row(row: Sequence[Any], sets: _Sets) -> str | None:
    """Return why a row's cost does not follow from its counts, None where it does."""
    _, mode, name, *recorded = row[: len(_FACTS)]
    prices = sets.get(name)
    if mode == "byok":
        return "it had a customer's own key, but has a price" if name or any(recorded) else None
    if name is None:
        return "it names no price set"
    if prices is None:
        return f"its price set {name} {'was changed' if name in sets else 'is missing'}"
    computed = compute_call_costs_nanousd(Usage(*row[len(_FACTS) : -1]), prices)
    if computed == recorded:
        return None
    return (
        f"{recorded[0]} nano-USD wholesale and {recorded[1]} retail are recorded;"
        f" its counts cost {computed[0]} and {computed[1]} at its price set {name}"
    )
