"""The ledger that is copied: its rows in bounded batches, and its sums, read at one moment."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from addon.store.money.audit.audit_chain import read_chain
from addon.store.money.copying.tables import COPIED, CopiedTable
from addon.store.money.ledger import Ledger
from addon.store.money.postgres.ledger import PostgresLedger

BATCH_ROWS: Final = 5000


def read_batches(
    ledger: Ledger, table: CopiedTable, columns: Sequence[str]
) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield the rows of a table, some thousand at a time, in the order of its key.

    One query reads them all: each further one would add up a view of sums again. No engine holds them all in memory.
    """
    shown = ", ".join(f"buckets_text({one})" if one in table.distributions else f'"{one}"' for one in columns)
    sql = f"SELECT {shown} FROM {table.name} ORDER BY {', '.join(table.key)}"  # noqa: S608
    with closing(_open_cursor(ledger)) as cursor:
        cursor.execute(sql)
        while rows := cursor.fetchmany(BATCH_ROWS):
            yield rows


def _open_cursor(ledger: Ledger) -> Any:
    """Return a cursor that reads its rows as they are fetched. PostgreSQL does so for one that has a name."""
    if isinstance(ledger, PostgresLedger):
        return ledger.connection.cursor(name="copied")
    assert isinstance(ledger, sqlite3.Connection)  # noqa: S101  (there are two engines)
    return ledger.cursor()


def read_sums(ledger: Ledger) -> Mapping[str, int | str]:
    """Return what people compare of two ledgers, by name: counts, tokens, nano-USD, the head of the audit log."""
    sums: dict[str, int | str] = {}
    for name, table, expressions in _SUMS:
        columns = ", ".join(expressions.values())
        found = ledger.execute(f"SELECT {columns} FROM {table}").fetchone()  # noqa: S608
        sums |= {f"{name}{of}": value for of, value in zip(expressions, found, strict=True)}
    for copied in COPIED:
        sums.setdefault(copied.name.replace("_", " "), _count(ledger, copied.name))
    chain = read_chain(ledger)
    return {**sums, "audit log, line": chain.line, "audit log, head": chain.head or ""}


def order_distribution(text: str) -> str:
    """Return the counts of a distribution in the order of its buckets, as PostgreSQL writes them."""
    counts: Mapping[str, int] = json.loads(text)
    return json.dumps({name: counts[name] for name in sorted(counts, key=int)}, separators=(",", ":"))


def _count(ledger: Ledger, table: str) -> int:
    found: int = ledger.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
    return found


def _sum(column: str) -> str:
    return f"coalesce(sum({column}), 0)"


_SUMS: Final = (
    (
        "calls",
        "usage",
        {
            "": "count(*)",
            ", prompt tokens": _sum("prompt_tokens"),
            ", completion tokens": _sum("completion_tokens"),
            ", cached tokens": _sum("cached_tokens"),
            ", wholesale nano-USD": _sum("wholesale_nanousd"),
            ", retail nano-USD": _sum("retail_nanousd"),
        },
    ),
    ("wallet entries", "wallet_entries", {"": "count(*)", ", nano-USD": _sum("amount_nanousd")}),
    (
        "counters",
        "spend",
        {"": "count(*)", ", nano-USD": _sum("spent_nanousd"), ", calls": _sum("requests")},
    ),
    ("refusals", "refusals", {"": "count(*)", ", calls": _sum("count")}),
    (
        "hours",
        "rollups",
        {"": "count(*)", ", calls": _sum("calls"), ", retail nano-USD": _sum("retail_nanousd")},
    ),
)
