"""Choices get the contract's shape: a delta or message, an index; all else stays."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.normalized import FAMILY, relayed

from addon.answers.normalize.choices import (
    ChunkNormalizer,
    _is_plain_whole,
    _whole_choice,
    normalize_message_choices,
)
from addon.answers.normalize.shape import NoChoiceError
from policies.family import Family


def test_text_completions_become_chat():
    chunk = [{"index": 0, "text": "Hi", "finish_reason": None}]
    assert relayed([chunk]) == [[{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]]
    both = [{"index": 0, "text": "Hi", "delta": {"content": "Hi"}}]
    assert relayed([both]) == [both]
    made = normalize_message_choices([{"index": 0, "text": "Hi", "finish_reason": "eos"}], FAMILY)
    assert made == [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}]


@pytest.mark.parametrize("choice", [{"index": 0, "delta": None}, {"index": 0}])
def test_a_choice_without_a_delta_has_an_empty_one(choice: dict[str, Any]):
    assert relayed([[choice]]) == [[{"index": 0, "delta": {}}]]


def test_a_whole_choice_without_a_message_has_an_empty_one():
    made = normalize_message_choices([{"index": 0, "finish_reason": "length"}], FAMILY)
    assert made == [
        {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": None}}
    ]


def test_a_choice_without_an_index_gets_its_position():
    assert [one["index"] for one in relayed([[{"delta": {}}, {"index": "x", "delta": {}}]])[0]] == [0, 1]
    made = normalize_message_choices([{"message": {"role": "assistant"}}], FAMILY)
    assert made and made[0]["index"] == 0


def test_a_single_choice_has_index_0():
    tokens = [[{"index": at, "delta": {"content": "a"}}] for at in (1, 2, 3)]
    assert [one[0]["index"] for one in relayed(tokens, n=1)] == [0, 0, 0]
    assert relayed(tokens, n=2) == tokens
    assert relayed(tokens) == tokens


@pytest.mark.parametrize("choices", [[], [{"index": 0, "delta": {"content": "a"}, "new": [1]}]])
def test_choices_that_need_no_change_keep_their_bytes(choices: list[Any]):
    assert ChunkNormalizer(FAMILY).normalize({"choices": choices}).choices is None


def test_null_choices_become_an_empty_list_and_a_chunk_without_choices_stays():
    assert ChunkNormalizer(FAMILY).normalize({"choices": None}).choices == []
    assert ChunkNormalizer(FAMILY).normalize({"usage": {}}).choices is None


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.sampled_from(["", "a", "<think>", "</think>", "stop"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


def objects(*keys: str, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Generate objects with some of these members, of any kind or almost valid."""
    known = dict.fromkeys(keys, ANY) | members
    return st.fixed_dictionaries({}, optional=known) | ANY


PARTS = st.lists(objects("type", "text", "thinking", "summary"), max_size=2)


CALLS = st.lists(
    objects("index", "id", "type", "custom", function=objects("name", "arguments", "parameters")), max_size=3
)


SHOWS = objects(
    "reasoning",
    "reasoning_content",
    "new",
    role=st.sampled_from(["assistant", "", None]),
    content=PARTS | ANY,
    reasoning_details=PARTS,
    tool_calls=CALLS,
)


CHOICES = objects("index", "finish_reason", "text", delta=SHOWS, message=SHOWS)


@given(st.lists(CHOICES, max_size=3), st.booleans())
def test_any_whole_answer_is_normalized_once(choices: list[Any], think_tags: bool):
    family, before = Family("any", think_tags=think_tags), json.dumps(choices)
    try:
        made = normalize_message_choices(choices, family)
    except NoChoiceError:
        made = None
    assert json.dumps(choices) == before
    if made is not None and not think_tags:  # A think tag after empty reasoning may change in a second pass.
        assert normalize_message_choices(made, family) is None


@given(st.lists(CHOICES, max_size=3), st.booleans())
def test_any_stream_is_normalized_once(choices: list[Any], think_tags: bool):
    family, before = Family("any", think_tags=think_tags), json.dumps(choices)
    first, second = ChunkNormalizer(family), ChunkNormalizer(family)
    for choice in choices:
        try:
            normal = first.normalize({"choices": [choice]})
        except NoChoiceError:
            break  # The stream ends here, as unreadable.
        made = [choice] if normal.choices is None else normal.choices
        if not think_tags:
            assert second.normalize({"choices": made}).choices is None
    first.finish()
    assert json.dumps(choices) == before


WORDS = st.sampled_from([None, "", "a", "stop", "eos", "tool_calls", 0, 1, {}, [], ["x"]])
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["assistant", "assistant", "", None])},
    optional=dict.fromkeys(
        ("content", "reasoning", "reasoning_content", "reasoning_details", "tool_calls"), WORDS
    ),
)
WHOLE_CHOICES = st.fixed_dictionaries(
    {"index": st.sampled_from([0, 1, 2, True]), "message": MESSAGES | WORDS, "finish_reason": WORDS},
    optional={"text": WORDS, "logprobs": WORDS},
)


@given(choice=WHOLE_CHOICES)
def test_no_rule_changes_a_whole_choice_that_is_plain(choice: dict[str, Any]):
    if _is_plain_whole(choice):
        assert _whole_choice(choice, 5, "seed", think_tags=False) is choice
