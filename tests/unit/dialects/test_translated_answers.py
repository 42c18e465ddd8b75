"""Counts of native APIs that have a price, and no place in the chat shape: read, and not shown to the client."""

from collections.abc import Mapping
from typing import Any

import pytest

from addon.answers.context import AnswerContext
from addon.dialects import DIALECTS
from addon.text.json_encode import encode_json
from policies.family import Family
from policies.usage import Usage

CONTEXT = AnswerContext("slug", Family("plain"))
MESSAGE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
}
CANDIDATE = {"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}

ANSWERS: Mapping[str, tuple[str, dict[str, Any], Usage]] = {
    # anthropic-msg-006781152ad17ae5: one search
    "Anthropic's search": (
        "anthropic",
        MESSAGE
        | {
            "usage": {
                "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
                **{"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "input_tokens": 8984},
                "output_tokens": 520,
                "server_tool_use": {"web_fetch_requests": 0, "web_search_requests": 1},
                "service_tier": "standard",
            }
        },
        Usage(8984, 520, 9504, 0, None, 0, 0, searches=1, service_tier="standard"),
    ),
    "Anthropic's caches and fast mode": (
        "anthropic",
        MESSAGE
        | {
            "usage": {
                "cache_creation": {"ephemeral_1h_input_tokens": 700, "ephemeral_5m_input_tokens": 0},
                **{"cache_creation_input_tokens": 1329, "input_tokens": 884, "output_tokens": 119},
                **{"service_tier": "standard", "speed": "fast"},
            }
        },
        Usage(2213, 119, 2332, None, None, 1329, 700, service_tier="fast"),
    ),
    # google-gem-3b742224986760bb
    "Gemini's sound": (
        "gemini",
        {
            "candidates": [CANDIDATE],
            "usageMetadata": {
                **{"promptTokenCount": 1518, "candidatesTokenCount": 202, "totalTokenCount": 1905},
                **{"cachedContentTokenCount": 1122, "thoughtsTokenCount": 185},
                "promptTokensDetails": [
                    {"modality": "TEXT", "tokenCount": 43},
                    {"modality": "VIDEO", "tokenCount": 1315},
                    {"modality": "AUDIO", "tokenCount": 160},
                ],
                "cacheTokensDetails": [
                    {"modality": "AUDIO", "tokenCount": 118},
                    {"modality": "TEXT", "tokenCount": 31},
                    {"modality": "VIDEO", "tokenCount": 973},
                ],
                "trafficType": "ON_DEMAND",
            },
        },
        Usage(
            *(1518, 202, 1905, 1122, 185),
            audio_input_tokens=160,
            cached_audio_tokens=118,
            service_tier="on_demand",
        ),
    ),
    "Gemini's searches": (
        "gemini",
        {
            "candidates": [CANDIDATE | {"groundingMetadata": {"webSearchQueries": ["a", "b"]}}],
            "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9, "serviceTier": "flex"},
        },
        Usage(9, 0, 9, searches=2, service_tier="flex"),
    ),
    "Bedrock's caches and tier": (
        "bedrock",
        {
            "output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}},
            "stopReason": "end_turn",
            "usage": {
                **{"inputTokens": 3, "outputTokens": 2, "totalTokens": 55, "cacheWriteInputTokens": 50},
                "cacheDetails": [{"ttl": "1h", "inputTokens": 30}, {"ttl": "5m", "inputTokens": 20}],
            },
            "serviceTier": {"type": "priority"},
        },
        Usage(53, 2, 55, None, None, 50, 30, service_tier="priority"),
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_whole_answer_has_the_counts_that_are_priced(case: str) -> None:
    dialect, answer, usage = ANSWERS[case]
    reader = DIALECTS[dialect].whole(CONTEXT, 1 << 20)
    reader.feed(encode_json(answer))
    shown = reader.finish()
    assert reader.failure is None
    assert reader.usage == usage
    for word in (b"server_tool_use", b"ephemeral", b"AUDIO", b"serviceTier", b"cacheDetails"):
        assert word not in shown


def test_a_stream_of_anthropics_has_the_terms_of_its_start_and_the_total_of_its_end() -> None:
    start = {
        "input_tokens": 5,
        "cache_creation": {"ephemeral_1h_input_tokens": 100},
        "service_tier": "standard",
    }
    events = [
        {"type": "message_start", "message": {"id": "m", "usage": start}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 3, "cache_creation_input_tokens": 240},
        },
        {"type": "message_stop"},
    ]
    reader = DIALECTS["anthropic"].stream(CONTEXT)
    for event in events:
        reader.feed(b"event: " + event["type"].encode() + b"\ndata: " + encode_json(event) + b"\n\n")  # type: ignore[attr-defined]
    reader.finish()
    assert reader.usage == Usage(245, 3, 248, None, None, 240, 100, service_tier="standard")


def test_a_stream_of_geminis_counts_its_searches() -> None:
    searched = CANDIDATE | {"groundingMetadata": {"webSearchQueries": ["a"]}}
    events = [
        {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}], "usageMetadata": {"promptTokenCount": 4}},
        {
            "candidates": [searched],
            "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 2, "totalTokenCount": 6},
        },
    ]
    reader = DIALECTS["gemini"].stream(CONTEXT)
    for event in events:
        reader.feed(b"data: " + encode_json(event) + b"\n\n")
    reader.finish()
    assert reader.usage == Usage(4, 2, 6, searches=1)
