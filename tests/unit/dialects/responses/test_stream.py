"""Streams of the Responses API in every order that servers send them in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.native_responses import (
    custom_call,
    events,
    frame,
    function_call,
    incomplete,
    message,
    reasoning,
    response,
)
from rig.native_responses_answers import assembled, meaning_of_completion

from addon.answers.context import AnswerContext
from addon.dialects import DIALECTS
from addon.dialects.responses.answer import to_completion
from addon.dialects.responses.stream import ResponsesStream
from policies.family import Family

FAMILY = Family("tested").over_responses
CONTEXT = AnswerContext("slug", FAMILY, created_s=17, answer_id="chatcmpl-0")
CITED = {"type": "url_citation", "start_index": 0, "end_index": 2, "url": "https://a.test", "title": "A"}


def read(stream_events: Any) -> list[dict[str, Any]]:
    stream = ResponsesStream(CONTEXT)
    made = [chunk for event in stream_events for chunk in stream.read(event)]
    assert stream.is_closed
    return made + stream.finish()


def deltas(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


texts = st.text(min_size=1, max_size=12)
items = st.one_of(
    st.builds(message, texts),
    st.builds(lambda text: message(refusal=text), texts),
    st.builds(lambda parts: reasoning(*parts), st.lists(texts, max_size=2)),
    st.builds(lambda text: reasoning(text, encrypted=None), texts),
    st.builds(lambda key, n: function_call("f", {key: n}, f"call_{n}"), texts, st.integers(0, 99)),
    st.builds(lambda text, n: custom_call("c", text, f"call_{n}"), texts, st.integers(0, 99)),
)


@given(st.lists(items, min_size=1, max_size=4), st.integers(1, 3), st.booleans())
def test_a_stream_adds_up_to_the_whole_answer(said: list[Any], pieces: int, is_cut: bool) -> None:
    answer = (incomplete if is_cut else response)(*said)
    streamed = assembled(read(events(answer, pieces)))
    whole = to_completion(answer, "slug", 17)
    assert meaning_of_completion(streamed) | {"tier": None} == meaning_of_completion(whole) | {"tier": None}


def test_the_first_chunk_comes_with_the_first_content() -> None:
    stream = ResponsesStream(CONTEXT)
    first = {"type": "response.output_text.delta", "output_index": 0, "delta": "a"}
    for event in events(response(reasoning(), message("ab"))):
        if event["type"] == "response.output_text.delta":
            break
        sent = deltas(stream.read(event))
        assert sent == [] or "reasoning_details" in sent[-1]
    begun = ResponsesStream(CONTEXT)
    assert deltas(begun.read(first)) == [{"role": "assistant"}, {"content": "a"}]


def test_an_answer_of_unseen_reasoning_alone_is_an_answer() -> None:
    reader = DIALECTS["responses"].stream(CONTEXT)
    raw = b"".join(map(frame, events(incomplete(reasoning(encrypted=None)))))
    sent = reader.feed(raw) + reader.finish()
    assert (reader.failure, reader.finish_reason) == (None, "length")
    assert sent.count(b'"role":"assistant"') == 1


def test_items_are_told_apart_by_their_index_alone() -> None:
    answer = response(message("ab"), function_call("f", {"a": 1}, "call_1"), function_call("g", {}, "call_2"))
    stream_events = events(answer)
    for number, event in enumerate(stream_events):
        if "item_id" in event:
            event["item_id"] = f"other-{number}"  # GitHub Copilot
    (begun,) = (
        n for n, e in enumerate(stream_events) if e["type"].endswith("item.done") and e["output_index"] == 0
    )
    (added,) = (
        n for n, e in enumerate(stream_events) if e["type"].endswith("item.added") and e["output_index"] == 1
    )
    stream_events[begun], stream_events[added] = stream_events[added], stream_events[begun]  # OpenRouter
    assert meaning_of_completion(assembled(read(stream_events))) == meaning_of_completion(
        to_completion(answer, "slug", 17)
    ) | {"tier": None}


def test_a_server_without_deltas_is_read_by_its_done_events() -> None:
    answer = response(
        reasoning("Hm."), message("ab"), function_call("f", {"a": 1}), custom_call("c", "x", "call_2")
    )
    bare = [event for event in events(answer) if not event["type"].endswith(".delta")]
    assert meaning_of_completion(assembled(read(bare))) | {"tier": "default"} == meaning_of_completion(
        to_completion(answer, "slug", 17)
    )


def test_raw_reasoning_and_citations() -> None:
    raw = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]}
    other = {"type": "file_citation", "file_id": "f"}
    answer = response(raw, message("ab", annotations=[CITED, other]))
    whole = to_completion(answer, "slug", 17)["choices"][0]["message"]
    cited = {"type": "url_citation", "url_citation": {k: v for k, v in CITED.items() if k != "type"}}
    assert (whole["reasoning_content"], whole["annotations"]) == ("Hm", [cited])
    seen = deltas(read(events(answer)))
    assert [one["annotations"] for one in seen if "annotations" in one] == [[{**cited, "index": 0}]]
    two = to_completion(response(message("ab"), message("cd", annotations=[CITED])), "slug", 17)
    moved = two["choices"][0]["message"]["annotations"][0]["url_citation"]
    assert (moved["start_index"], moved["end_index"]) == (4, 6)


def test_logprobs_are_those_of_the_choice() -> None:
    one = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
    answer = response(message("a"))
    answer["output"][0]["content"][0]["logprobs"] = [one]
    whole = to_completion(answer, "slug", 17)["choices"][0]
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "a", "logprobs": [one]}
    _, streamed = ResponsesStream(CONTEXT).read(delta)
    assert whole["logprobs"] == streamed["choices"][0]["logprobs"] == {"content": [one], "refusal": None}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.output_text.delta", "delta": "a"},
        {"type": "response.output_text.delta", "output_index": 0, "delta": 5},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call"}},
        {"type": "response.completed", "response": {"status": "in_progress"}},
        {"type": "response.completed"},
    ],
)
def test_an_event_that_makes_no_sense_is_an_error(event: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ResponsesStream(CONTEXT).read(event)


def test_events_of_other_kinds_are_ignored() -> None:
    stream = ResponsesStream(CONTEXT)
    for kind in ("keepalive", "response.in_progress", "response.rate_limits.updated", "response.later"):
        assert stream.read({"type": kind, "output_index": 9}) == []
        assert stream.ignores({"type": kind})


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
def test_a_stream_in_any_pieces_is_the_same_for_its_client(size: int) -> None:
    answer = response(reasoning("Hm."), message("Grüße"), function_call("f", {"a": "ü"}))
    raw = b"".join(map(frame, events(answer)))
    after = frame({"type": "response.rate_limits.updated", "rate_limits": {}})
    reader = DIALECTS["responses"].stream(CONTEXT)
    sent = b"".join([reader.feed((raw + after)[at : at + size]) for at in range(0, len(raw + after), size)])
    sent += reader.finish()
    whole = DIALECTS["responses"].stream(CONTEXT)
    assert sent == whole.feed(raw) + whole.finish()
    assert sent.endswith(b"data: [DONE]\n\n") and reader.is_done
    assert reader.usage is not None
    assert (reader.usage.prompt_tokens, reader.usage.completion_tokens) == (20, 17)
    assert (reader.usage.cached_tokens, reader.usage.reasoning_tokens) == (4, 10)
    assert reader.usage.service_tier == "default"
    assert reader.finish_reason == "tool_calls"


def test_a_stream_that_ends_early_was_cut() -> None:
    raw = b"".join(map(frame, events(response(message("Hello")))[:-1]))
    reader = DIALECTS["responses"].stream(CONTEXT)
    assert b"Hel" in reader.feed(raw) + reader.finish()
    assert reader.failure is not None
    assert "ended before" in reader.failure.message
