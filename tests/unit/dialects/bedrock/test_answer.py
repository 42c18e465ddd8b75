"""Answers of Amazon Bedrock's Converse API become chat answers, whole and streamed."""

import json

import pytest
from rig.native_converse_stream import event_frame, exception_frame

from addon.answers.context import AnswerContext
from addon.dialects.bedrock import dialect
from addon.dialects.bedrock.answer import to_completion
from policies.family import Family

CONTEXT = AnswerContext("slug", Family("any"), created_s=1, answer_id="chatcmpl-1")
START = event_frame("messageStart", {"role": "assistant"})
END = event_frame("messageStop", {"stopReason": "end_turn"})
COUNTS = event_frame("metadata", {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}})


def delta(index=0, **part):
    return event_frame("contentBlockDelta", {"contentBlockIndex": index, "delta": part})


def whole(*content, reason="end_turn", **more):
    answer = {"output": {"message": {"role": "assistant", "content": list(content)}}, "stopReason": reason}
    return to_completion(answer | more, "slug", 1, "chatcmpl-1")


def streamed(*frames):
    reader = dialect.stream(CONTEXT)
    return reader, b"".join([*map(reader.feed, frames), reader.finish()])


def chunks(shown):
    return [json.loads(line[6:]) for line in shown.splitlines() if line.startswith(b"data: {")]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "content_filter"),
        ("content_filtered", "content_filter"),
        ("malformed_model_output", "stop"),
        ("of tomorrow", "stop"),
    ],
)
def test_reasons_of_the_end(reason, expected):
    assert whole({"text": "a"}, reason=reason)["choices"][0]["finish_reason"] == expected


def test_an_unknown_reason_after_a_call_means_calls():
    call = {"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}
    (choice,) = whole(call, reason="malformed_tool_use")["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None


def test_usage_adds_the_cache_to_the_prompt_and_invents_no_count():
    counts = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 22, "cacheReadInputTokens": 5}
    assert whole({"text": "a"}, usage=counts | {"cacheWriteInputTokens": 10})["usage"] == {
        "prompt_tokens": 18,
        "completion_tokens": 4,
        "total_tokens": 22,
        "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 10},
    }
    assert "usage" not in whole({"text": "a"})
    assert whole({"text": "a"}, usage={"outputTokens": 4})["usage"] == {"completion_tokens": 4}


def test_a_sealed_reasoning_has_the_form_of_anthropics_own_api():
    (choice,) = whole({"reasoningContent": {"redactedContent": "RXU4RQ=="}}, {"text": "a"})["choices"]
    (detail,) = choice["message"]["reasoning_details"]
    assert (detail["type"], detail["data"]) == ("reasoning.encrypted", "Eu8E")
    (choice,) = whole({"reasoningContent": {"redactedContent": "no base64"}}, {"text": "a"})["choices"]
    assert "reasoning_details" not in choice["message"]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"output": {}},
        {"output": {"message": {"content": [{"text": 1}]}}, "stopReason": "end_turn"},
        {"output": {"message": {"content": [{"toolUse": {"name": "f"}}]}}, "stopReason": "end_turn"},
    ],
)
def test_anything_else_is_not_an_answer(answer):
    with pytest.raises(ValueError, match="not an answer"):
        to_completion(answer, "slug", 1)


def test_a_stream_ends_with_its_reason_and_its_usage():
    reader, shown = streamed(START, delta(text="hel"), delta(text="lo"), END, COUNTS)
    assert [one["choices"][0]["delta"] for one in chunks(shown)] == [
        {"role": "assistant"},
        {"content": "hel"},
        {"content": "lo"},
        {},
    ]
    last = chunks(shown)[-1]
    assert (last["choices"][0]["finish_reason"], last["usage"]["total_tokens"]) == ("stop", 3)
    assert {(one["id"], one["model"], one["created"]) for one in chunks(shown)} == {("chatcmpl-1", "slug", 1)}
    assert shown.endswith(b"data: [DONE]\n\n")
    assert (reader.usage.prompt_tokens, reader.usage.completion_tokens) == (1, 2)
    assert (reader.finish_reason, reader.failure, reader.is_done) == ("stop", None, True)


def test_a_stream_is_done_with_its_last_event():
    reader = dialect.stream(CONTEXT)
    shown = reader.feed(START + delta(text="a") + END)
    assert not reader.is_done and reader.has_finished
    shown += reader.feed(COUNTS)
    assert reader.is_done and shown.endswith(b"data: [DONE]\n\n")


def test_calls_are_numbered_apart_from_blocks_and_get_an_object_if_they_have_no_input():
    def start(index, **used):
        used = {"toolUseId": f"c{index}", "name": "f", **used}
        return event_frame("contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": used}})

    def stop(index):
        return event_frame("contentBlockStop", {"contentBlockIndex": index})

    frames = [
        *(
            START,
            delta(text="a"),
            start(1, type="server_tool_use"),
            delta(1, toolUse={"input": "{}"}),
            stop(1),
        ),
        *(start(2), delta(2, toolUse={"input": '{"a"'}), delta(2, toolUse={"input": ":1}"}), stop(2)),
        *(start(3), stop(3), start(4), event_frame("messageStop", {"stopReason": "tool_use"})),
    ]
    _, shown = streamed(*frames)
    calls: dict[int, list[str]] = {}
    for one in chunks(shown):
        for call in one["choices"][0]["delta"].get("tool_calls", []):
            calls.setdefault(call["index"], []).append(call.get("id", "") + call["function"]["arguments"])
    assert {index: "".join(pieces) for index, pieces in calls.items()} == {
        0: 'c2{"a":1}',
        1: "c3{}",
        2: "c4{}",
    }
    assert chunks(shown)[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_stream_without_its_end_was_cut_short():
    reader, shown = streamed(START, delta(text="a"))
    assert reader.failure.status == 502
    assert b"[DONE]" not in shown


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("throttlingException", 429),
        ("validationException", 400),
        ("modelStreamErrorException", 424),
        ("internalServerException", 500),
        ("serviceUnavailableException", 503),
        ("exceptionOfTomorrow", 502),
    ],
)
def test_an_exception_in_a_stream_is_an_error_with_its_status(name, status):
    reader, shown = streamed(START, delta(text="a"), exception_frame(name, {"message": "Too many, wait."}))
    assert (reader.failure.status, reader.failure.message) == (status, "Too many, wait.")
    assert [one["choices"][0]["delta"].get("content") for one in chunks(shown)] == [None, "a"]


@pytest.mark.parametrize(
    "frame",
    [
        event_frame("contentBlockDelta", {"delta": {"text": "no index"}}),
        event_frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": 1}}),
        event_frame("messageStop", {}),
    ],
)
def test_an_event_that_makes_no_sense_is_a_failure(frame):
    reader, _ = streamed(START, frame)
    assert reader.failure.status == 502


def test_events_and_members_of_tomorrow_are_left_out():
    later = event_frame("eventOfTomorrow", {"a": 1})
    reader, shown = streamed(START, later, delta(text="a"), delta(image={"a": 1}), END, COUNTS)
    assert reader.failure is None
    assert [one["choices"][0]["delta"].get("content") for one in chunks(shown)] == [None, "a", None]
