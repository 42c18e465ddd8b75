"""Token counts as the provider reported them. None is computed, and an absent count stays unknown. Pure."""

import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from policies.family import Family
from policies.money import MAX_CAP_USD
from policies.plausible_usage import NOT_A_COUNT
from policies.usage import Usage

type Path = tuple[str, tuple[str, ...]]
"""The place of a count in a report: a name, and the names inside its value."""

# Most specific first: when a provider writes one count twice, the first place in this list decides.
CACHED_TOKENS_AT = (
    "prompt_tokens_details.cached_tokens",
    "prompt_token_details.cached_tokens",
    "input_tokens_details.cached_tokens",
    "prompt_cache_hit_tokens",
    "cached_tokens",
    "num_cached_tokens",
    "cache_read_input_tokens",
)
REASONING_TOKENS_AT = ("completion_tokens_details.reasoning_tokens", "reasoning_tokens")
CACHE_WRITE_TOKENS_AT = ("prompt_tokens_details.cache_write_tokens", "cache_creation_input_tokens")
_PRICED_AT = (
    ("cache_creation.ephemeral_1h_input_tokens",),
    ("prompt_tokens_details.audio_tokens",),
    ("prompt_tokens_details.cached_tokens_details.audio_tokens",),
    ("prompt_tokens_details.image_tokens",),
    ("completion_tokens_details.audio_tokens",),
    (
        *("server_tool_use.web_search_requests", "server_tool_use_details.web_search_requests"),
        "num_sources_used",
    ),
)
"""The places of the counts that few models have a price for, in the order of the fields of ``Usage``."""
USAGE_MEMBERS = frozenset({"usage", "x_groq"})
"""The members of an answer, or of a chunk, that may have counts. Groq reports in ``x_groq`` in streams."""
_TOTALS = ("prompt_tokens", "completion_tokens", "total_tokens")
_NO_COUNTS = [None] * (6 + len(_PRICED_AT))
_MAX_DIGITS = 40  # A longer number is not a count, and a very long one takes too much time to read.
_COST_MEMBERS = frozenset({"cost", "cost_in_usd_ticks"})
_SERVICE_TIER = re.compile(r"[A-Za-z][A-Za-z_-]{0,31}")
_NAMES = Usage.__struct_fields__


def parse_usage(payload: Mapping[str, object], family: Family) -> Usage | None:
    """Return the counts of a whole answer or of one chunk, or None when it reports none and names no service tier.

    A count is an integer, a float without a fraction (12.0), or digits in a string. A value of another kind counts as
    absent. A number that can't be a count (negative, not finite) is ``NOT_A_COUNT``. When ``family`` does not say
    where its counts are, all known places are searched. Source: contract, "usage object".
    """
    vendor = payload.get("x_groq")  # where Groq reports in streams
    for report in (payload.get("usage"), vendor.get("usage") if isinstance(vendor, dict) else None):
        if isinstance(report, dict) and (usage := _read(report, family, payload.get("service_tier"))):
            return usage
    tier = payload.get("service_tier")  # OpenAI names it in each chunk, and counts in the last one only.
    known = read_service_tier(tier) if isinstance(tier, str) else None
    return None if known is None else Usage(service_tier=known)


@lru_cache(maxsize=64)
def read_service_tier(name: str) -> str | None:
    """Return the service tier that an answer names, in lower case; None for a text that is no name."""
    # Vertex says ON_DEMAND_PRIORITY. Source: Vertex AI, "TrafficType".
    return name.lower().removeprefix("on_demand_") if _SERVICE_TIER.fullmatch(name) else None


def merge_usage(earlier: Usage | None, later: Usage) -> Usage:
    """Return the counts of two reports of one stream: the later count wins, and an absent one changes nothing.

    But a cost is that of the counts beside it, so a later completion without a cost has none.
    """
    if earlier is None:
        return later
    counts = ((getattr(later, name), getattr(earlier, name)) for name in _NAMES)
    merged = Usage(*(before if now is None else now for now, before in counts))
    if later.completion_tokens is None or later.reported_nanousd == merged.reported_nanousd:
        return merged
    return replace(merged, reported_nanousd=None)


def _read(report: Mapping[str, object], family: Family, service_tier: object) -> Usage | None:
    counts: list[Any] = []
    for name in _TOTALS:
        value = report.get(name)
        if value is None or (type(value) is int and value >= 0):
            counts.append(value)
        else:
            counts.append(read_count(value))
    for places in (
        family.cached_tokens_at or CACHED_TOKENS_AT,
        family.reasoning_tokens_at or REASONING_TOKENS_AT,
        CACHE_WRITE_TOKENS_AT,
        *_PRICED_AT,
    ):
        names, paths = _compile(places)
        counts.append(None if names.isdisjoint(report) else _find_count(report, paths))
    if counts == _NO_COUNTS:
        return None
    tier = service_tier or report.get("service_tier")  # Mistral has it in its usage.
    counts.append(read_service_tier(tier) if isinstance(tier, str) else None)
    counts.append(None if _COST_MEMBERS.isdisjoint(report) else _read_cost(report))
    return Usage(*counts)


def _read_cost(report: Mapping[str, object]) -> int | None:
    """Return the cost that a provider reports, in nano-USD, or ``NOT_A_COUNT`` for an amount that can't be one.

    A tick is 10⁻¹⁰ USD; no ticks are no cost, because resellers report 0. A cost is in USD; where the provider called
    another one with a key of the operator's, it is only its fee. The shortest text of a number is what was written.
    Source: xAI, "Cost tracking"; OpenRouter, "Usage accounting".
    """
    if ticks := read_count(report.get("cost_in_usd_ticks")):
        return NOT_A_COUNT if ticks < 0 else (ticks + 5) // 10
    cost = report.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or report.get("is_byok"):
        return None
    if not 0 <= cost <= MAX_CAP_USD:
        return NOT_A_COUNT
    return int(Decimal(repr(cost)).scaleb(9).quantize(Decimal(1), ROUND_HALF_UP))


@lru_cache(maxsize=256)
def _compile(places: tuple[str, ...]) -> tuple[frozenset[str], tuple[Path, ...]]:
    """Return the names in a report that may have a count, and the whole paths."""
    paths = [place.split(".") for place in places]
    return frozenset(path[0] for path in paths), tuple((path[0], tuple(path[1:])) for path in paths)


def _find_count(report: Mapping[str, object], paths: Sequence[Path]) -> int | None:
    for first, inside in paths:
        value = report.get(first)
        for name in inside:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None and (count := read_count(value)) is not None:
            return count
    return None


def sum_counts(*counts: int | None) -> int:
    """Return the sum of counts, or ``NOT_A_COUNT`` when one of them is."""
    known = [count for count in counts if count is not None]
    return NOT_A_COUNT if any(count < 0 for count in known) else sum(known)


def read_count(value: object) -> int | None:
    """Return a count as a provider wrote it.

    Return None for a value that is not a number, and ``NOT_A_COUNT`` for a number that can't be a count.
    """
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit()):
            return None
        return int(value) if len(value) <= _MAX_DIGITS else NOT_A_COUNT
    if isinstance(value, float):
        if not math.isfinite(value):
            return NOT_A_COUNT
        value = int(value) if value.is_integer() else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if value >= 0 else NOT_A_COUNT
