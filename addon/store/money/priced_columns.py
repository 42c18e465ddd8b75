"""The columns of ``usage`` for what few models have a price for. Source: docs/ledger.md, "The table `usage`"."""

from typing import Final

PRICED_COLUMNS: Final = (
    "reported_nanousd",
    "cache_write_1h_tokens",
    "audio_input_tokens",
    "cached_audio_tokens",
    "image_input_tokens",
    "audio_output_tokens",
    "searches",
    "service_tier",
)
PRICED_COLUMNS_SCHEMA: Final = tuple(
    f"ALTER TABLE usage ADD COLUMN {name} {'TEXT' if name == 'service_tier' else 'INTEGER'}"
    for name in PRICED_COLUMNS
)
