"""Answers of Anthropic's Messages API become chat completions and chunks, and no content is lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.dialects.anthropic.answer import AnthropicStream, chat_usage, to_completion
from addon.dialects.anthropic.request import to_request
from policies.family import Family
from tests.rig.native_anthropic import (
    accumulated,
    assembled,
    meaning_of_completion,
    meaning_of_message,
    message_of,
)

THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
SEALED = {"type": "redacted_thinking", "data": "sealed"}
TEXT = {"type": "text", "text": "Grüße"}
USE = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Zürich"}}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "a"}}
FUTURE = {"type": "hologram", "light": [1, 2]}
FORMAT = "anthropic-claude-v1"


def answer(*blocks, stop_reason="end_turn", **more):
    usage = {"input_tokens": 5, "output_tokens": 7}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-upstream",
        "content": list(blocks),
        "stop_reason": stop_reason,
        "usage": usage,
        **more,
    }


def completion(*blocks, **more):
    return to_completion(answer(*blocks, **more), "slug", 17)


def message(*blocks, **more):
    return completion(*blocks, **more)["choices"][0]["message"]


def events(*blocks, stop_reason="end_turn", usage=None, start=None, pieces=1, **delta):
    """Return the stream of an answer. Each of its blocks comes in ``pieces`` deltas."""
    counts = {"input_tokens": 5, "output_tokens": 1} if start is None else start
    yield {"type": "message_start", "message": answer(usage=counts, stop_reason=None)}
    yield {"type": "ping"}
    for index, block in enumerate(blocks):
        empty, deltas = emptied(block, pieces)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for said in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": said}
        yield {"type": "content_block_stop", "index": index}
    counts = {"output_tokens": 7} if usage is None else usage
    yield {"type": "message_delta", "delta": {"stop_reason": stop_reason, **delta}, "usage": counts}
    yield {"type": "message_stop"}


def emptied(block, pieces):
    match block["type"]:
        case "text":
            return {**block, "text": ""}, deltas("text_delta", "text", block["text"], pieces)
        case "thinking":
            thought = deltas("thinking_delta", "thinking", block["thinking"], pieces)
            signed = deltas("signature_delta", "signature", block["signature"], 1)
            return {"type": "thinking", "thinking": "", "signature": ""}, thought + signed
        case "tool_use" | "server_tool_use":
            arguments = json.dumps(block["input"], ensure_ascii=False)
            return {**block, "input": {}}, deltas("input_json_delta", "partial_json", arguments, pieces)
    return block, []


def deltas(kind, name, text, pieces):
    size = -(-len(text) // pieces) or 1
    return [{"type": kind, name: text[at : at + size]} for at in range(0, len(text), size)]


def chunks(stream_events):
    stream = AnthropicStream("slug", 17)
    made = [chunk for event in stream_events for chunk in stream.read(event)]
    assert stream.is_closed
    return made + stream.finish()


# --- whole answers ---------------------------------------------------------------------------------------------


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


# --- streams ---------------------------------------------------------------------------------------------------


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


# --- there and back --------------------------------------------------------------------------------------------

LETTERS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=9)
THINKINGS = st.builds(
    lambda thought, signature: {"type": "thinking", "thinking": thought, "signature": signature},
    st.text(st.characters(codec="utf-8"), max_size=9),
    LETTERS,
) | st.builds(lambda data: {"type": "redacted_thinking", "data": data}, LETTERS)
INPUTS = st.dictionaries(LETTERS, st.integers() | LETTERS | st.lists(LETTERS, max_size=2), max_size=3)


@st.composite
def contents(draw):
    thinking = draw(st.lists(THINKINGS, max_size=3))
    texts = draw(st.lists(LETTERS.filter(str.strip), max_size=1))
    inputs = draw(st.lists(INPUTS, max_size=3))
    uses = [
        {"type": "tool_use", "id": f"t{i}", "name": "f", "input": given} for i, given in enumerate(inputs)
    ]
    return [*thinking, *[{"type": "text", "text": said} for said in texts], *uses]


@given(contents(), st.integers(1, 4))
def test_whole_and_streamed_answers_mean_what_the_sdk_reads(blocks, pieces):
    whole = meaning_of_message(message_of(answer(*blocks)))
    streamed = meaning_of_message(accumulated(events(*blocks, pieces=pieces)))
    assert whole == streamed
    del whole["stop_reason"]
    made = [to_completion(answer(*blocks), "slug", 17), assembled(chunks(events(*blocks, pieces=pieces)))]
    for completed in made:
        meaning = meaning_of_completion(completed)
        assert meaning.pop("finish_reason") == "stop"
        assert meaning == whole


@given(contents().filter(bool), st.integers(1, 4))
def test_an_answer_that_the_client_sends_back_becomes_its_blocks_again(blocks, pieces):
    for completed in (
        to_completion(answer(*blocks), "slug", 17),
        assembled(chunks(events(*blocks, pieces=pieces))),
    ):
        said = completed["choices"][0]["message"]
        talk = [{"role": "user", "content": "a"}, said, {"role": "user", "content": "b"}]
        sent = to_request({"model": "m", "max_tokens": 1, "messages": talk}, Family("claude"))
        assert sent["messages"][1]["content"] == blocks
