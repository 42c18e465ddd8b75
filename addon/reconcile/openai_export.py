"""OpenAI: the usage and costs of its API, and the CSV files of its dashboard. Pure.

Days are UTC. Sources: developers.openai.com/api/docs/api-reference/usage; help.openai.com/8554956 (CSV).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from addon.reconcile.export_line import ExportLine, Tokens, name_tier
from addon.reconcile.records import Record

TIME: Final = frozenset({"start_time", "end_time"})
USAGE: Final = TIME | {"input_tokens", "output_tokens"}
COSTS: Final = TIME | {"amount_value"}

_KINDS: Final = {
    "input": "input",
    "cached input": "cached_input",
    "cache writes": "cache_write",
    "output": "output",
}


def read_usage(records: Iterable[Record]) -> Iterator[ExportLine]:
    """Yield the counts of each bucket. All input includes what was cached and what was written."""
    for record in records:
        if not any(record.text(name) for name in ("input_tokens", "output_tokens", "num_model_requests")):
            continue  # A day without use.
        cached, written = record.count("input_cached_tokens"), record.count("input_cache_write_tokens")
        tokens = Tokens(
            max(record.count("input_tokens") - cached - written, 0),
            cached,
            written,
            record.count("output_tokens"),
        )
        batch = "batch" if record.text("batch").lower() == "true" else None
        yield ExportLine(
            record.day("start_time"),
            record.text("model") or None,
            record.text("api_key_id") or None,
            name_tier(record.text("service_tier"), batch),
            tokens=tokens,
            requests=record.count("num_model_requests"),
        )


def read_costs(records: Iterable[Record]) -> Iterator[ExportLine]:
    """Yield the cost of each line item: "MODEL, DIRECTION[, long context]". A service tier may be at any place."""
    for record in records:
        if not record.text("amount_value"):
            continue  # A day without cost.
        record.require_usd("amount_currency")
        model, *parts = [part.strip() for part in record.text("line_item").split(",")]
        kind = next((_KINDS[part] for part in parts if part in _KINDS), None)
        tiers = [part for part in parts if part not in _KINDS] if kind else []
        in_tokens = record.text("quantity") and record.text("quantity_unit") in ("tokens", "")
        yield ExportLine(
            record.day("start_time"),
            model or None,
            record.text("api_key_id") or None,
            name_tier(*tiers),
            kind,
            Tokens.of_kind(kind, record.count("quantity")) if kind and in_tokens else None,
            record.amount("amount_value"),
            is_tool=bool(model) and kind is None,
        )
