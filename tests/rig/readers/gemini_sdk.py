"""A reader of Gemini's generateContent and streamGenerateContent with the types of the official SDK."""

import warnings
from collections.abc import Iterable
from typing import Any

from google.genai.types import (
    Candidate,
    FinishReason,
    GenerateContentResponse,
    GenerateContentResponseUsageMetadata,
)

from rig.readers import Answer, ReadChoice, ToolCall

WITHHELD = frozenset(
    {
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    }
)
"""The reasons of a withheld answer. Every other reason except a limit is a normal end."""
NUMBERED = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY"}
"""Gemini's protocol buffers, for recordings with ``enum-encoding=int``."""
ENUMS = frozenset(
    ("safetyRatings", "trafficType", "promptTokensDetails", "candidatesTokensDetails", "cacheTokensDetails")
)


def read(payloads: Iterable[dict[str, Any]]) -> Answer:
    """Read a whole answer (one payload), or the payloads of a stream."""
    choices: dict[int, ReadChoice] = {}
    usage: GenerateContentResponseUsageMetadata | None = None
    for payload in payloads:
        response = _response(payload)
        usage = response.usage_metadata or usage
        for candidate in response.candidates or ():
            _add(choices.setdefault(candidate.index or 0, ReadChoice()), candidate)
        if not choices and response.prompt_feedback and response.prompt_feedback.block_reason:
            choices[0] = ReadChoice(finish_reason="content_filter")
    for choice in choices.values():
        if choice.calls and choice.finish_reason == "stop":
            choice.finish_reason = "tool_calls"
    return Answer(choices, _usage(usage))


def _response(payload: dict[str, Any]) -> GenerateContentResponse:
    """Read a payload as the SDK reads one from the network: it ignores unknown fields."""
    with warnings.catch_warnings():
        # One recording has a finish reason that the SDK does not know; it only warns.
        warnings.filterwarnings("ignore", message=".* is not a valid ")
        return GenerateContentResponse._from_response(response=_named(payload), kwargs={})


def _add(choice: ReadChoice, candidate: Candidate) -> None:
    for part in (candidate.content and candidate.content.parts) or ():
        if part.text and part.thought:
            choice.reasoning += part.text
        elif part.text:
            choice.text += part.text
        if (call := part.function_call) is not None:
            choice.calls.append(ToolCall(call.id, call.name or "", call.args or {}))
    if candidate.finish_reason is not None:
        choice.finish_reason = _finish(candidate.finish_reason)


def _finish(reason: FinishReason) -> str:
    if reason.value == "MAX_TOKENS":
        return "length"
    return "content_filter" if reason.value in WITHHELD else "stop"


def _named(value: Any) -> Any:
    """Return a copy with enumerations as names, because the SDK accepts no numbers."""
    if isinstance(value, list):
        return [_named(item) for item in value]
    if not isinstance(value, dict):
        return value
    named = {key: _named(item) for key, item in value.items() if key not in ENUMS}
    if isinstance(value.get("finishReason"), int):
        named["finishReason"] = NUMBERED[value["finishReason"]]
    return named


def _usage(usage: GenerateContentResponseUsageMetadata | None) -> dict[str, Any] | None:
    """Return the counts in the chat shape. A count that is not reported stays absent."""
    if usage is None:
        return None
    prompt = usage.prompt_token_count
    if prompt is not None:
        prompt += usage.tool_use_prompt_token_count or 0
    completion = usage.candidates_token_count
    if completion is None and usage.total_token_count is not None:
        completion = 0  # protocol buffers leave out a zero
    made: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": usage.total_token_count,
        "prompt_tokens_details": _detail("cached_tokens", usage.cached_content_token_count),
        "completion_tokens_details": _detail("reasoning_tokens", usage.thoughts_token_count),
    }
    return {name: value for name, value in made.items() if value is not None} or None


def _detail(name: str, count: int | None) -> dict[str, int] | None:
    return None if count is None else {name: count}
