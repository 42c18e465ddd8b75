"""A recording of Amazon Bedrock's Converse API, read from its raw JSON. Source: the vendor's API reference."""

from collections.abc import Mapping
from typing import Any

from rig.readers import Answer, ReadChoice, ToolCall

FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}


def read(answer: Mapping[str, Any]) -> Answer:
    """Read a whole answer."""
    choice = ReadChoice(finish_reason=FINISH[answer["stopReason"]])
    for block in answer["output"]["message"]["content"]:
        choice.text += block.get("text", "")
        for part in block.get("citationsContent", {}).get("content", []):
            choice.text += part["text"]
        choice.reasoning += block.get("reasoningContent", {}).get("reasoningText", {}).get("text", "")
        used = block.get("toolUse")
        if used and used.get("type") != "server_tool_use":
            choice.calls.append(ToolCall(used["toolUseId"], used["name"], used["input"]))
    return Answer({0: choice}, _usage(answer.get("usage")))


def _usage(counts: Mapping[str, int] | None) -> dict[str, Any] | None:
    """Return the counts in the chat shape: its prompt includes cached tokens."""
    if counts is None:
        return None
    cached, written = counts.get("cacheReadInputTokens"), counts.get("cacheWriteInputTokens")
    usage: dict[str, Any] = {
        "prompt_tokens": counts["inputTokens"] + (cached or 0) + (written or 0),
        "completion_tokens": counts["outputTokens"],
        "total_tokens": counts["totalTokens"],
    }
    details = {"cached_tokens": cached, "cache_write_tokens": written}
    reported = {name: count for name, count in details.items() if count is not None}
    return usage | ({"prompt_tokens_details": reported} if reported else {})
