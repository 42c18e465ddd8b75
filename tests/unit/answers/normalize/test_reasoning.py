"""The text of reasoning is in ``reasoning_content``, wherever its provider put it."""

import json
from typing import Any

import pytest
from rig.normalized import FAMILY, assert_delta, assert_message, relayed

from addon.answers.chunks import choices_edits
from addon.answers.normalize.choices import ChunkNormalizer
from addon.answers.normalize.reasoning import reasoning_edits
from addon.text.json_edits import apply_edits

# case: a message or delta, what is relayed
SHOWN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "reasoning is renamed in its place": (
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
}


@pytest.mark.parametrize(("given", "expected"), SHOWN.values(), ids=SHOWN)
def test_a_delta_is_normalized(given: dict[str, Any], expected: dict[str, Any]):
    assert_delta(given, expected)


@pytest.mark.parametrize(("given", "expected"), SHOWN.values(), ids=SHOWN)
def test_a_message_is_normalized(given: dict[str, Any], expected: dict[str, Any]):
    assert_message(given, expected)


def test_details_that_repeat_sent_reasoning_are_not_read():
    details = {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}]}
    for sent in ({"reasoning": "hm"}, {"reasoning_content": "hm"}):
        chunks = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in ({}, sent, details)]
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
    edits = reasoning_edits(payload, chunk)
    assert json.loads(apply_edits(payload, edits)) == {**chunk, "choices": normal.choices}
    assert [new for _, _, new in edits] == [b'"reasoning_content"']


@pytest.mark.parametrize(
    "payload",
    [
        b'{"choices":[{"index":0,"delta":{"reasoning_details":[{"text":"a\\u00e9","index":0}]}}]}',
        b'{"choices" : [ {"delta" : { "reasoning_details" : [ {"index":0 , "text" : "hm" } ] , "x":1}, "index":0} ]}',
        b'{"choices":[{"index":0,"delta":{"reasoning_details":[{"text":"a","t\\u0065xt":"b","index":0}]}}]}',
    ],
)
def test_the_text_of_the_only_detail_is_added_to_the_bytes(payload: bytes):
    chunk = json.loads(payload)
    normal = ChunkNormalizer(FAMILY).normalize(chunk)
    assert normal.is_renamed
    assert json.loads(apply_edits(payload, reasoning_edits(payload, chunk))) == {
        **chunk,
        "choices": normal.choices,
    }


@pytest.mark.parametrize(
    "detail",
    [
        {"text": "a", "index": 0},
        {"text": "a", "reasoning": "b", "index": 0},
        {"text": "a", "summary": "b", "index": 0},
        {"summary": "a", "index": 0},
        {"summary": ["a", {"text": "b"}], "index": 0},
        {"thinking": "a"},
        {"text": "a"},
        {"text": "a", "index": "0"},
        {},
    ],
)
def test_the_edited_bytes_have_the_normalized_detail(detail: dict[str, Any]):
    chunk = {"choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_details": [detail]}}]}
    normalizer, payload = ChunkNormalizer(FAMILY), json.dumps(chunk).encode()
    for _ in range(3):
        normal = normalizer.normalize(chunk)
        made = apply_edits(payload, choices_edits(payload, chunk, normal))
        assert json.loads(made)["choices"] == normal.choices


def test_the_first_reasoning_ends_what_is_repeated():
    normalizer = ChunkNormalizer(FAMILY)
    details = {"reasoning_details": [{"text": "a", "index": 0}]}
    chunks = [
        {"choices": [{"index": 0, "delta": delta}]}
        for delta in (details, details, {"reasoning_content": "b"}, details)
    ]
    results = [normalizer.normalize(chunk) for chunk in chunks]
    assert [one.is_repeatable for one in results] == [False, True, False, True]
    assert [one.choices is None for one in results] == [False, False, True, True]


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
