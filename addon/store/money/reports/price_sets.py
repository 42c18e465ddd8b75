"""Price sets as the ledger has them. Source: docs/ledger.md, "The table `prices`"."""

from collections.abc import Iterator
from typing import NamedTuple

from addon.store.money.ledger import Ledger
from addon.store.money.reports.report import has_table
from policies.price_set import PriceSet, hash_content


class StoredSet(NamedTuple):
    """A row of ``prices``: its set, None where it was changed or can't be read, and what is wrong with it."""

    hash: str
    prices: PriceSet | None
    fault: str | None


def read_price_sets(ledger: Ledger) -> Iterator[StoredSet]:
    """Yield all price sets."""
    if has_table(ledger, "prices"):
        for name, content in ledger.execute("SELECT hash, content FROM prices ORDER BY hash"):
            yield _read(name, content)


def find_price_set(ledger: Ledger, name: str) -> PriceSet | None:
    """Return a set that is there, and as it was written."""
    row = ledger.execute("SELECT content FROM prices WHERE hash = ?", (name,)).fetchone()
    return _read(name, *row).prices if row else None


def _read(name: str, content: str) -> StoredSet:
    if hash_content(content) != name:
        return StoredSet(name, None, "its content was changed")
    try:
        return StoredSet(name, PriceSet.parse(content), None)
    except ValueError as error:
        return StoredSet(name, None, str(error))
