"""Chat chunks as the events of the Responses API: one row for each rule of docs/apis-responses.md."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rig.readers import chat, difference
from rig.response_events import read_answer, read_events
from rig.response_writing import CALL_ID, SLUG, answer, call, chunk, context, kinds, write

from addon.apis.responses.answer import MAX_ITEMS, ResponsesWriter, write_whole
from addon.apis.responses.response import prepare
from addon.dialects.opaque_reasoning import unseal
from policies.large_text import LargeText, TextRest
from policies.usage import Usage

TEXT = chunk({"content": "Hi"})
END = chunk(finish="stop")
TWO_CALLS = (
    chunk(call(0, '{"a"', "call_a", "first")),
    chunk(call(1, '{"b"', "call_b", "second")),
    chunk(call(0, ": 1}")),
    chunk(call(1, ": 2}")),
)


def items(*chunks: dict[str, Any], **request: Any) -> list[Any]:
    output: list[Any] = answer(*chunks, **request)["output"]
    return output


def test_what_an_answer_repeats_is_made_of_its_request_once():
    tools = [{"type": "custom", "name": "first"}]
    made = context(tools=tools, instructions="Be brief.")
    prepared = structs.replace(made, request={}, prepared=prepare(made.request))
    answers = []
    for one in (made, prepared):
        writer = ResponsesWriter(one)
        answers.append(b"".join([*map(writer.write, TWO_CALLS), writer.finish(None)]))
    assert answers[0] == answers[1]
    assert b"custom_tool_call" in answers[0] and b"Be brief." in answers[0]


def test_a_text_is_one_message_with_one_part():
    events = write(chunk({"role": "assistant", "content": ""}), TEXT, chunk({"content": " you"}), END)
    assert kinds(events) == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *("output_text.delta", "output_text.delta", "output_text.done"),
        *("content_part.done", "output_item.done", "completed"),
    ]
    assert events[4] == {
        "type": "response.output_text.delta",
        "content_index": 0,
        "delta": "Hi",
        "item_id": f"msg_{CALL_ID}_0",
        "logprobs": [],
        "output_index": 0,
        "sequence_number": 4,
    }
    done = events[-1]["response"]
    assert (done["id"], done["model"], done["status"]) == (f"resp_{CALL_ID}", SLUG, "completed")
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": "Hi you"}
    assert [item["content"] for item in done["output"]] == [[part]]


def test_nothing_is_sent_of_an_item_before_its_first_text():
    writer = ResponsesWriter(context())
    begun = read_events(writer.write(chunk({"role": "assistant", "content": "", "refusal": None})))
    assert kinds(begun) == ["created", "in_progress"]


def test_an_empty_answer_has_one_empty_message():
    (item,) = items(END)
    assert (item["type"], [part["text"] for part in item["content"]]) == ("message", [""])
    assert items() == [item], "an answer without any chunk, too"


@pytest.mark.parametrize(
    ("finish", "status", "reason", "item_status"),
    [
        ("stop", "completed", None, "completed"),
        ("tool_calls", "completed", None, "completed"),
        ("length", "incomplete", "max_output_tokens", "incomplete"),
        ("content_filter", "incomplete", "content_filter", "incomplete"),
    ],
)
def test_the_finish_reason_is_the_status(finish: str, status: str, reason: str | None, item_status: str):
    events = write(TEXT, chunk(finish=finish))
    assert events[-1]["type"] == f"response.{status}"
    done = events[-1]["response"]
    assert done["incomplete_details"] == (reason and {"reason": reason})
    assert [item["status"] for item in done["output"]] == [item_status]


def test_reasoning_is_an_item_of_its_own_before_the_message():
    found = items(chunk({"reasoning_content": "Let "}), chunk({"reasoning_content": "me"}), TEXT, END)
    assert [item["type"] for item in found] == ["reasoning", "message"]
    reasoning = found[0]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Let me"}]
    assert reasoning["summary"] == []
    assert unseal(reasoning["encrypted_content"]) == [{"type": "reasoning.text", "text": "Let me"}]


def test_a_summary_of_its_provider_is_a_summary():
    detail = {"type": "reasoning.summary", "summary": "Short", "format": "openai-responses-v1", "index": 0}
    sealed = {"type": "reasoning.encrypted", "data": "x", "id": "rs_1", "format": "openai-responses-v1"}
    events = write(
        chunk({"reasoning_content": "Short", "reasoning_details": [detail]}),
        chunk({"reasoning_details": [sealed]}),
        TEXT,
        END,
    )
    reasoning = events[-1]["response"]["output"][0]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "Short"}]
    assert "content" not in reasoning
    assert unseal(reasoning["encrypted_content"]) == [detail, sealed]


def test_details_that_come_in_pieces_are_joined_and_sealed():
    pieces: list[dict[str, Any]] = [
        {"type": "reasoning.text", "text": "a", "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.text", "text": "b", "index": 0},
        {"type": "reasoning.text", "signature": "sig", "index": 0},
        {"type": "reasoning.encrypted", "data": "hidden", "index": 1},
    ]
    deltas = [{"reasoning_content": one.get("text"), "reasoning_details": [one]} for one in pieces]
    reasoning = items(*map(chunk, deltas), TEXT, END)[0]
    assert unseal(reasoning["encrypted_content"]) == [
        {
            "type": "reasoning.text",
            "text": "ab",
            "signature": "sig",
            "format": "anthropic-claude-v1",
            "index": 0,
        },
        pieces[3],
    ]
    assert [part["text"] for part in reasoning["content"]] == ["ab"]


def test_details_after_the_text_are_an_item_after_it_and_split_no_message():
    late = {"type": "reasoning.encrypted", "data": "late", "index": 0}
    found = items(TEXT, chunk({"reasoning_details": [late]}), chunk({"content": "!"}), END)
    assert [item["type"] for item in found] == ["message", "reasoning"]
    assert found[0]["content"][0]["text"] == "Hi!"
    assert unseal(found[1]["encrypted_content"]) == [late]


def test_the_signature_of_a_call_is_in_reasoning_before_it():
    delta = call(0, "{}", "call_a", "first")
    delta["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "sig"}}
    found = items(chunk(delta), chunk(finish="tool_calls"))
    assert [item["type"] for item in found] == ["reasoning", "function_call"]
    (detail,) = unseal(found[0]["encrypted_content"]) or ()
    assert (detail["data"], detail["id"]) == ("sig", "call_a")


def test_a_refusal_is_a_part_of_its_own():
    found = items(TEXT, chunk({"refusal": "I "}), chunk({"refusal": "can't"}), END)
    assert found[0]["content"][1] == {"type": "refusal", "refusal": "I can't"}


def test_text_after_a_call_is_a_new_message():
    found = items(TEXT, chunk(call(0, "{}", "call_a", "first")), chunk({"content": "Then"}), END)
    assert [item["type"] for item in found] == ["message", "function_call", "message"]
    assert [item["id"] for item in found] == [f"msg_{CALL_ID}_0", f"fc_{CALL_ID}_1", f"msg_{CALL_ID}_2"]


def test_calls_that_come_in_turns_follow_one_another():
    found = items(*TWO_CALLS, chunk(finish="tool_calls"))
    assert [(item["call_id"], item["name"], item["arguments"]) for item in found] == [
        ("call_a", "first", '{"a": 1}'),
        ("call_b", "second", '{"b": 2}'),
    ]


def test_a_call_ends_as_soon_as_it_is_whole_and_another_begins():
    writer = ResponsesWriter(context())
    first = writer.write(chunk(call(0, '{"a": 1}', "call_a", "first")))
    assert kinds(read_events(first))[2:] == ["output_item.added", "function_call_arguments.delta"]
    second = writer.write(chunk(call(1, "", "call_b", "second")))
    assert kinds(read_events(second)) == [
        *("function_call_arguments.done", "output_item.done", "output_item.added"),
    ]


def test_a_piece_of_a_call_that_has_ended_is_a_fault():
    writer = ResponsesWriter(context())
    for one in (call(0, "{}", "call_a", "first"), call(1, "", "call_b", "second"), call(0, "\n")):
        writer.write(chunk(one))
    with pytest.raises(ValueError, match="has ended"):
        writer.write(chunk(call(0, '{"late": 1}')))


def test_a_call_waits_for_its_name_and_one_without_arguments_has_an_empty_object():
    writer = ResponsesWriter(context())
    assert kinds(read_events(writer.write(chunk(call(0, "", "call_a"))))) == ["created", "in_progress"]
    writer.write(chunk(call(0, "", name="first")))
    assert b'"arguments":"{}"' in writer.finish(None)


def test_a_custom_tool_gets_its_text_back():
    tools = [{"type": "custom", "name": "patch"}]
    deltas = (call(0, '{"input": "*** Be', "call_a", "patch"), call(0, 'gin\\n"}'))
    events = write(*map(chunk, deltas), chunk(finish="tool_calls"), tools=tools)
    assert kinds(events)[2:-1] == [
        *("output_item.added", "custom_tool_call_input.delta"),
        *("custom_tool_call_input.done", "output_item.done"),
    ]
    item = events[-1]["response"]["output"][0]
    assert (item["type"], item["input"], item["call_id"]) == ("custom_tool_call", "*** Begin\n", "call_a")
    assert item["id"] == f"ctc_{CALL_ID}_0"


def test_a_tool_without_a_name_gets_its_own_item():
    (item,) = items(
        chunk(call(0, '{"command": ["ls"]}', "call_a", "local_shell")),
        chunk(finish="tool_calls"),
        tools=[{"type": "local_shell"}],
    )
    assert (item["type"], item["action"]["command"]) == ("local_shell_call", ["ls"])


def test_a_function_of_a_namespace_has_both_names():
    inner = {"type": "function", "name": "get", "parameters": {}}
    tools = [{"type": "namespace", "name": "crm", "description": "d", "tools": [inner]}]
    (item,) = items(chunk(call(0, "{}", "call_a", "crm__get")), chunk(finish="tool_calls"), tools=tools)
    assert (item["type"], item["name"], item["namespace"]) == ("function_call", "get", "crm")


def test_annotations_are_in_the_text_they_follow():
    cited = {"url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2}
    annotation = {"type": "url_citation", "url_citation": cited}
    events = write(
        TEXT, chunk({"annotations": [annotation, {"type": "other"}]}), chunk({"content": "!"}), END
    )
    assert "output_text.annotation.added" in kinds(events)
    (part,) = events[-1]["response"]["output"][0]["content"]
    assert (part["annotations"], part["text"]) == ([{"type": "url_citation", **cited}], "Hi!")


def test_log_probabilities_are_in_deltas_and_in_the_part():
    token = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105]}
    given = {"content": [{**token, "top_logprobs": [token]}]}
    events = write({"choices": [{**TEXT["choices"][0], "logprobs": given}]}, END)
    (delta,) = [event for event in events if event["type"] == "response.output_text.delta"]
    plain = {"token": "Hi", "logprob": -0.5}
    assert delta["logprobs"] == [{**plain, "top_logprobs": [plain]}]
    (part,) = events[-1]["response"]["output"][0]["content"]
    assert part["logprobs"] == given["content"]


def test_a_picture_is_the_call_of_a_tool_that_made_it():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    found = items(TEXT, chunk({"images": [image]}), END)
    assert [item["type"] for item in found] == ["message", "image_generation_call"]
    assert found[1]["result"] == "AAAA"


# --- the response object -----------------------------------------------------------------------------------------


def test_settings_are_repeated_or_have_the_defaults_of_the_api():
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    asked: dict[str, Any] = {
        **{"instructions": "Be brief.", "max_output_tokens": 99, "temperature": 0.5, "store": True},
        **{"tools": [tool], "metadata": {"team": "a"}, "reasoning": {"effort": "low"}, "top_p": None},
        **{"text": {"verbosity": "low"}, "include": ["reasoning.encrypted_content"], "stream": True},
    }
    made = answer(TEXT, END, **asked)
    assert made["instructions"] == "Be brief."
    assert (made["max_output_tokens"], made["temperature"], made["top_p"]) == (99, 0.5, 1.0)
    assert made["tools"] == [{**tool, "description": None, "strict": False}]
    assert made["reasoning"] == {"effort": "low", "summary": None}
    assert made["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert (made["tool_choice"], made["truncation"], made["parallel_tool_calls"]) == (
        "auto",
        "disabled",
        True,
    )
    assert (made["metadata"], made["service_tier"], made["error"]) == ({"team": "a"}, "default", None)
    assert made["store"] is False, "nothing is kept, whatever the client asked for"
    assert made["previous_response_id"] is None
    assert {"input", "stream", "include"}.isdisjoint(made)


def test_of_a_text_that_was_not_decoded_the_beginning_is_repeated():
    rest = TextRest(counts=None, pieces=lambda: iter(["secret"]))  # type: ignore[arg-type]
    long = LargeText.of("The beginning", "[text 0]", rest)
    assert answer(TEXT, END, instructions=long)["instructions"] == "The beginning"


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (Usage(7, 5, 12, 3, 2), (7, 3, 5, 2)),
        (Usage(7, 5, 12), (7, 0, 5, 0)),
        (Usage(7, 5, 20, reasoning_tokens=8), (7, 0, 13, 8)),  # xAI counts reasoning beside the completion.
        (None, (11, 0, 1, 0)),  # the estimates
        (Usage(prompt_tokens=7), (7, 0, 1, 0)),
        (Usage(-1, -1, -1, -1, -1, -1), (11, 0, 1, 0)),
    ],
)
def test_usage_has_all_counts(usage: Usage | None, counts: tuple[int, int, int, int]):
    made = answer(TEXT, END, usage=usage)["usage"]
    cached, reasoning = made["input_tokens_details"]["cached_tokens"], made["output_tokens_details"]
    assert (made["input_tokens"], cached, made["output_tokens"], reasoning["reasoning_tokens"]) == counts
    assert made["input_tokens_details"]["cache_write_tokens"] == 0


def test_only_service_tiers_of_the_api_are_named():
    assert answer(TEXT, END, usage=Usage(1, 1, service_tier="priority"))["service_tier"] == "priority"
    assert answer(TEXT, END, usage=Usage(1, 1, service_tier="on_demand"))["service_tier"] == "default"


def test_an_answer_has_a_bounded_number_of_items():
    calls = [call(number, "", f"call_{number}", "f")["tool_calls"][0] for number in range(MAX_ITEMS + 1)]
    writer = ResponsesWriter(context())
    writer.write(chunk({"tool_calls": calls[1:]}))
    with pytest.raises(ValueError, match="too long"):
        writer.write(chunk({"tool_calls": calls[:1]}))


# --- any answer --------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ARGUMENTS = ('{"a', '": ', "1}", "{}", "")


@st.composite
def deltas(draw: st.DrawFn) -> dict[str, Any]:
    match draw(st.sampled_from(("content", "reasoning_content", "refusal", "call", "detail"))):
        case "call":
            index = draw(st.integers(0, 2))
            return call(index, draw(st.sampled_from(ARGUMENTS)), f"call_{index}", f"tool_{index}")
        case "detail":
            text = draw(TEXTS)
            detail = {"type": "reasoning.text", "text": text, "index": 0, "format": "f"}
            return {"reasoning_content": text, "reasoning_details": [detail]}
        case name:
            return {name: draw(TEXTS)}


def expected(chunks: list[dict[str, Any]]) -> Any:
    found = chat.read(chunks, think_tags=False)
    found.usage = None
    return found


@given(st.lists(deltas(), max_size=12), st.sampled_from(("stop", "length", "tool_calls")))
def test_any_answer_that_is_cut_anywhere_keeps_all_that_came(given: list[dict[str, Any]], finish: str):
    chunks = [*map(chunk, given), chunk(finish=finish)]
    writer = ResponsesWriter(context())
    try:
        sent = b"".join(map(writer.write, chunks))
    except ValueError:
        return  # a piece of a call that had ended
    events = [*read_events(sent), *read_events(writer.finish(Usage(3, 4, 7)))]
    made = events[-1]["response"]
    assert write(*chunks, usage=Usage(3, 4, 7)) == events
    assert difference(read_answer(made), expected(chunks)) in (None, *_only_the_reason(finish, made))
    refusals = "".join(one.get("refusal") or "" for one in given)
    parts = [part for item in made["output"] for part in item.get("content", ())]
    assert "".join(part.get("refusal", "") for part in parts) == refusals
    assert (made["usage"]["input_tokens"], made["usage"]["output_tokens"]) == (3, 4)


def _only_the_reason(finish: str, made: dict[str, Any]) -> list[str]:
    """Return the difference of a reason that says tool calls where there is none."""
    has_calls = any(item["type"] == "function_call" for item in made["output"])
    return (
        []
        if finish != "tool_calls" or has_calls
        else ["choice 0: finish_reason 'stop', recorded 'tool_calls'"]
    )


def test_a_whole_answer_is_what_its_stream_ends_with():
    message = {
        **{"role": "assistant", "content": "Hi", "reasoning_content": "Hm"},
        "tool_calls": [
            {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
            {"id": "call_b", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        ],
    }
    completion = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    made = json.loads(write_whole(completion, Usage(1, 2, 3), context()))
    first, second = message["tool_calls"]
    streamed = answer(
        chunk({"reasoning_content": "Hm"}),
        chunk({"content": "Hi"}),
        chunk({"tool_calls": [{**first, "index": 0}]}),
        chunk({"tool_calls": [{**second, "index": 1}]}),
        chunk(finish="tool_calls"),
        usage=Usage(1, 2, 3),
    )
    assert made == streamed
