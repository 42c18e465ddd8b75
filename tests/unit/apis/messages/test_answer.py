"""Chat answers as Messages, whole and streamed: one row for each rule of docs/apis-messages.md."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.message_events import check_beginning, check_message, read_events
from rig.message_writing import CALL_ID, SLUG, blocks_of, context, message_of, write
from rig.response_writing import call, chunk

from addon.answers.whole import BILLING_NOTE
from addon.apis.messages.answer import MAX_WAITING, MessagesWriter, write_whole
from addon.apis.messages.request import to_chat
from addon.apis.thought_signatures import GOOGLE_FORMAT
from addon.dialects.opaque_reasoning import unseal
from policies.usage import Usage

TEXT = chunk({"content": "Hi"})
END = chunk(finish="stop")
CALLED = chunk(finish="tool_calls")
SIGNED = {"type": "reasoning.text", "signature": "sig", "format": "anthropic-claude-v1", "index": 0}


def thought(said: str = "", **detail: Any) -> dict[str, Any]:
    details = {"reasoning_details": [{"index": 0, **detail}]} if detail else {}
    return chunk({**({"reasoning_content": said} if said else {}), **details})


def blocks(*chunks: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return blocks_of(message_of(*chunks, **more))


def whole(
    message: dict[str, Any], finish: str | None = "stop", usage: Usage | None = None, **request: Any
) -> Any:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return json.loads(write_whole({"choices": [choice]}, usage, context(**request)))


def test_a_text_is_one_block():
    events = write(chunk({"role": "assistant", "content": ""}), TEXT, chunk({"content": " you\n"}), END)
    start, ping, begun, *deltas, stop, delta, end = events
    assert start["message"] == {
        "id": f"msg_{CALL_ID}",
        "type": "message",
        "role": "assistant",
        "model": SLUG,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 11,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 1,
        },
    }
    assert ping == {"type": "ping"}
    assert begun == {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    }
    said = [{"type": "text_delta", "text": text} for text in ("Hi", " you\n")]
    assert deltas == [{"type": "content_block_delta", "index": 0, "delta": one} for one in said]
    assert stop == {"type": "content_block_stop", "index": 0}
    assert delta["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert end == {"type": "message_stop"}


@pytest.mark.parametrize("chunks", [(), (END,), (chunk({"content": " \n"}), END)])
def test_an_answer_without_text_has_no_block(chunks: tuple[dict[str, Any], ...]):
    assert message_of(*chunks).content == []


@pytest.mark.parametrize(
    ("finish", "calls", "reason"),
    [
        ("stop", False, "end_turn"),
        ("length", False, "max_tokens"),
        ("length", True, "max_tokens"),
        ("tool_calls", True, "tool_use"),
        ("tool_calls", False, "end_turn"),
        ("content_filter", False, "refusal"),
        ("insufficient_system_resource", False, "end_turn"),
        ("insufficient_system_resource", True, "tool_use"),
        (None, False, "end_turn"),
    ],
)
def test_the_finish_reason_is_the_stop_reason(finish: str | None, calls: bool, reason: str):
    delta = call(0, "{}", "call_1", "f") if calls else {"content": "Hi"}
    assert message_of(chunk(delta), chunk(finish=finish)).stop_reason == reason
    assert whole(delta, finish)["stop_reason"] == reason


def test_a_stop_sequence_is_named_where_the_server_names_it():
    end = chunk(finish="stop", stop_reason="END")
    message = message_of(TEXT, end, stop_sequences=["END", "x"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")
    assert message_of(TEXT, end).stop_reason == "end_turn", "not one of the client's"
    assert message_of(TEXT, chunk(finish="stop", stop_reason=7), stop_sequences=["x"]).stop_sequence is None


def test_a_refusal_is_text_with_its_own_reason():
    message = message_of(chunk({"refusal": "I can't "}), chunk({"refusal": "do that."}), END)
    assert blocks_of(message) == [{"type": "text", "text": "I can't do that."}]
    assert message.stop_reason == "refusal" and message.stop_details
    assert message.stop_details.explanation == "I can't do that."
    made = whole({"content": None, "refusal": "No."})
    assert (made["content"], made["stop_reason"]) == ([{"type": "text", "text": "No."}], "refusal")


def test_reasoning_is_a_block_with_its_details_in_the_signature():
    chunks = [thought("Hm", **{**SIGNED, "text": "Hm", "signature": None}), thought(**SIGNED), TEXT, END]
    (thinking, text) = blocks(*chunks)
    assert (thinking["type"], thinking["thinking"], text) == (
        "thinking",
        "Hm",
        {"type": "text", "text": "Hi"},
    )
    assert unseal(thinking["signature"]) == [SIGNED]
    details = [{**SIGNED, "text": "Hm"}]
    made = whole({"content": "Hi", "reasoning_content": "Hm", "reasoning_details": details})
    assert made["content"][0] == thinking


def test_reasoning_without_details_is_its_text():
    (thinking, _) = blocks(thought("Hm"), thought("?"), TEXT, END)
    assert (thinking["thinking"], unseal(thinking["signature"])) == ("Hm?", [])


def test_reasoning_without_text_is_redacted():
    sealed = {"type": "reasoning.encrypted", "data": "abc", "index": 0, "id": "rs_1"}
    (hidden, text) = blocks(thought(**sealed), TEXT, END)
    assert hidden["type"] == "redacted_thinking" and unseal(hidden["data"]) == [sealed]
    assert text["type"] == "text"
    assert whole({"content": "Hi", "reasoning_details": [sealed]})["content"][0] == hidden


def test_details_that_come_late_are_in_a_block_before_the_next():
    sealed = {"type": "reasoning.encrypted", "data": "abc", "index": 0}
    made = blocks(TEXT, thought(**sealed), chunk(call(0, "{}", "call_1", "f")), CALLED)
    assert [block["type"] for block in made] == ["text", "redacted_thinking", "tool_use"]
    made = blocks(TEXT, thought(**sealed), END)
    assert [block["type"] for block in made] == ["text", "redacted_thinking"]


def test_the_note_about_billing_is_no_reasoning():
    assert whole({"content": "", "reasoning_content": BILLING_NOTE})["content"] == []


def test_signatures_of_gemini_are_carried():
    signed = call(0, '{"a":1}', "call_1", "f")
    signed["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "AbC"}}
    (hidden, use) = blocks(chunk(signed), CALLED)
    assert unseal(hidden["data"]) == [
        {"type": "reasoning.encrypted", "data": "AbC", "format": GOOGLE_FORMAT, "id": "call_1"}
    ]
    assert (use["id"], use["input"]) == ("call_1", {"a": 1})


def test_the_signature_of_geminis_text_is_carried():
    signed = chunk({"extra_content": {"google": {"thought_signature": "AbC"}}})
    (_, hidden) = blocks(TEXT, signed, END)
    assert unseal(hidden["data"]) == [{"type": "reasoning.encrypted", "data": "AbC", "format": GOOGLE_FORMAT}]


def test_details_that_are_too_long_are_left_out():
    large = {"type": "reasoning.encrypted", "data": "x" * (3 << 20), "index": 0}
    (thinking, _) = blocks(thought("Hm", **large), thought(**large), thought(**large), TEXT, END)
    assert (thinking["thinking"], unseal(thinking["signature"])) == ("Hm", [])


def test_calls_that_take_turns_are_blocks_one_after_the_other():
    chunks = (
        chunk(call(0, '{"a"', "call_a", "first")),
        chunk(call(1, '{"b"', "call_b", "second")),
        chunk({"content": "Hm"}),
        chunk(call(0, ": 1}")),
        chunk(call(1, ": 2}")),
        CALLED,
    )
    made = blocks(*chunks)
    assert made == [
        {"type": "tool_use", "id": "call_a", "name": "first", "input": {"a": 1}},
        {"type": "tool_use", "id": "call_b", "name": "second", "input": {"b": 2}},
        {"type": "text", "text": "Hm"},
    ]


def test_the_next_call_begins_once_the_one_before_is_whole():
    writer = MessagesWriter(context())
    writer.write(chunk(call(0, '{"a": "}', "call_a", "first")))
    assert writer.write(chunk(call(1, "", "call_b", "second"))) == b""
    events = read_events(writer.write(chunk(call(0, '"}'))))
    assert [event["type"] for event in events] == [
        *("content_block_delta", "content_block_stop", "content_block_start"),
    ]
    assert events[-1]["content_block"]["id"] == "call_b"


def test_a_call_without_arguments_has_an_empty_input():
    made = blocks(chunk(call(0, "", "call_a", "now")), chunk(call(1, "{}", "call_b", "later")), CALLED)
    assert [block["input"] for block in made] == [{}, {}]
    (use,) = whole({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": " "}}]})["content"]
    assert use["input"] == {}


def test_a_call_without_an_id_gets_one_of_its_own():
    (use,) = blocks(chunk(call(0, "{}", None, "now")), CALLED)
    assert use["id"] == f"toolu_{CALL_ID}_0"


def test_arguments_that_are_no_object_are_kept_as_text():
    function = {"name": "f", "arguments": '{"a": '}
    (use,) = whole({"tool_calls": [{"id": "a", "function": function}]})["content"]
    assert use["input"] == {"INVALID_JSON": '{"a": '}


def test_arguments_after_their_end_are_refused():
    writer = MessagesWriter(context())
    writer.write(chunk(call(0, "{}", "call_a", "first")))
    writer.write(chunk(call(1, "{}", "call_b", "second")))
    assert writer.write(chunk(call(0, " "))) == b""
    with pytest.raises(ValueError, match="ended"):
        writer.write(chunk(call(0, "{}")))


def test_what_waits_is_bounded():
    writer = MessagesWriter(context())
    writer.write(chunk(call(0, '{"a"', "call_a", "first")))
    with pytest.raises(ValueError, match="mixed"):
        writer.write(chunk({"content": "x" * (5 << 20)}))
    writer = MessagesWriter(context())
    for number in range(MAX_WAITING):
        writer.write(chunk(call(number, "{", f"call_{number}", "f")))
    with pytest.raises(ValueError, match="mixed"):
        writer.write(chunk(call(MAX_WAITING, "{", "call_last", "f")))


COUNTS = Usage(100, 20, 120, 30, 8, 10, 4, searches=2, service_tier="default")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (Usage(100, 20, 120), (100, 0, 0, 20, None)),
        (Usage(100, 20, 120, 30, 8, 10), (60, 10, 30, 20, 8)),
        (Usage(100, 20, 128, 30, 8), (70, 0, 30, 28, 8)),  # reasoning is beside the completion
        (Usage(None, 20), (11, 0, 0, 20, None)),
        (Usage(10, -1, None, 30), (0, 0, 30, 1, None)),
        (None, (11, 0, 0, 1, None)),
    ],
)
def test_the_counts_are_those_of_the_provider_or_estimates(usage: Usage | None, expected: tuple[Any, ...]):
    found = message_of(TEXT, END, usage=usage).usage
    details = found.output_tokens_details
    assert (
        found.input_tokens,
        found.cache_creation_input_tokens,
        found.cache_read_input_tokens,
        found.output_tokens,
        details and details.thinking_tokens,
    ) == expected
    made = whole({"content": "Hi"}, usage=usage)["usage"]
    assert (made["input_tokens"], made["cache_read_input_tokens"]) == (expected[0], expected[2])


def test_a_whole_answer_has_all_counts():
    made = whole({"content": "Hi"}, usage=COUNTS)
    assert made["usage"] == {
        "input_tokens": 60,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 30,
        "output_tokens": 20,
        "output_tokens_details": {"thinking_tokens": 8},
        "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0},
        "cache_creation": {"ephemeral_5m_input_tokens": 6, "ephemeral_1h_input_tokens": 4},
        "service_tier": "standard",
    }
    message = check_message(json.dumps(made).encode())
    assert (message.id, message.model) == (f"msg_{CALL_ID}", SLUG)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
ARGUMENTS = st.dictionaries(TEXTS, TEXTS | st.integers(), max_size=2)


@st.composite
def answers(draw: st.DrawFn) -> dict[str, Any]:
    """Generate a chat message."""
    message: dict[str, Any] = {"content": draw(TEXTS), "reasoning_content": draw(TEXTS)}
    detail = st.fixed_dictionaries({"type": st.just("reasoning.encrypted"), "data": TEXTS})
    details = draw(st.lists(detail, max_size=2))
    message["reasoning_details"] = [{**one, "index": at} for at, one in enumerate(details)]
    calls = draw(st.lists(ARGUMENTS, max_size=3))
    message["tool_calls"] = [
        {"id": f"call_{at}", "type": "function", "function": {"name": f"f{at}", "arguments": json.dumps(one)}}
        for at, one in enumerate(calls)
    ]
    return message


def deltas_of(message: dict[str, Any], data: st.DataObject) -> list[dict[str, Any]]:
    """Return the deltas of a message, in random pieces; those of several calls take turns."""
    made = [{"reasoning_content": piece} for piece in cut(message["reasoning_content"], data)]
    made += [{"reasoning_details": [one]} for one in message["reasoning_details"]]
    made += [{"content": piece} for piece in cut(message["content"], data)]
    calls = [
        [
            call(at, "", one["id"], one["function"]["name"]),
            *[call(at, piece) for piece in cut(one["function"]["arguments"], data)],
        ]
        for at, one in enumerate(message["tool_calls"])
    ]
    while any(calls):
        made.append(data.draw(st.sampled_from([one for one in calls if one])).pop(0))
    return made


def cut(text: str, data: st.DataObject) -> list[str]:
    size = data.draw(st.integers(1, 8))
    return [text[at : at + size] for at in range(0, len(text), size)]


@given(answers(), st.data())
def test_any_answer_keeps_its_meaning_on_the_way_and_back(message: dict[str, Any], data: st.DataObject):
    finish = "tool_calls" if message["tool_calls"] else "stop"
    chunks = [*map(chunk, deltas_of(message, data)), chunk(finish=finish)]
    streamed = message_of(*chunks)
    made = check_message(json.dumps(whole(message, finish)).encode())
    assert made.stop_reason == streamed.stop_reason
    expected = {**message, "content": message["content"] if message["content"].strip() else ""}
    for answer in (streamed, made):
        assert meaning(turn_of(answer)) == meaning(expected)


def turn_of(message: Any) -> dict[str, Any]:
    """Return the chat message that the gateway makes of a message that its client sends back."""
    sent = json.loads(message.model_dump_json(include={"content"}))["content"]
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": sent}]
    found = to_chat({"model": "m", "max_tokens": 9, "messages": turns}).body["messages"]
    return found[1] if len(found) > 1 else {}


def meaning(message: dict[str, Any]) -> Any:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
    calls = [
        (one["id"], one["function"]["name"], json.loads(one["function"]["arguments"]))
        for one in message.get("tool_calls") or ()
    ]
    details = [one["data"] for one in message.get("reasoning_details") or ()]
    return text, message.get("reasoning_content") or "", sorted(calls, key=str), details


@given(answers(), st.data())
def test_a_stream_that_is_cut_anywhere_is_valid_so_far(message: dict[str, Any], data: st.DataObject):
    writer, sent = MessagesWriter(context()), b""
    for delta in deltas_of(message, data):
        sent += writer.write(chunk(delta))
        events = read_events(sent)
        check_beginning(events)
        assert writer.events_sent == len(events)
