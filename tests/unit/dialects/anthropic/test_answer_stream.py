"""Streams of Anthropic's Messages API become chunks, and no content is lost."""

import pytest
from rig.anthropic_answers import FUTURE, SEARCH, TEXT, THINKING, USE, chunks, events
from rig.native_anthropic_answers import assembled

from addon.dialects.anthropic.answer import AnthropicStream


def test_a_stream_is_chunks_of_one_answer_with_the_usage_in_the_last():
    made = chunks(events(TEXT, pieces=2))
    head = {"id": "msg_1", "object": "chat.completion.chunk", "created": 17, "model": "slug"}
    delta = [{"role": "assistant"}, {"content": "Grü"}, {"content": "ße"}, {}]
    reasons = [None, None, None, "stop"]
    assert made == [
        *[
            {**head, "choices": [{"index": 0, "delta": said, "finish_reason": reason}]}
            for said, reason in zip(delta, reasons, strict=True)
        ],
        {**head, "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}},
    ]


def test_parallel_calls_are_numbered_and_named_once():
    use = {**USE, "id": "t2", "input": {}}
    made = chunks(events(THINKING, TEXT, USE, SEARCH, use, stop_reason="tool_use", pieces=2))
    calls = [call for chunk in made for c in chunk["choices"] for call in c["delta"].get("tool_calls", [])]
    assert [(call["index"], call.get("id")) for call in calls] == [
        (0, "t1"),
        (0, None),
        (0, None),
        (1, "t2"),
        (1, None),
        (1, None),
    ]
    assert calls[0]["function"] == {"name": "weather", "arguments": ""}


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize(("whole_input", "arguments"), [({"a": "é"}, '{"a":"é"}'), ({}, "{}"), (None, "{}")])
def test_an_input_that_is_not_streamed_is_sent_whole(whole_input, arguments, stops):
    head, ping, *_, delta, stop = events()
    start = {"type": "content_block_start", "index": 0, "content_block": {**USE, "input": whole_input}}
    nothing = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": ""},
    }
    ends = [{"type": "content_block_stop", "index": 0}] if stops else []
    made = assembled(chunks([head, ping, start, nothing, *ends, delta, stop]))
    (call,) = made["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == arguments


def test_text_and_thinking_in_the_first_event_of_a_block_are_sent():
    head, ping, *_, delta, stop = events()
    starts = [
        {"type": "content_block_start", "index": i, "content_block": b}
        for i, b in enumerate([THINKING, TEXT])
    ]
    made = assembled(chunks([head, ping, *starts, delta, stop]))["choices"][0]["message"]
    assert (made["content"], made["reasoning_content"]) == ("Grüße", "Hm.")
    assert made["reasoning_details"][0]["signature"] == "sig"


def test_unknown_events_and_deltas_are_left_out():
    head, ping, *_, delta, stop = events()
    unknown = [
        {"type": "weather_report"},
        {"type": "content_block_start", "index": 0, "content_block": FUTURE},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "light_delta"}},
    ]
    assert chunks([head, ping, *unknown, delta, stop]) == chunks([head, ping, delta, stop])


@pytest.mark.parametrize(
    ("start", "delta", "usage"),
    [
        ({"input_tokens": 5, "output_tokens": 1}, {"output_tokens": 9}, (5, 9, 14)),
        ({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 5, "output_tokens": 9}, (5, 9, 14)),
        ({"input_tokens": 5}, {"input_tokens": None, "output_tokens": 9}, (5, 9, 14)),
        ({}, {"output_tokens": 9}, (None, 9, None)),
        ({"input_tokens": 5, "output_tokens": 1}, {}, (5, None, None)),
    ],
)
def test_the_later_of_two_counts_wins(start, delta, usage):
    last = chunks(events(TEXT, start=start, usage=delta))[-1]["usage"]
    assert tuple(last.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")) == usage


def test_a_stream_without_any_count_ends_without_a_usage_chunk():
    assert chunks(events(TEXT, start={}, usage={}))[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_cut_stream_has_the_prompt_and_no_running_count():
    stream = AnthropicStream("slug", 17)
    assert stream.usage is None
    for event in list(
        events(TEXT, start={"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1})
    )[:4]:
        stream.read(event)
    assert stream.usage == {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 2}}
    assert not stream.is_closed


def test_a_repeated_message_delta_ends_the_answer_once():
    head, ping, *_, delta, stop = events(stop_reason="max_tokens")
    later = {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 8}}
    made = assembled(chunks([head, ping, delta, delta, later, stop]))
    assert made["choices"][0]["finish_reason"] == "length"
    assert made["usage"]["completion_tokens"] == 8


@pytest.mark.parametrize(
    "garbage",
    [
        {},
        {"type": None, "x": 1} | {"type": []},
        {"type": "message_start"},
        {"type": "message_start", "message": "m"},
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": 4}},
        {"type": "content_block_delta", "index": 0, "delta": "text"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": None}},
        {"type": "message_delta", "usage": {}},
    ],
)
def test_a_malformed_event_is_a_value_error(garbage):
    with pytest.raises(ValueError, match="event of the API"):
        AnthropicStream("slug", 17).read(garbage)
