"""The table ``prices``, and the columns of ``usage`` that say what priced a call. Source: docs/ledger.md."""

from typing import Final

NOT_KEPT: Final = "not kept"
"""The ``price_set`` of a call that an earlier version recorded."""

PRICE_SET_SCHEMA: Final = (
    # The rows that are there get the default, and none of them is written. So does a row of a process of an earlier
    # version, which does not know the column.
    f"ALTER TABLE usage ADD COLUMN price_set TEXT DEFAULT '{NOT_KEPT}'",
    "ALTER TABLE usage ADD COLUMN platform_key INTEGER",
    """
    CREATE TABLE prices (
        hash TEXT NOT NULL PRIMARY KEY CHECK (hash GLOB '[0-9a-f]*' AND length(hash) = 32),
        -- The first call that had them, outside the hash.
        first_at TEXT NOT NULL CHECK (first_at GLOB '????-??-??T??:??:??.???+00:00'),
        model_slug TEXT NOT NULL,
        content TEXT NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
)
