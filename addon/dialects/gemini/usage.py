"""Gemini's usageMetadata becomes the chat shape's usage block: only the counts that were reported. Pure.

Source: Gemini API reference, "UsageMetadata"; recorded traffic.
"""

from collections.abc import Mapping
from typing import Any

from addon.answers.usage import read_count, read_service_tier, sum_counts
from policies.usage import Usage


def usage_block(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the usage block, or None when nothing was counted.

    ``completion_tokens`` do not include thoughts. ``prompt_tokens`` include what provider-run tools added to the
    prompt. The API leaves out every zero: a missing completion next to a total means 0.
    """
    completion, total = _count(metadata, "candidatesTokenCount"), _count(metadata, "totalTokenCount")
    if completion is None and total is not None:
        completion = 0
    prompt, from_tools = _count(metadata, "promptTokenCount"), _count(metadata, "toolUsePromptTokenCount")
    counts = {
        "prompt_tokens": prompt if prompt is None else sum_counts(prompt, from_tools),
        "completion_tokens": completion,
        "total_tokens": total,
        "prompt_tokens_details": _one("cached_tokens", _count(metadata, "cachedContentTokenCount")),
        "completion_tokens_details": _one("reasoning_tokens", _count(metadata, "thoughtsTokenCount")),
    }
    return {name: count for name, count in counts.items() if count is not None} or None


def running_usage(metadata: Mapping[str, Any], *, shows_thoughts: bool) -> dict[str, Any] | None:
    """Return the counts that are known while the model still writes.

    The count of hidden thoughts is included: thinking is over by then, and no other source reports it. Shown thoughts
    are estimated with all other text, so their count is left out.
    """
    running = {"completion_tokens", "total_tokens"}
    if shows_thoughts:
        running.add("completion_tokens_details")
    known = usage_block(metadata) or {}
    return {name: count for name, count in known.items() if name not in running} or None


def read_priced(answer: Mapping[str, Any]) -> Usage:
    """Return the counts of a whole answer, or of an event, that the chat shape has no place for.

    Cached tokens are in the details of the prompt, too. Source: Gemini API reference, "ModalityTokenCount",
    "GroundingMetadata", "Flex inference"; Vertex AI, "TrafficType"; recorded traffic.
    """
    metadata = answer.get("usageMetadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    prompt, cached = metadata.get("promptTokensDetails"), metadata.get("cacheTokensDetails")
    tier = metadata.get("serviceTier") or metadata.get("trafficType")
    return Usage(
        audio_input_tokens=_of_modality(prompt, "AUDIO"),
        cached_audio_tokens=_of_modality(cached, "AUDIO"),
        image_input_tokens=_of_modality(prompt, "IMAGE"),
        audio_output_tokens=_of_modality(metadata.get("candidatesTokensDetails"), "AUDIO"),
        searches=count_searches(answer.get("candidates")),
        service_tier=read_service_tier(tier) if isinstance(tier, str) else None,
    )


def _of_modality(details: object, modality: str) -> int | None:
    found = [
        read_count(one.get("tokenCount"))
        for one in (details if isinstance(details, list) else ())
        if isinstance(one, Mapping) and one.get("modality") == modality
    ]
    return sum_counts(*found) if found else None


def count_searches(candidates: object) -> int | None:
    """Return how many queries the provider searched the web for, None where it reports none."""
    searches = None
    for candidate in candidates if isinstance(candidates, list) else ():
        grounding = candidate.get("groundingMetadata") if isinstance(candidate, Mapping) else None
        queries = grounding.get("webSearchQueries") if isinstance(grounding, Mapping) else None
        if isinstance(queries, list):
            searches = (searches or 0) + len(queries)
    return searches


def _count(metadata: Mapping[str, Any], name: str) -> int | None:
    return read_count(metadata.get(name))


def _one(name: str, count: int | None) -> dict[str, int] | None:
    return None if count is None else {name: count}
