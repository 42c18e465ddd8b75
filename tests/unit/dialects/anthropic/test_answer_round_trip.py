"""Any answer of Anthropic's Messages API means what the official SDK reads, and its blocks can be sent back."""

from hypothesis import given
from hypothesis import strategies as st
from rig.anthropic_answers import answer, chunks, events
from rig.native_anthropic_answers import (
    accumulated,
    assembled,
    meaning_of_completion,
    meaning_of_message,
    message_of,
)

from addon.dialects.anthropic.answer import to_completion
from addon.dialects.anthropic.request import to_request
from policies.family import Family

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
