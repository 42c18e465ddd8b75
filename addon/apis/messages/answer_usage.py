"""What a chat answer counts and why it ended, in the words of the Messages API. Pure.

Source: Anthropic, API reference, "Messages" (usage, stop_reason); "Prompt caching", "Tracking cache performance".
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from addon.apis.answer_counts import known_count, output_tokens
from policies.usage import Usage

_STOP_REASONS: Final = MappingProxyType(
    {
        "stop": "end_turn",
        "length": "max_tokens",
        "content_filter": "refusal",
        "tool_calls": "tool_use",
        "function_call": "tool_use",
    }
)
_SERVICE_TIERS: Final = MappingProxyType(
    {"default": "standard", "standard": "standard", "priority": "priority"}
)


def make_usage(usage: Usage | None, prompt_tokens: int, chars: int) -> dict[str, Any]:
    """Return the counts of an answer. ``input_tokens`` are those that no cache has read or written.

    Where the provider does not count, they are ``prompt_tokens``, and an estimate of an answer of ``chars`` characters.
    """
    known = usage or Usage()
    cached, written = known_count(known.cached_tokens) or 0, known_count(known.cache_write_tokens) or 0
    prompt = known_count(known.prompt_tokens)
    made: dict[str, Any] = {
        "input_tokens": max(0, (prompt_tokens if prompt is None else prompt) - cached - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
        "output_tokens": output_tokens(known, chars),
    }
    if (thought := known_count(known.reasoning_tokens)) is not None:
        made["output_tokens_details"] = {"thinking_tokens": min(thought, made["output_tokens"])}
    if searches := known_count(known.searches):
        made["server_tool_use"] = {"web_search_requests": searches, "web_fetch_requests": 0}
    return made


def whole_usage(usage: Usage | None, made: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of a whole answer: they also say how long a cache keeps what it has written, and the tier."""
    known = usage or Usage()
    terms, tier = {}, _SERVICE_TIERS.get(known.service_tier or "")
    if (hour := known_count(known.cache_write_1h_tokens)) is not None:
        written = made["cache_creation_input_tokens"]
        terms = {
            "ephemeral_5m_input_tokens": max(0, written - hour),
            "ephemeral_1h_input_tokens": hour,
        }
    return {
        **made,
        **({"cache_creation": terms} if terms else {}),
        **({"service_tier": tier} if tier else {}),
    }


def make_stop(
    choice: Mapping[str, Any], request: Mapping[str, Any], *, has_calls: bool, refusal: str
) -> dict[str, Any]:
    """Return why an answer ended. ``refusal`` is the text with which the model refused to answer.

    A stop sequence is known only from servers that name it. Source: vLLM, SGLang, "stop_reason", "matched_stop".
    """
    reason = _STOP_REASONS.get(str(choice.get("finish_reason"))) or ("tool_use" if has_calls else "end_turn")
    if reason == "tool_use" and not has_calls:
        reason = "end_turn"
    sequences = request.get("stop_sequences")
    matched = choice.get("stop_reason") or choice.get("matched_stop")
    if (
        reason == "end_turn"
        and isinstance(sequences, Sequence)
        and isinstance(matched, str)
        and matched in sequences
    ):
        return {"stop_reason": "stop_sequence", "stop_sequence": matched}
    if refusal and reason == "end_turn":
        reason = "refusal"
    made: dict[str, Any] = {"stop_reason": reason, "stop_sequence": None}
    if reason == "refusal":
        made["stop_details"] = {"type": "refusal", "category": None, "explanation": refusal or None}
    return made
