"""Streams of the Responses API on the native way: what is held, masked, counted, and when a stream has failed."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.native_responses import (
    events,
    failed,
    frame,
    function_call,
    incomplete,
    message,
    reasoning,
    response,
)
from rig.response_events import read_events

from addon.answers.context import AnswerContext
from addon.answers.guarded_reader import GuardedReader
from addon.answers.reader import AnswerReader
from addon.answers.streamed_secrets import MIN_BEGINNING_CHARS
from addon.dialects.responses import native
from policies.family import Family

SECRET = "sk-secret-0123456789abcdef"
SLUG = "house/slug"
CONTEXT = AnswerContext(SLUG, Family("plain"), {"gpt-vendor": SLUG}, secrets=(SECRET,))
SAID = response(reasoning("Hm"), message("Hello you"), function_call("f", {"a": 1}))


def open_stream() -> AnswerReader:
    return GuardedReader(native.stream(CONTEXT), CONTEXT.secrets)


def frames(answer: dict[str, Any], pieces: int = 2) -> list[bytes]:
    return [frame(event) for event in events(answer, pieces)]


def relay(reader: AnswerReader, pieces: list[bytes]) -> bytes:
    return b"".join([*map(reader.feed, pieces), reader.finish()])


def named(stream: bytes) -> bytes:
    return stream.replace(b'"gpt-vendor-2026-01-01"', b'"house/slug"')


def test_all_events_keep_their_bytes_but_for_the_model():
    reader = open_stream()
    got = relay(reader, frames(SAID))
    assert got == named(b"".join(frames(SAID)))
    assert (reader.is_done, reader.failure, reader.finish_reason) == (True, None, "completed")
    usage = reader.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.cached_tokens, usage.reasoning_tokens) == (20, 4, 10)
    assert usage.service_tier == "default"
    said = [*("Hm", "sealed", "Hello you"), json.dumps({"a": 1})]
    assert reader.relayed_text_chars == sum(map(len, said))


@given(st.data())
def test_any_cut_gives_the_same(data: st.DataObject):
    pieces = data.draw(st.sampled_from((1, 3, 9)))
    whole = b"".join(frames(SAID, pieces))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=8)))
    parts = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    reader, at_once = open_stream(), open_stream()
    assert relay(reader, parts) == relay(at_once, [whole]) == named(whole)
    assert reader.relayed_text_chars == at_once.relayed_text_chars


def test_the_first_events_wait_for_the_next_one():
    reader = open_stream()
    created, in_progress, added, *_ = frames(SAID)
    assert reader.feed(created) + reader.feed(in_progress) == b""
    assert reader.feed(added) == named(created + in_progress + added)


@pytest.mark.parametrize("kept", [0, 1])
def test_a_failure_before_any_item_leaves_the_client_nothing(kept: int):
    """With ``error`` and ``response.failed``, or with the latter alone."""
    sent = frames(failed(text="The model is overloaded."))
    reader = open_stream()
    assert relay(reader, [*sent[:2], *sent[2 + kept :]]) == b""
    assert reader.failure is not None
    assert "overloaded" in reader.failure.message
    assert reader.failure.status == 502


def test_a_failure_after_an_item_ends_the_stream():
    reader = open_stream()
    begun, failure = frames(SAID)[:5], frames(failed())[-1]
    assert relay(reader, [*begun, failure]) == named(b"".join(begun))
    assert reader.failure is not None
    assert reader.usage is None


@pytest.mark.parametrize("end", [b"", b"data: [DONE]\n\n"])
def test_a_stream_without_the_whole_response_is_cut(end: bytes):
    reader = open_stream()
    relay(reader, [*frames(SAID)[:-1], end])
    assert reader.failure is not None
    assert "before the answer was complete" in reader.failure.message
    assert not reader.has_finished


def test_what_follows_the_response_is_not_the_clients():
    limits = {"type": "response.rate_limits.updated", "rate_limits": {"remaining_tokens": 7}}
    reader = open_stream()
    got = relay(reader, [*frames(SAID), frame(limits), b"data: [DONE]\n\n"])
    assert got == named(b"".join(frames(SAID)))


def test_the_events_that_the_client_has_are_counted():
    reader, sent = open_stream(), frames(SAID, 9)
    assert reader.events_sent == 0
    reader.feed(sent[0])
    assert reader.events_sent == 0, "it waits"
    for count, one in enumerate(sent[1:], 2):
        reader.feed(one)
        assert reader.events_sent == (count if count > 2 else 0)


def test_an_incomplete_response_says_why():
    reader = open_stream()
    relay(reader, frames(incomplete(message("Hel"))))
    assert (reader.is_done, reader.finish_reason) == (True, "max_output_tokens")


def test_signs_of_life_are_relayed_once_an_item_has_begun():
    alive = frame({"type": "keepalive", "sequence_number": 9})
    sent = frames(SAID)
    assert alive not in relay(open_stream(), [*sent[:2], alive, *sent[2:]])
    assert alive in relay(open_stream(), [*sent[:3], alive, *sent[3:]])


def test_events_without_a_line_for_their_type_stay_so():
    bare = [re.sub(rb"^event: [^\n]*\n", b"", one) for one in frames(SAID, 9)]
    reader = open_stream()
    assert relay(reader, bare) == named(b"".join(bare))
    assert reader.is_done


def test_items_may_take_turns():
    first, second = message("one"), message("two")
    made = events(response(first, second))
    at = [event["type"] for event in made].index("response.output_item.done")
    turned = [*made[:at], made[at + 1], made[at], *made[at + 2 :]]
    reader = open_stream()
    got = relay(reader, [frame(event) for event in turned])
    assert [event["type"] for event in read_events(got)] == [event["type"] for event in turned]
    assert reader.relayed_text_chars == 6


def test_what_an_item_has_beyond_its_deltas_is_counted():
    """Some servers send a call without deltas; of reasoning only its encrypted content may be there."""
    made = [one for one in events(response(function_call("f", "{}"))) if "delta" not in one]
    reader = open_stream()
    relay(reader, [frame(event) for event in made])
    assert reader.relayed_text_chars == 2


def test_searches_are_counted_and_looks_at_pages_are_not():
    search = {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}
    page = {**search, "action": {"type": "open_page", "url": "u"}}
    answer = response(message("hi"))
    answer["output"] = [{**one, "id": f"ws_{at}"} for at, one in enumerate((search, page, search))]
    done = [
        {"type": "response.output_item.done", "item": item, "output_index": at}
        for at, item in enumerate(answer["output"])
    ]
    reader = open_stream()
    begun, end = frames(SAID)[:3], {"type": "response.completed", "response": answer}
    relay(reader, [*begun, *map(frame, done)])
    assert reader.usage is not None
    assert reader.usage.searches == 2
    reader = open_stream()
    relay(reader, [*begun, *map(frame, [*done, end])])
    assert reader.usage is not None
    assert (reader.usage.searches, reader.usage.prompt_tokens) == (2, 20)


# --- secrets -----------------------------------------------------------------------------------------------------


@given(st.integers(1, 12), st.text('ab \n"', max_size=4), st.text("ab ", max_size=4))
def test_a_secret_is_masked_however_it_is_cut(pieces: int, before: str, after: str):
    answer = response(message(f"{before}{SECRET}{after}"), function_call("f", {"key": SECRET}))
    reader = open_stream()
    got = read_events(relay(reader, frames(answer, pieces)))
    shown = f"{before}***{after}"
    deltas = [event["delta"] for event in got if event["type"] == "response.output_text.delta"]
    few = [f"{before}{SECRET[:chars]}***{after}" for chars in range(MIN_BEGINNING_CHARS)]
    assert "".join(deltas) in few
    (done,) = [event for event in got if event["type"] == "response.output_text.done"]
    assert done["text"] == shown
    assert SECRET not in json.dumps(got)
    assert SECRET[:12] not in "".join(event.get("delta", "") for event in got)
    assert [event["sequence_number"] for event in got] == list(range(len(got)))
    assert [event["type"] for event in got] == [event["type"] for event in events(answer, pieces)]


def test_a_text_that_only_begins_like_a_secret_is_complete():
    text = f"sk-s {SECRET[:7]}"
    got = read_events(relay(open_stream(), frames(response(message(text)), 5)))
    assert "".join(event["delta"] for event in got if "delta" in event) == text


def test_an_event_that_waits_is_sent_when_the_stream_breaks():
    sent = [one for one in frames(response(message("so sk-secre"))) if b"sequence" in one]
    at = next(at for at, one in enumerate(sent) if b"text.done" in one)
    reader = open_stream()
    got = relay(reader, sent[:at])
    assert reader.failure is not None
    assert "".join(event["delta"] for event in read_events(got) if "delta" in event).startswith("so ")
