"""The calls of some models, for what they cost at other prices. Source: docs/ledger.md."""

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from addon.store.money.reports.provider_calls import select_kept


def select_model_calls(
    connection: sqlite3.Connection, slugs: Collection[str], since: str, columns: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield ``columns`` of each call of these models since a moment. A column that the ledger does not keep is None."""
    sql = f"""
        SELECT {select_kept(connection, columns)} FROM usage
        WHERE created_at >= ? AND model_slug IN (SELECT value FROM json_each(?))
    """  # noqa: S608
    yield from connection.execute(sql, (since, json.dumps(sorted(slugs))))
