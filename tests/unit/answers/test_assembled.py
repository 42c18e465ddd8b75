"""Whole answers that are put together from streams: as a client that adds up the chunks would."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from rig.readers import Answer, client, difference
from rig.relayed_streams import SLUG, SOURCE, frames, reader_of
from rig.scripts import DONE, chunk, event

from addon.answers.assembled import AssembledAnswerReader
from addon.answers.context import AnswerContext
from addon.answers.whole import BILLING_NOTE
from addon.text.errors import ErrorAnswer
from policies.family import Family
from policies.usage import Usage

MAX_BYTES = 1 << 20
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "up"}


def reader(context: AnswerContext = SOURCE, max_bytes: int = MAX_BYTES) -> AssembledAnswerReader:
    return AssembledAnswerReader(lambda source: reader_of(source=source), context, max_bytes)


def read(stream: bytes, *cuts: int, of: AssembledAnswerReader | None = None) -> bytes:
    """Return what a reader returns for a stream that is cut at these places."""
    of = of or reader()
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, end in pairwise(places):
        assert of.feed(stream[start:end]) == b"", "nothing is sent before the end"
    shown = of.finish()
    assert of.feed(b"data: {}\n\n") + of.finish() == b"", "nothing follows the end"
    return shown


def assembled(*chunks: dict[str, Any], of: AssembledAnswerReader | None = None) -> Any:
    stream = b"".join(map(event, chunks)) + DONE
    return json.loads(read(stream, of=of))


def of_choice(index: int, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {**HEAD, "choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def test_the_answer_has_the_form_of_a_whole_one() -> None:
    made = assembled(
        {**of_choice(0, role="assistant", content="Hel"), "system_fingerprint": "fp"},
        of_choice(0, content="lo ä€😀"),
        of_choice(0, "stop"),
        {**HEAD, "choices": [], "usage": USAGE},
    )
    assert made == {
        "id": "c1",
        "object": "chat.completion",
        "created": 7,
        "model": SLUG,
        "system_fingerprint": "fp",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello ä€😀"},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE,
    }


@pytest.mark.parametrize("has_choice", [True, False])
def test_of_two_usages_the_client_and_the_ledger_have_the_last(has_choice: bool) -> None:
    last = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}
    one = reader()
    made = assembled(
        of_choice(0, content="Hello"),
        {**of_choice(0, "stop"), "usage": USAGE},
        {**(of_choice(0) if has_choice else HEAD | {"choices": []}), "usage": last},
        of=one,
    )
    assert (made["usage"], one.usage) == (last, Usage(3, 9, 12))


def test_its_facts_are_known_at_its_end_alone() -> None:
    one = reader()
    one.feed(event({**of_choice(0, content="Hello"), "usage": USAGE}))
    assert (one.usage, one.finish_reason, one.relayed_text_chars) == (None, None, 0)
    assert not (one.has_finished or one.is_done or one.is_complete or one.has_pending)
    one.feed(event(of_choice(0, "eos")) + DONE)
    assert (one.usage, one.finish_reason, one.relayed_text_chars) == (Usage(3, 2, 5), "eos", 5)
    assert one.has_finished
    assert one.is_done
    assert json.loads(one.finish())["choices"][0]["finish_reason"] == "stop"


def test_reasoning_tool_calls_and_logprobs_are_put_together() -> None:
    token = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
    calls = [
        [{"index": 0, "id": "call-1", "type": "function", "function": {"name": "look", "arguments": '{"a'}}],
        [{"index": 0, "function": {"arguments": '":1}'}}],
        [{"index": 1, "id": "call-2", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    ]
    logged = of_choice(0, content="a")
    logged["choices"][0]["logprobs"] = {"content": [token]}
    (choice,) = assembled(
        of_choice(0, role="assistant", reasoning_content="Let me "),
        of_choice(0, reasoning_content="think"),
        logged,
        logged,
        *(of_choice(0, tool_calls=call) for call in calls),
        of_choice(0, "tool_calls"),
    )["choices"]
    assert choice["message"] == {
        "role": "assistant",
        "content": "aa",
        "reasoning_content": "Let me think",
        "tool_calls": [
            {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}},
            {"id": "call-2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        ],
    }
    assert choice["logprobs"] == {"content": [token, token]}
    assert choice["finish_reason"] == "tool_calls"


def test_choices_that_take_turns_are_in_their_order() -> None:
    chunks = [of_choice(n % 3, content=str(n)) for n in (2, 1, 0, 3, 5, 4)]
    ends = [of_choice(n, "stop") for n in (1, 2, 0)]
    context = AnswerContext(SLUG, Family("plain"), choices=3)
    made = assembled(*chunks, *ends, of=reader(context))["choices"]
    assert [(one["index"], one["message"]["content"]) for one in made] == [(0, "03"), (1, "14"), (2, "25")]


def test_a_message_beside_the_delta_changes_nothing() -> None:
    odd = of_choice(0, content="a")
    odd["choices"][0]["message"] = "evil"
    [choice] = assembled(odd, of_choice(0, "stop", content="b"))["choices"]
    assert choice["message"]["content"] == "ab"


def test_members_that_name_a_thing_are_not_joined() -> None:
    detail = {"type": "reasoning.text", "format": "unknown", "index": 0}
    (choice,) = assembled(
        of_choice(0, channel="final", reasoning_details=[{**detail, "text": "a"}]),
        of_choice(0, channel="final", reasoning_details=[{**detail, "text": "b"}]),
        of_choice(0, "stop"),
    )["choices"]
    assert choice["message"]["channel"] == "final"
    assert choice["message"]["reasoning_details"] == [{**detail, "text": "ab"}]


FAILED = {
    "an error event": (event({"error": {"message": "busy", "code": 503}}), 503, "busy"),
    "an error after text": (event(chunk("Hi")) + event({"error": {"message": "no", "code": 429}}), 429, "no"),
    "an end before the finish_reason": (event(chunk("Hi")), 502, "before the answer was complete"),
    "no completion": (DONE, 502, "no completion"),
    "no JSON": (frames(b"{") + DONE, 502, "not a JSON object"),
    "nothing": (b"", 502, ""),
}


@pytest.mark.parametrize("case", FAILED)
def test_what_is_no_answer_is_a_failure_that_used_nothing(case: str) -> None:
    stream, status, said = FAILED[case]
    one = reader()
    assert read(stream, of=one) == b""
    assert isinstance(one.failure, ErrorAnswer)
    assert one.failure.status == status
    assert said in one.failure.message
    assert (one.usage, one.finish_reason, one.relayed_text_chars, one.is_done) == (None, None, 0, False)


def test_a_break_after_each_choice_has_ended_loses_nothing() -> None:
    one = reader()
    one.feed(event(chunk("Hi")) + event(chunk(finish="stop")))
    assert one.is_complete
    assert json.loads(one.finish())["choices"][0]["message"]["content"] == "Hi"


def test_a_whole_answer_in_place_of_the_stream_is_read() -> None:
    message = {"role": "assistant", "content": "Hi"}
    body = {**HEAD, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": USAGE}
    made = json.loads(read(json.dumps(body).encode()))
    assert made["choices"][0]["message"] == message
    assert made["usage"] == USAGE


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x" * 100},
        {"content": "ä" * 50},
        {"content": "", "things": [{"a": 1}] * 2},
        {"content": "", "thing": {"b": ["c"]}},
    ],
)
def test_an_answer_that_is_too_large_is_a_failure(delta: dict[str, Any]) -> None:
    one = reader(max_bytes=10_000)
    for _ in range(200):
        one.feed(event(of_choice(0, **delta)))
    assert one.failure
    assert "too large" in one.failure.message
    assert one.buffered_bytes == 0


def test_the_frames_of_its_chunks_do_not_count() -> None:
    one = reader(max_bytes=10_000)
    chunks = [of_choice(0, content="x")] * 5_000
    assert len(assembled(*chunks, of_choice(0, "stop"), of=one)["choices"][0]["message"]["content"]) == 5_000


# --- beside a client that adds up the chunks ---------------------------------------------------------------------

TEXT = st.text(max_size=4)
PLAIN = st.fixed_dictionaries({}, optional={"content": TEXT, "reasoning_content": TEXT, "refusal": TEXT})
CALLS = st.lists(TEXT, max_size=3).map(
    lambda pieces: [
        {
            "tool_calls": [
                {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
            ]
        },
        *({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces),
    ]
)
DELTAS = st.tuples(st.lists(PLAIN, min_size=1, max_size=6), st.just([]) | CALLS).map(
    lambda both: both[0] + both[1]
)


def added_up(stream: bytes) -> Answer:
    """Return what a client adds up of the chunks that the gateway would relay."""
    relaying = reader_of()
    relayed = relaying.feed(stream) + relaying.finish()
    assert relaying.failure is None
    return client.read_stream(client.chunks_in(relayed))


@given(DELTAS, st.lists(st.integers(0, 10_000), max_size=6))
def test_any_cut_gives_what_a_client_would_add_up(deltas: list[dict[str, Any]], cuts: list[int]) -> None:
    chunks = [
        *(of_choice(0, **delta) for delta in deltas),
        of_choice(0, "stop"),
        {**HEAD, "choices": [], "usage": USAGE},
    ]
    stream = b"".join(map(event, chunks)) + DONE
    whole = read(stream)
    assert read(stream, *cuts) == whole
    made = client.read_whole(ChatCompletion.construct(**json.loads(whole)))
    if made.choices[0].reasoning == BILLING_NOTE:
        made.choices[0].reasoning = ""
    assert difference(made, added_up(stream)) is None
    refused = "".join(delta.get("refusal", "") for delta in deltas)
    assert (json.loads(whole)["choices"][0]["message"].get("refusal") or "") == refused
