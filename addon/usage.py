"""Token counts are read as the provider wrote them: none is computed, what is absent stays unknown. Pure."""

from collections.abc import Mapping

from policies.facts import Usage

# Most specific first: where a provider writes one count twice, the first name found here decides.
_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("prompt_token_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("prompt_cache_hit_tokens",),
    ("cached_tokens",),
    ("num_cached_tokens",),
    ("cache_read_input_tokens",),
)
_CACHE_WRITE = (("prompt_tokens_details", "cache_write_tokens"), ("cache_creation_input_tokens",))
_REASONING = (("completion_tokens_details", "reasoning_tokens"), ("reasoning_tokens",))


def parse_usage(payload: Mapping[str, object]) -> Usage | None:
    """Return the counts of a whole answer or of one chunk, or None where it reports none.

    Counts are non-negative integers; a value of another kind counts as absent.
    Source: contract, "usage object".
    """
    vendor = payload.get("x_groq")  # where Groq reports in streams
    for report in (payload.get("usage"), vendor.get("usage") if isinstance(vendor, dict) else None):
        if isinstance(report, dict) and (usage := _read(report)) != _NOTHING:
            return usage
    return None


def merge_usage(earlier: Usage | None, later: Usage) -> Usage:
    """Return what two reports of one stream say together: the later count holds, silence takes none back."""
    if earlier is None:
        return later
    return Usage(
        prompt_tokens=_later(earlier.prompt_tokens, later.prompt_tokens),
        completion_tokens=_later(earlier.completion_tokens, later.completion_tokens),
        total_tokens=_later(earlier.total_tokens, later.total_tokens),
        cached_tokens=_later(earlier.cached_tokens, later.cached_tokens),
        reasoning_tokens=_later(earlier.reasoning_tokens, later.reasoning_tokens),
        cache_write_tokens=_later(earlier.cache_write_tokens, later.cache_write_tokens),
    )


_NOTHING = Usage()


def _read(report: Mapping[str, object]) -> Usage:
    return Usage(
        prompt_tokens=_count(report, (("prompt_tokens",),)),
        completion_tokens=_count(report, (("completion_tokens",),)),
        total_tokens=_count(report, (("total_tokens",),)),
        cached_tokens=_count(report, _CACHED),
        reasoning_tokens=_count(report, _REASONING),
        cache_write_tokens=_count(report, _CACHE_WRITE),
    )


def _count(report: Mapping[str, object], paths: tuple[tuple[str, ...], ...]) -> int | None:
    for path in paths:
        value: object = report
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def _later(earlier: int | None, later: int | None) -> int | None:
    return earlier if later is None else later
