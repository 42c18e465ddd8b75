"""What providers say in ways of their own is said in the contract's way, and all else stays as it is."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addon.answers.normalize.choices import ChunkNormalizer, normalize_message_choices
from addon.answers.normalize.finish_reason import standard_finish_reason
from addon.answers.normalize.reasoning import rename_edits
from addon.text.json_edits import apply_edits
from policies.family import Family

FAMILY = Family("plain")
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
THINKING = {
    "type": "thinking",
    "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}],
    "closed": True,
}
TEXT = {"type": "text", "text": "yes"}
PICTURE = {"type": "image_url", "image_url": {"url": "https://x"}}


def delta_of(delta: Any) -> Any:
    """Return what becomes of a delta in the middle of a stream."""
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    return (ChunkNormalizer(FAMILY).normalize(chunk).choices or chunk["choices"])[0]["delta"]


def message_of(message: Any) -> Any:
    choices = [{"index": 0, "message": {"role": "assistant", **message}}]
    made = dict((normalize_message_choices(choices, FAMILY) or choices)[0]["message"])
    assert made.pop("role") == "assistant"
    return made


def relayed(chunks: list[list[Any]], n: int | None = None) -> list[list[Any]]:
    """Return the choices of each chunk as they are relayed, and those that are left at the end."""
    normalizer, out = ChunkNormalizer(FAMILY, n), []
    for choices in chunks:
        normal = normalizer.normalize({"id": "c", "choices": choices})
        out.append(choices if normal.choices is None else normal.choices)
    return [*out, last] if (last := normalizer.finish()) else out


# what it shows: a message or delta, what is relayed
SHOWN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain text": ({"content": "yes", "new": 1}, {"content": "yes", "new": 1}),
    "null content": ({"content": None, "refusal": None}, {"content": None, "refusal": None}),
    "reasoning is renamed where it stands": (
        {"reasoning": "hm", "content": "yes"},
        {"reasoning_content": "hm", "content": "yes"},
    ),
    "its details stay": (
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]},
        {
            "reasoning_content": "hm",
            "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}],
        },
    ),
    "details alone are read": (
        {"content": "", "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]},
        {
            "content": "",
            "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}],
            "reasoning_content": "hm",
        },
    ),
    "what is encrypted says nothing": (
        {"content": "", "reasoning_details": [{"type": "reasoning.encrypted", "data": "zz", "index": 0}]},
        {"content": "", "reasoning_details": [{"type": "reasoning.encrypted", "data": "zz", "index": 0}]},
    ),
    "reasoning_content wins": (
        {"reasoning": "other", "reasoning_content": "hm"},
        {"reasoning": "other", "reasoning_content": "hm"},
    ),
    "an empty reasoning_content does not": (
        {"reasoning_content": "", "reasoning": "hm"},
        {"reasoning_content": "hm"},
    ),
    "reasoning that says nothing stays": (
        {"reasoning": None, "reasoning_content": None, "reasoning_details": []},
        {"reasoning": None, "reasoning_content": None, "reasoning_details": []},
    ),
    "text parts become a string": ({"content": [TEXT, {"type": "text", "text": "!"}]}, {"content": "yes!"}),
    "thinking parts are reasoning": (
        {"content": [THINKING, TEXT]},
        {"content": "yes", "reasoning_content": "hm"},
    ),
    "other parts stay a list": (
        {"content": [THINKING, TEXT, PICTURE]},
        {"content": [TEXT, PICTURE], "reasoning_content": "hm"},
    ),
    "a list of other parts alone is untouched": ({"content": [PICTURE]}, {"content": [PICTURE]}),
    "an empty list is an empty string": ({"content": []}, {"content": ""}),
    "an object that is a part": ({"content": TEXT}, {"content": "yes"}),
    "an object that a model wrote": (
        {"content": {"name": "É", "age": 3}},
        {"content": '{"name":"É","age":3}'},
    ),
    "a summary in a part": (
        {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, TEXT]},
        {"content": "yes", "reasoning_content": "hm"},
    ),
    "thinking that is told twice": (
        {"content": [THINKING, TEXT], "reasoning_content": "hm"},
        {"content": "yes", "reasoning_content": "hm"},
    ),
    "the old function_call": (
        {"content": None, "function_call": {"name": "f", "arguments": "{"}},
        {"content": None, "function_call": {"name": "f", "arguments": "{"}},
    ),
}


@pytest.mark.parametrize(("given", "expected"), SHOWN.values(), ids=SHOWN)
def test_a_delta_is_normalized(given: dict[str, Any], expected: dict[str, Any]):
    before = copy.deepcopy(given)
    made = delta_of(given)
    assert list(made.items()) == list(expected.items()), "in the same order too"
    assert given == before


@pytest.mark.parametrize(("given", "expected"), SHOWN.values(), ids=SHOWN)
def test_a_message_is_normalized(given: dict[str, Any], expected: dict[str, Any]):
    before = copy.deepcopy(given)
    assert message_of(given) == expected
    assert given == before


def test_only_a_message_has_empty_content_next_to_thinking():
    assert delta_of({"content": [THINKING]}) == {"reasoning_content": "hm"}
    assert message_of({"content": [THINKING]}) == {"content": "", "reasoning_content": "hm"}


def test_details_that_repeat_sent_reasoning_are_not_read():
    details = {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}]}
    for told in ({"reasoning": "hm"}, {"reasoning_content": "hm"}):
        chunks = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in ({}, told, details)]
        assert relayed(chunks)[-1] == chunks[-1]


@pytest.mark.parametrize(
    "payload",
    [
        b'{"choices":[{"index":0,"delta":{"reasoning":"hm","role":"assistant"}}],"model":"m"}',
        b'{"choices" : [ {"delta" : { "x":"reasoning", "reasoning" : "hm"}, "index":0} ]}',
        b'{"usage":{"reasoning":3},"choices":[{"index":0,"reasoning":1,"delta":{"a":{"reasoning":2},"reasoning":"h"}}]}',
        b'{"choices":[{"index":0,"delta":{"r\\u0065asoning":"hm"}}],"reasoning":{}}',
        b'{"choices":[{"index":0,"delta":{"content":"a \\"reasoning\\": b","reasoning":"hm"}}]}',
    ],
)
def test_a_renamed_key_is_an_edit_of_the_bytes(payload: bytes):
    chunk = json.loads(payload)
    normal = ChunkNormalizer(FAMILY).normalize(chunk)
    assert normal.is_renamed and normal.is_repeatable is (b"role" not in payload)
    edits = rename_edits(payload, chunk)
    assert json.loads(apply_edits(payload, edits)) == {**chunk, "choices": normal.choices}
    assert [new for _, _, new in edits] == [b'"reasoning_content"']


def test_the_key_is_not_edited_when_more_must_change():
    for choice in (
        {"index": 0, "delta": {"reasoning": "hm", "reasoning_content": None}},
        {"index": 0, "delta": {"reasoning": "hm", "tool_calls": []}},
        {"index": None, "delta": {"reasoning": "hm"}},
        {"index": 0, "delta": {"reasoning": "hm"}, "finish_reason": "eos"},
        {"index": 0, "delta": {"reasoning": "hm"}, "message": {"content": ""}},
    ):
        normal = ChunkNormalizer(FAMILY).normalize({"choices": [choice]})
        assert normal.choices and not normal.is_renamed and not normal.is_repeatable


REASONS: dict[Any, tuple[str | None, str | None]] = {
    # the provider's word: what it means alone, and with tool calls
    "stop": ("stop", "tool_calls"),
    "eos_token": ("stop", "tool_calls"),
    "eos": ("stop", "tool_calls"),
    "end_turn": ("stop", "tool_calls"),
    "stop_sequence": ("stop", "tool_calls"),
    "COMPLETE": ("stop", "tool_calls"),
    "length": ("length", "length"),
    "max_tokens": ("length", "length"),
    "MAX_TOKENS": ("length", "length"),
    "model_length": ("length", "length"),
    "tool_calls": ("tool_calls", "tool_calls"),
    "tool_call": ("tool_calls", "tool_calls"),
    "tool_use": ("tool_calls", "tool_calls"),
    "function_call": ("function_call", "function_call"),
    "content_filter": ("content_filter", "content_filter"),
    "SAFETY": ("content_filter", "content_filter"),
    "refusal": ("content_filter", "content_filter"),
    "insufficient_system_resource": ("insufficient_system_resource", "insufficient_system_resource"),
    1: ("stop", "tool_calls"),
    2: ("length", "length"),
    128009: ("stop", "tool_calls"),
    "": (None, None),
    None: (None, None),
}


@pytest.mark.parametrize(("reason", "expected"), REASONS.items())
def test_a_finish_reason_becomes_a_word_of_the_contract(reason: Any, expected: tuple[str | None, str | None]):
    assert tuple(standard_finish_reason(reason, calls_tools=calls) for calls in (False, True)) == expected


@settings(max_examples=200, deadline=None)
@given(st.text() | st.integers() | st.booleans() | st.none() | st.lists(st.text()))
def test_a_word_of_the_contract_stays(reason: Any):
    for calls in (False, True):
        once = standard_finish_reason(reason, calls_tools=calls)
        assert standard_finish_reason(once, calls_tools=calls) == once


def stop(reason: Any, delta: dict[str, Any] | None = None) -> list[Any]:
    return [{"index": 0, "delta": delta or {}, "finish_reason": reason}]


def test_stop_after_tool_calls_becomes_tool_calls_in_a_stream():
    call = {"index": 0, **CALL}
    assert relayed([stop(None, {"tool_calls": [call]}), stop("stop")])[-1] == stop("tool_calls")
    assert relayed([stop("stop", {"tool_calls": [call]})]) == [stop("tool_calls", {"tool_calls": [call]})]
    assert relayed([stop(None, {"tool_calls": [call]}), stop("length")])[-1] == stop("length")


def test_an_empty_finish_reason_is_null_until_the_stream_ends():
    said = relayed([stop("", {"content": "a"}), stop("", {"content": "b"})])
    assert said == [stop(None, {"content": "a"}), stop(None, {"content": "b"}), stop("stop")]
    assert relayed([stop("", {"content": "a"}), stop("length")]) == [
        stop(None, {"content": "a"}),
        stop("length"),
    ]
    assert relayed([stop("", {"tool_calls": [{"index": 0, **CALL}]})])[-1] == stop("tool_calls")


def test_the_first_of_two_finish_reasons_stays():
    assert relayed([stop("length"), stop("stop"), stop("length")]) == [stop("length")] * 3


@pytest.mark.parametrize(
    ("reason", "calls", "expected"), [("", [], "stop"), ("", [CALL], "tool_calls"), (None, [], None)]
)
def test_a_whole_answer_has_a_finish_reason_of_the_contract(
    reason: Any, calls: list[Any], expected: str | None
):
    choices = [{"index": 0, "message": {"role": "assistant", "tool_calls": calls}, "finish_reason": reason}]
    assert (normalize_message_choices(choices, FAMILY) or choices)[0]["finish_reason"] == expected


def cumulative(text: str, delta: Any = None, **more: Any) -> list[Any]:
    message = {"role": "assistant", "content": text}
    return [{"index": 0, "message": message, **({} if delta is None else {"delta": delta}), **more}]


def test_a_message_next_to_a_delta_is_left_out():
    said = relayed(
        [
            cumulative("Hi", {"content": "Hi"}),
            cumulative("Hi you", {"content": " you"}),
            cumulative("Hi you", {}),
        ]
    )
    assert [one[0]["delta"].get("content") for one in said] == ["Hi", " you", None]
    assert not any("message" in one[0] for one in said)


def test_the_difference_between_cumulative_messages_is_sent():
    said = relayed(
        [
            cumulative("Hi"),
            cumulative("Hi you"),
            cumulative("Hi you"),
            cumulative("Hi you!", {}, finish_reason="stop"),
        ]
    )
    assert [one[0]["delta"]["content"] for one in said] == ["Hi", " you", "", "!"]
    assert said[-1][0]["finish_reason"] == "stop"


def test_messages_next_to_empty_deltas_are_read():
    empty = {"role": "assistant", "content": ""}
    said = relayed([cumulative("Hi", empty), cumulative("Hi you", empty)])
    assert [one[0]["delta"]["content"] for one in said] == ["Hi", " you"]


def test_a_message_after_deltas_repeats_nothing():
    deltas = [[{"index": 0, "delta": {"content": text}}] for text in ("", "Hi", " you")]
    assert relayed([*deltas, cumulative("Hi you")])[-1][0]["delta"] == {}


def test_calls_of_cumulative_messages_are_sent_once():
    message = {"content": "", "tool_calls": [CALL]}
    said = relayed([[{"index": 0, "message": message}], [{"index": 0, "message": message}]])
    assert said[0][0]["delta"]["tool_calls"] == [{**CALL, "index": 0}]
    assert "tool_calls" not in said[1][0]["delta"]


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


def test_objects_in_lists_of_a_delta_get_an_index():
    notes = [[{"index": 0, "delta": {"annotations": [{"type": "url_citation", "at": at}]}}] for at in (1, 2)]
    assert [one[0]["delta"]["annotations"] for one in relayed(notes)] == [
        [{"type": "url_citation", "at": 1, "index": 0}],
        [{"type": "url_citation", "at": 2, "index": 1}],
    ]


@pytest.mark.parametrize(
    "choices", [[], [None], ["x"], [{"index": 0, "delta": {"content": "a"}, "new": [1]}]]
)
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
    """Objects with some of these members: of any kind, or nearly as they should be."""
    known = dict.fromkeys(keys, ANY) | members
    return st.fixed_dictionaries({}, optional=known) | ANY


PARTS = st.lists(objects("type", "text", "thinking", "summary"), max_size=2)
CALLS = st.lists(
    objects("index", "id", "type", "custom", function=objects("name", "arguments", "parameters")), max_size=3
)
SHOWS = objects(
    "role",
    "reasoning",
    "reasoning_content",
    "new",
    content=PARTS | ANY,
    reasoning_details=PARTS,
    tool_calls=CALLS,
)
CHOICES = objects("index", "finish_reason", "text", delta=SHOWS, message=SHOWS)


@settings(max_examples=200, deadline=None)
@given(st.lists(CHOICES, max_size=3), st.booleans())
def test_any_whole_answer_is_normalized_once(choices: list[Any], think_tags: bool):
    family, before = Family("any", think_tags=think_tags), json.dumps(choices)
    made = normalize_message_choices(choices, family)
    assert json.dumps(choices) == before
    if (
        made is not None and not think_tags
    ):  # An answer that begins with a tag behind its empty reasoning may change.
        assert normalize_message_choices(made, family) is None


@settings(max_examples=200, deadline=None)
@given(st.lists(CHOICES, max_size=3), st.booleans())
def test_any_stream_is_normalized_once(choices: list[Any], think_tags: bool):
    family, before = Family("any", think_tags=think_tags), json.dumps(choices)
    first, second = ChunkNormalizer(family), ChunkNormalizer(family)
    for choice in choices:
        normal = first.normalize({"choices": [choice]})
        made = [choice] if normal.choices is None else normal.choices
        if not think_tags:
            assert second.normalize({"choices": made}).choices is None
    first.finish()
    assert json.dumps(choices) == before
