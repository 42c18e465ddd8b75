"""Token counts are read as the provider wrote them: none is computed, what is absent stays unknown. Pure."""

from collections.abc import Iterator, Mapping

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
_REASONING = (("completion_tokens_details", "reasoning_tokens"), ("reasoning_tokens",))


def parse_usage(payload: Mapping[str, object]) -> Usage | None:
    """Return the counts of a whole answer or of one chunk, or None where it reports none.

    Counts are non-negative integers; a value of another kind counts as absent.
    Source: contract, "usage object".
    """
    for report in _reports(payload):
        usage = Usage(
            prompt_tokens=_count(report, (("prompt_tokens",),)),
            completion_tokens=_count(report, (("completion_tokens",),)),
            total_tokens=_count(report, (("total_tokens",),)),
            cached_tokens=_count(report, _CACHED),
            reasoning_tokens=_count(report, _REASONING),
        )
        if usage != _NOTHING:
            return usage
    return None


def merge_usage(earlier: Usage | None, later: Usage | None) -> Usage | None:
    """Return what two reports of one stream say together: the later count holds, silence takes none back."""
    if earlier is None or later is None:
        return later or earlier
    return Usage(
        prompt_tokens=_later(earlier.prompt_tokens, later.prompt_tokens),
        completion_tokens=_later(earlier.completion_tokens, later.completion_tokens),
        total_tokens=_later(earlier.total_tokens, later.total_tokens),
        cached_tokens=_later(earlier.cached_tokens, later.cached_tokens),
        reasoning_tokens=_later(earlier.reasoning_tokens, later.reasoning_tokens),
    )


_NOTHING = Usage()


def _reports(payload: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The usage objects of a payload: its own, then the one that Groq puts under ``x_groq`` in streams."""
    vendor = payload.get("x_groq")
    for holder in (payload, vendor):
        if isinstance(holder, Mapping) and isinstance(report := holder.get("usage"), Mapping):
            yield report


def _count(report: Mapping[str, object], paths: tuple[tuple[str, ...], ...]) -> int | None:
    for path in paths:
        value: object = report
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def _later(earlier: int | None, later: int | None) -> int | None:
    return earlier if later is None else later
