"""Google: the cost table and the reports of Cloud Billing as CSV, for the Gemini API and Vertex AI. Pure.

Days are those of US Pacific time. A cost table is by month. Sources: cloud.google.com/billing/docs/how-to/cost-table
and /how-to/reports.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from addon.reconcile.export_line import LONG_CONTEXT, ExportLine, Tokens, name_tier
from addon.reconcile.records import Record

TIME_ZONE: Final = "America/Los_Angeles"
COST_TABLE: Final = frozenset({"SKU description", "Cost type", "Usage start date", "Usage amount"})
REPORT: Final = frozenset({"SKU description", "Usage amount"})

_DIRECTIONS: Final = (
    ("cached", "cached_input"),
    ("caching", "cached_input"),
    ("output", "output"),
    ("input", "input"),
)
"""In this order: a description of output may name its "short input text", and one of cached input both."""

_SERVICE_TIERS: Final = ("batch", "flex", "priority")
_MODEL: Final = re.compile(r"\bgemini ([0-9][0-9.]*(?: (?:pro|flash|ultra|nano|lite))*)")
_ROUNDED: Final = 5_000_000
_UNROUNDED: Final = 500


def read_cost_table(records: Iterable[Record]) -> Iterator[ExportLine]:
    """Yield the lines of usage. The last rows are totals, which would double the month."""
    for record in records:
        if record.text("Cost type").lower() == "usage" and not record.text("Credit type"):
            yield _line_of(record, record.day("Usage start date")[:7])


def read_report(records: Iterable[Record]) -> Iterator[ExportLine]:
    """Yield the lines of a report that is grouped by SKU. The last rows are totals and have no SKU."""
    for record in records:
        if not record.text("SKU description"):
            continue
        if not record.text("Date", "Month"):
            raise record.error(
                "Date", 'is missing; export the report with the time range "Daily", grouped by SKU'
            )
        month = record.text("Month")
        is_plain = re.fullmatch("[0-9]{4}-[0-9]{2}", month) is not None
        yield _line_of(
            record, month if is_plain else record.day("Month")[:7] if month else record.day("Date")
        )


def _line_of(record: Record, day: str) -> ExportLine:
    sku = record.text("SKU description")
    words = sku.lower().replace("_", " ")
    is_tokens = "token count" in words and "storage" not in words and "hour" not in words
    kind = next((kind for word, kind in _DIRECTIONS if word in words), None) if is_tokens else None
    found = _MODEL.search(words)
    cost_nanousd, rounding_nanousd = _cost_of(record)
    return ExportLine(
        day,
        f"gemini-{found[1].strip().replace(' ', '-')}" if found else None,
        None,
        _tier_of(words),
        kind,
        Tokens.of_kind(kind, record.count("Usage amount")) if kind else None,
        cost_nanousd,
        rounding_nanousd=rounding_nanousd,
        is_tool=kind is None,
    )


def _cost_of(record: Record) -> tuple[int, int]:
    """Return the cost, and by how much it may be rounded. The sign in a name is that of the currency."""
    names = {name.lower(): name for name in record.values}
    for wanted in ("unrounded cost ($)", "unrounded subtotal ($)"):
        if wanted in names:
            return record.amount(names[wanted]), _UNROUNDED
    for wanted in ("subtotal ($)", "cost ($)"):
        if wanted in names:
            return record.amount(names[wanted]), _ROUNDED
    raise record.error("Cost ($)", "is missing; export the file with costs, of an account in USD")


def _tier_of(words: str) -> str | None:
    said = words.split()
    tier = next((tier for tier in _SERVICE_TIERS if tier in said), None)
    return name_tier(tier, LONG_CONTEXT if "long" in said else None)
