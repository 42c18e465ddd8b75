"""The calls of some models, for what they cost at other prices. Source: docs/ledger.md."""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from addon.store.money.ledger import Ledger
from addon.store.money.reports.provider_calls import select_kept


def select_model_calls(
    ledger: Ledger, slugs: Collection[str], since: str, columns: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield ``columns`` of each call of these models since a moment. A column that the ledger does not keep is None."""
    sql = f"""
        SELECT {select_kept(ledger, columns)} FROM usage
        WHERE created_at >= ? AND model_slug IN (SELECT value FROM json_each(?))
    """  # noqa: S608
    yield from ledger.execute(sql, (since, json.dumps(sorted(slugs))))
