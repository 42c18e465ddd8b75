"""The rule for finish reasons: each provider's own words become the contract's. Pure.

An unknown word is kept. The contract allows others, and a wrong translation would hide the provider's word (DeepSeek's
``insufficient_system_resource``, OpenRouter's ``error``).
Source: contract, "choices[] element"; recordings, each provider's own words in comments.
"""

from collections.abc import Iterable

_STOP = (
    "stop",
    "eos",  # Together
    "eos_token",  # Hugging Face TGI
    "end_turn",  # Anthropic, behind other providers
    "stop_sequence",  # Anthropic, Hugging Face TGI
    "pause_turn",  # Anthropic
    "complete",  # Cohere
    "completed",  # OpenAI's Responses API, behind other providers
)
_LENGTH = (
    "length",
    "max_tokens",  # Anthropic, Cohere, Gemini
    "max_output_tokens",  # OpenAI's Responses API, behind other providers
    "model_length",  # Mistral: the context is full
    "model_context_window_exceeded",  # Anthropic
)
_TOOL_CALLS = (
    "tool_calls",
    "tool_call",  # Cohere, models hosted by Azure
    "tool_use",  # Anthropic
)
_CONTENT_FILTER = (
    "content_filter",
    "refusal",  # Anthropic
    "sensitive",  # Z.ai
    "content_filtered",  # Amazon Bedrock
    "guardrail_intervened",  # Amazon Bedrock
    *("safety", "recitation", "blocklist", "prohibited_content", "spii", "image_safety"),  # Gemini
)
_STANDARD = (
    dict.fromkeys(_STOP, "stop")
    | dict.fromkeys(_LENGTH, "length")
    | dict.fromkeys(_TOOL_CALLS, "tool_calls")
    | dict.fromkeys(_CONTENT_FILTER, "content_filter")
    | {"function_call": "function_call"}
)
STANDARD_WORDS = frozenset(_STANDARD.values())
_NUMBERED = {2: "length", 3: "content_filter", 4: "content_filter", 7: "content_filter", 8: "content_filter"}
"""Gemini's enumeration. Any other number, such as that of the last token, says only that the answer ended."""


def standard_finish_reason(reason: object, *, calls_tools: bool) -> str | None:
    """Return the contract's word for a provider's, or None when it does not say that the answer ended.

    In a choice with tool calls, "stop" becomes "tool_calls", because many clients would not run the calls otherwise.
    An empty word (or zero) gives None; whether it is an end depends on its place in the stream.
    """
    if not reason:
        return None
    if isinstance(reason, str):
        word = _STANDARD.get(reason) or _STANDARD.get(reason.lower(), reason)
    else:
        word = _NUMBERED.get(reason, "stop") if isinstance(reason, int) else "stop"
    return "tool_calls" if calls_tools and word == "stop" else word


def finish_reason_of_empty(*, calls_tools: bool) -> str:
    """Return what an empty finish_reason means at the end of an answer (Snowflake, xAI with tools)."""
    return "tool_calls" if calls_tools else "stop"


def last_finish_reason(choices: Iterable[object]) -> str | None:
    """Return the last finish_reason of ``choices`` that is not empty, as text."""
    found = None
    for choice in choices:
        reason = choice.get("finish_reason") if isinstance(choice, dict) else None
        if reason is not None and reason != "":
            found = str(reason)
    return found
