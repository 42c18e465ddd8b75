"""Anthropic: the usage and cost reports of its API, and the CSV files of its console. Pure.

Days are UTC. Source: platform.claude.com/docs/en/api/admin/usage_report and /cost_report. The API has amounts in cents,
the CSV in dollars, rounded to the cent in each row.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from addon.reconcile.export_line import LONG_CACHE, LONG_CONTEXT, ExportLine, Tokens, name_tier
from addon.reconcile.records import Record
from addon.reconcile.values import NANOUSD_PER_USD

USAGE_CSV: Final = frozenset({"usage_date_utc", "usage_output_tokens"})
COST_CSV: Final = frozenset({"usage_date_utc", "cost_usd"})
USAGE_JSON: Final = frozenset({"starting_at", "uncached_input_tokens"})
COST_JSON: Final = frozenset({"starting_at", "amount"})

_NANOUSD_PER_CENT: Final = NANOUSD_PER_USD // 100
_HALF_A_CENT: Final = _NANOUSD_PER_CENT // 2

_KINDS: Final = {
    "uncached_input_tokens": ("input", None),
    "input_no_cache": ("input", None),
    "cache_read_input_tokens": ("cached_input", None),
    "input_cache_read": ("cached_input", None),
    "cache_creation.ephemeral_5m_input_tokens": ("cache_write", None),
    "input_cache_write_5m": ("cache_write", None),
    "input_cache_write": ("cache_write", None),
    "cache_creation.ephemeral_1h_input_tokens": ("cache_write", LONG_CACHE),
    "input_cache_write_1h": ("cache_write", LONG_CACHE),
    "output_tokens": ("output", None),
    "output": ("output", None),
}


def read_usage_report(records: Iterable[Record]) -> Iterator[ExportLine]:
    """Yield the counts of the API's usage report. It has no number of calls."""
    for record in records:
        tokens = Tokens(
            record.count("uncached_input_tokens"),
            record.count("cache_read_input_tokens"),
            record.count("cache_creation_ephemeral_5m_input_tokens", "cache_creation_5m_input_tokens"),
            record.count("output_tokens"),
        )
        kept_long = record.count("cache_creation_ephemeral_1h_input_tokens", "cache_creation_1h_input_tokens")
        yield from _usage_lines(
            record, record.day("starting_at"), record.text("api_key_id"), tokens, kept_long
        )


def read_usage_csv(records: Iterable[Record]) -> Iterator[ExportLine]:
    """Yield the counts of the console's CSV."""
    for record in records:
        tokens = Tokens(
            record.count("usage_input_tokens_no_cache"),
            record.count("usage_input_tokens_cache_read"),
            record.count("usage_input_tokens_cache_write_5m", "usage_input_tokens_cache_write"),
            record.count("usage_output_tokens"),
        )
        kept_long = record.count("usage_input_tokens_cache_write_1h")
        yield from _usage_lines(
            record, record.day("usage_date_utc"), record.text("api_key"), tokens, kept_long
        )


def _usage_lines(record: Record, day: str, key: str, tokens: Tokens, kept_long: int) -> Iterator[ExportLine]:
    model, tier = record.text("model", "model_version") or None, _tier_of(record)
    yield ExportLine(day, model, key or None, tier, tokens=tokens)
    if kept_long:
        long = Tokens(cache_write=kept_long)
        yield ExportLine(day, model, key or None, name_tier(tier, LONG_CACHE), tokens=long)


def read_cost_report(records: Iterable[Record]) -> Iterator[ExportLine]:
    """Yield the costs of the API's cost report. It has no keys."""
    for record in records:
        record.require_usd("currency")
        cost_nanousd = record.amount("amount", unit_nanousd=_NANOUSD_PER_CENT)
        yield _cost_line(record, record.day("starting_at"), cost_nanousd, 1)


def read_cost_csv(records: Iterable[Record]) -> Iterator[ExportLine]:
    """Yield the costs of the console's CSV."""
    for record in records:
        yield _cost_line(record, record.day("usage_date_utc"), record.amount("cost_usd"), _HALF_A_CENT)


def _cost_line(record: Record, day: str, cost_nanousd: int, rounding_nanousd: int) -> ExportLine:
    token_type, cost_type = record.text("token_type"), record.text("cost_type")
    kind, term = _KINDS.get(token_type, (None, None))
    return ExportLine(
        day,
        record.text("model") or None,
        record.text("api_key_id", "api_key") or None,
        name_tier(_tier_of(record), term),
        kind,
        cost_nanousd=cost_nanousd,
        rounding_nanousd=rounding_nanousd,
        # An export that is not grouped by description has neither.
        is_tool=kind is None and bool(token_type or cost_type not in ("", "token", "tokens")),
    )


def _tier_of(record: Record) -> str | None:
    context = record.text("context_window")
    is_long = context.startswith((">", "200k"))
    return name_tier(
        record.text("service_tier", "usage_type"), LONG_CONTEXT if is_long else None, record.text("speed")
    )
