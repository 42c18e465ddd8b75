"""Reasoning as one text of ours: what is sealed comes back, and nothing else is taken."""

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.dialects.opaque_reasoning import MAX_CHARS, MAX_DETAILS, PREFIX, is_sealed, seal, unseal
from addon.text.json_decode import decode_large_object
from policies.large_text import LargeText

SIGNED = {
    "type": "reasoning.text",
    "text": "Hm…",
    "signature": "EqQB",
    "format": "anthropic-claude-v1",
    "index": 0,
}
ENCRYPTED = {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "format": "openai-responses-v1"}
SUMMARY = {"type": "reasoning.summary", "summary": "In short", "index": 2}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
details = st.fixed_dictionaries(
    {"type": st.sampled_from(["reasoning.text", "reasoning.summary", "reasoning.encrypted"])},
    optional=dict.fromkeys(("text", "summary", "data", "signature", "format", "id"), texts)
    | {"index": st.integers(0, 2**53 - 1)},
)


def sealed(value: Any) -> str:
    return PREFIX + urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@given(st.lists(details, max_size=5))
def test_what_is_sealed_comes_back(given_details: list[dict[str, Any]]):
    text = seal(given_details)
    assert is_sealed(text) and text.isascii()
    assert unseal(text) == given_details


@given(
    st.text(max_size=200)
    | st.binary(max_size=100).map(lambda data: PREFIX + urlsafe_b64encode(data).decode())
)
def test_no_other_text_raises(text: str):
    found = unseal(text)
    assert found is None or seal(found)


@given(st.lists(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists), max_size=4))
def test_any_values_can_be_sealed(values: list[Any]):
    assert unseal(seal([{"type": "reasoning.text", "text": value} for value in values])) is not None


@pytest.mark.parametrize(
    ("detail", "kept"),
    [
        (SIGNED, [SIGNED]),
        (SUMMARY | {"id": None, "confidence": 3}, [SUMMARY]),
        (ENCRYPTED | {"index": -1}, []),
        ({"type": "reasoning.text", "text": 7}, []),
        ({"type": "reasoning.text", "text": "\ud800"}, [{"type": "reasoning.text", "text": "?"}]),
        ({"type": "other"}, []),
        ({"text": "no type"}, []),
        ("text", []),
    ],
)
def test_only_what_has_a_place_is_sealed(detail: Any, kept: list[Any]):
    assert unseal(seal([detail, ENCRYPTED])) == [*kept, ENCRYPTED]


@pytest.mark.parametrize(
    "text",
    [
        *("", "EqQBCgIYAhIM", "tg1", "tg2.W10", "tg1.", "tg1.*", "tg1.W", "tg1.W1", "tg1.é"),
        sealed({}),
        sealed([1]),
        sealed([SIGNED | {"more": 1}]),
        sealed([{"text": "no type"}]),
        sealed([SIGNED | {"text": {"deep": []}}]),
        sealed([SIGNED | {"index": True}]),
        sealed([SIGNED | {"format": "f" * 257}]),
        sealed([SIGNED] * (MAX_DETAILS + 1)),
        seal([SIGNED])[:-5],
        seal([SIGNED]).replace("c", "c*", 1),
        seal([SIGNED | {"text": "x" * 1000}]) + "A" * MAX_CHARS,
    ],
)
def test_foreign_changed_and_endless_texts_are_not_taken(text: str):
    assert unseal(text) is None


def test_what_is_too_long_is_no_text_of_ours():
    assert seal([SIGNED | {"text": "x" * MAX_CHARS}]) == ""
    assert seal([SIGNED] * (MAX_DETAILS + 1)) == ""
    assert unseal(seal([SIGNED] * MAX_DETAILS)) == [SIGNED] * MAX_DETAILS


def test_none_are_a_text_of_ours():
    assert unseal(seal([])) == []


def test_a_long_text_of_a_request_is_read_whole():
    long = [SIGNED | {"text": "ü" * 100_000}]
    decoded, _ = decode_large_object(json.dumps({"signature": seal(long)}).encode())
    assert isinstance(decoded["signature"], LargeText)
    assert unseal(decoded["signature"]) == long
