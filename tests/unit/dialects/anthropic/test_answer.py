"""Whole answers of Anthropic's Messages API become chat completions, and no content is lost."""

import pytest
from rig.anthropic_answers import (
    FORMAT,
    FUTURE,
    SEALED,
    SEARCH,
    TEXT,
    THINKING,
    USE,
    chunks,
    completion,
    events,
    message,
)
from rig.native_anthropic_answers import assembled

from addon.dialects.anthropic.answer import chat_usage, to_completion


def test_a_whole_answer_is_a_chat_completion_with_the_catalog_slug():
    assert completion(TEXT) == {
        "id": "msg_1",
        "object": "chat.completion",
        "created": 17,
        "model": "slug",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Grüße"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    }


def test_a_call_without_text_has_no_content_and_keeps_its_arguments():
    function = {"name": "weather", "arguments": '{"city":"Zürich"}'}
    assert message(USE, stop_reason="tool_use") == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "t1", "type": "function", "function": function}],
    }


def test_reasoning_becomes_text_and_details():
    said = message(THINKING, SEALED, {**THINKING, "thinking": "", "signature": "s2"}, TEXT)
    assert said["reasoning_content"] == "Hm."
    assert said["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Hm.", "signature": "sig", "format": FORMAT, "index": 0},
        {"type": "reasoning.encrypted", "data": "sealed", "format": FORMAT, "index": 1},
        {"type": "reasoning.text", "text": "", "signature": "s2", "format": FORMAT, "index": 2},
    ]
    assert "reasoning_content" not in message(SEALED, TEXT)


def test_unknown_blocks_are_left_out():
    assert message(SEARCH, FUTURE, TEXT, FUTURE, TEXT) == {"role": "assistant", "content": "GrüßeGrüße"}
    assert message(FUTURE) == {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    ("stop_reason", "blocks", "finish_reason"),
    [
        ("end_turn", [TEXT], "stop"),
        ("stop_sequence", [TEXT], "stop"),
        ("pause_turn", [TEXT], "stop"),
        ("max_tokens", [TEXT], "length"),
        ("model_context_window_exceeded", [TEXT], "length"),
        ("tool_use", [USE], "tool_calls"),
        ("refusal", [], "content_filter"),
        ("tomorrow", [TEXT], "stop"),
        ("tomorrow", [USE], "tool_calls"),
        (None, [TEXT], "stop"),
    ],
)
def test_stop_reasons(stop_reason, blocks, finish_reason):
    whole = completion(*blocks, stop_reason=stop_reason)
    streamed = assembled(chunks(events(*blocks, stop_reason=stop_reason)))
    assert [made["choices"][0]["finish_reason"] for made in (whole, streamed)] == [finish_reason] * 2


def test_a_refusal_has_the_providers_reason():
    details = {"type": "refusal", "category": "cyber", "explanation": "Not that."}
    assert message(stop_reason="refusal", stop_details=details)["refusal"] == "Not that."
    assert "refusal" not in message(stop_reason="refusal", stop_details=None)
    last, _usage = chunks(events(stop_reason="refusal", stop_details=details))[-2:]
    assert last["choices"] == [
        {"index": 0, "delta": {"refusal": "Not that."}, "finish_reason": "content_filter"}
    ]


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({}, None),
        ({"input_tokens": None}, None),
        ({"input_tokens": 3}, {"prompt_tokens": 3}),
        ({"output_tokens": 0}, {"completion_tokens": 0}),
        (
            {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 10},
            {
                "prompt_tokens": 13,
                "completion_tokens": 4,
                "total_tokens": 17,
                "prompt_tokens_details": {"cached_tokens": 10},
            },
        ),
        (
            {
                "input_tokens": 3,
                "output_tokens": 4,
                "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 20,
                "output_tokens_details": {"thinking_tokens": 2},
            },
            {
                "prompt_tokens": 23,
                "completion_tokens": 4,
                "total_tokens": 27,
                "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 20},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
        ),
        ({"input_tokens": "three", "output_tokens": None, "output_tokens_details": 5}, None),
        ({"input_tokens": "3"}, {"prompt_tokens": 3}),
    ],
)
def test_counts_are_mapped_and_none_is_invented(counts, usage):
    assert chat_usage(counts) == usage
    assert completion(TEXT, usage=counts).get("usage") == usage


@pytest.mark.parametrize(
    "garbage",
    [
        {},
        {"content": "text"},
        {"content": None},
        {"content": [1]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "text", "text": 1}]},
        {"content": [{"type": "tool_use", "id": 1, "name": "a"}]},
        {"content": [], "id": 5},
        {"content": [], "usage": {"input_tokens": 1}, "stop_reason": []},
    ],
)
def test_a_body_that_is_not_a_message_is_a_value_error(garbage):
    with pytest.raises(ValueError, match="message of the API"):
        to_completion(garbage, "slug", 17)
