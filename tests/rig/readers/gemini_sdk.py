"""A recording of Gemini's generateContent and streamGenerateContent, read by the official SDK's types."""

from collections.abc import Iterable
from typing import Any

from google.genai.types import (
    Candidate,
    FinishReason,
    GenerateContentResponse,
    GenerateContentResponseUsageMetadata,
)

from rig.readers import Answer, Told, ToolCall

FINISH = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY"),
        "content_filter",
    ),
}


def read(payloads: Iterable[dict[str, Any]]) -> Answer:
    """Read a whole answer (one payload), or the payloads of a stream."""
    choices: dict[int, Told] = {}
    usage: GenerateContentResponseUsageMetadata | None = None
    for payload in payloads:
        # As the SDK reads what comes from the network: fields that it does not know are passed over.
        response = GenerateContentResponse._from_response(response=payload, kwargs={})
        usage = response.usage_metadata or usage
        for candidate in response.candidates or ():
            _add(choices.setdefault(candidate.index or 0, Told()), candidate)
        if not choices and response.prompt_feedback and response.prompt_feedback.block_reason:
            choices[0] = Told(finish_reason="content_filter")
    for told in choices.values():
        if told.calls and told.finish_reason == "stop":
            told.finish_reason = "tool_calls"
    return Answer(choices, _usage(usage))


def _add(told: Told, candidate: Candidate) -> None:
    for part in (candidate.content and candidate.content.parts) or ():
        if part.text and part.thought:
            told.reasoning += part.text
        elif part.text:
            told.text += part.text
        if (call := part.function_call) is not None:
            told.calls.append(ToolCall(call.id, call.name or "", call.args or {}))
    if candidate.finish_reason is not None:
        told.finish_reason = _finish(candidate.finish_reason)


def _finish(reason: FinishReason) -> str:
    return FINISH[reason.value]


def _usage(usage: GenerateContentResponseUsageMetadata | None) -> dict[str, Any] | None:
    """What the chat shape says of these counts; one that is not reported stays absent."""
    if usage is None:
        return None
    prompt = usage.prompt_token_count
    if prompt is not None:
        prompt += usage.tool_use_prompt_token_count or 0
    made: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": usage.candidates_token_count,
        "total_tokens": usage.total_token_count,
        "prompt_tokens_details": _detail("cached_tokens", usage.cached_content_token_count),
        "completion_tokens_details": _detail("reasoning_tokens", usage.thoughts_token_count),
    }
    return {name: value for name, value in made.items() if value is not None}


def _detail(name: str, count: int | None) -> dict[str, int] | None:
    return None if count is None else {name: count}
