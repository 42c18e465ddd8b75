"""The rows of calls: their columns, and how they are made complete, written as JSON, and repaired.

Source: docs/ledger.md.
"""

import json
from typing import Any

import msgspec

from addon.store.money.engine import Row, Table
from addon.store.money.price_set_schema import NOT_KEPT
from addon.store.money.priced_columns import PRICED_COLUMNS
from addon.store.money.sqlite.early_migration_steps import LARGEST
from addon.store.protocol import IllegalRowError
from policies.attempt_ends import ATTEMPT_ENDS
from policies.exchange import INTERRUPTED
from policies.ledger_row import PRICE_SET_CONTENT

USAGE = Table(
    "usage",
    (
        "id",
        "created_at",
        "workspace",
        "key_id",
        "requested_model",
        "model_slug",
        "provider",
        "upstream_model_id",
        "mode",
        "fallback",
        "attempts",
        "stream",
        "status",
        "error_code",
        "finish_reason",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "cached_tokens",
        "reasoning_tokens",
        "usage_source",
        "wholesale_nanousd",
        "retail_nanousd",
        "first_byte_ms",
        "duration_ms",
        "end_user",
        "cache_write_tokens",
        "client_request_id",
        "resends",
        *PRICED_COLUMNS,
        "price_set",
        "platform_key",
        "tags",
        "deployment",
        "budgets",
        "api",
    ),
)

CALL = "call"
"""The ``reference`` of a wallet entry for the cost of a call. Its ``id`` is the id of the call."""

WAS_INTERRUPTED = f"error_code IS '{INTERRUPTED}' AND usage_source = 'none' AND duration_ms = 0"
"""The SQL condition for the row of a dead process: only such a row has the duration 0."""

# A row of an older version, in a hold or an outbox, lacks the columns that were added later.
_LATER_COLUMNS = {
    "cache_write_tokens": None,
    "client_request_id": None,
    "resends": 0,
    **dict.fromkeys(PRICED_COLUMNS),
    "price_set": NOT_KEPT,
    "platform_key": None,
    "tags": None,
    "deployment": None,
    "budgets": None,
    "api": "chat",
    PRICE_SET_CONTENT: None,
    ATTEMPT_ENDS: None,
}


def complete_row(row: Row) -> Row:
    """Return a row of this or an older version with all columns that came later."""
    return {**_LATER_COLUMNS, **row}


def values_of(row: Row) -> list[Any]:
    """Return the values of a complete row, in the order of ``USAGE``. Raises ``IllegalRowError``."""
    try:
        return [row[name] for name in USAGE.columns]
    except KeyError as error:
        raise IllegalRowError(f"usage row {row.get('id')}: it has no {error}") from error


def encode_row(row: Row) -> str:
    """Return a row as JSON, for ``Settlement``."""
    try:
        return msgspec.json.encode(row).decode()
    except (UnicodeEncodeError, OverflowError):
        # It has half a surrogate pair of a client, or a number of more than 64 bits.
        return json.dumps(make_storable(row))


def make_storable(row: Row) -> dict[str, Any]:
    """Return ``row`` with counts limited to ``LARGEST``, and text that no database may take replaced.

    That is a lone surrogate, which is no valid text, and NUL, which PostgreSQL takes in no text.
    """
    return {name: _storable_value(value) for name, value in row.items()}


def _storable_value(value: Any) -> Any:
    if isinstance(value, int):
        return min(value, LARGEST)
    return value.replace("\0", "").encode(errors="replace").decode() if isinstance(value, str) else value
