"""Bodies that are no answer of Gemini's: each is a value error."""

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.gemini_answers import CREATED_S, SLUG, USAGE

from addon.dialects.gemini.answer import GeminiStream, to_completion


@pytest.mark.parametrize(
    "native",
    [
        {},
        {"this": [{"is": "not"}]},
        {"candidates": []},
        {"candidates": [], "promptFeedback": {"safetyRatings": []}},
        {"candidates": {}, "usageMetadata": USAGE},
    ],
)
def test_a_body_without_candidates_is_not_an_answer(native: dict[str, Any]):
    with pytest.raises(ValueError, match="has no candidates"):
        to_completion(native, SLUG, CREATED_S)
    stream = GeminiStream(SLUG, CREATED_S)
    assert stream.read(native) == [] and not stream.has_finished


@pytest.mark.parametrize(
    "candidates",
    [
        "x",
        ["x"],
        [{"index": "0"}],
        [{"content": "x"}],
        [{"content": {"parts": "x"}}],
        [{"content": {"parts": ["x"]}}],
        [{"content": {"parts": [{"functionCall": "x"}]}}],
        [{"content": {"parts": [{"functionCall": {"args": {}}}]}}],
        [{"content": {"parts": [{"functionCall": {"name": "f", "args": [1]}}]}}],
        [{"logprobsResult": {"chosenCandidates": "x"}}],
    ],
)
def test_a_malformed_answer_is_a_value_error(candidates: Any):
    native = {"candidates": candidates}
    with pytest.raises(ValueError):
        to_completion(native, SLUG, CREATED_S)
    with pytest.raises(ValueError):
        GeminiStream(SLUG, CREATED_S).read(native)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
MEMBERS = st.sampled_from(
    ["text", "thought", "functionCall", "inlineData", "thoughtSignature", "name", "args", "id", "mimeType"]
)
GARBLED_PART = st.dictionaries(MEMBERS, JSON | st.dictionaries(MEMBERS, JSON, max_size=3), max_size=3)
GARBLED_CANDIDATE = st.fixed_dictionaries(
    {},
    optional={
        "content": JSON | st.fixed_dictionaries({"parts": JSON | st.lists(GARBLED_PART, max_size=3)}),
        "index": JSON,
        "finishReason": JSON,
        "logprobsResult": JSON
        | st.fixed_dictionaries({"chosenCandidates": JSON | st.lists(JSON), "topCandidates": JSON}),
    },
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "candidates": JSON | st.lists(GARBLED_CANDIDATE, max_size=2),
            "promptFeedback": JSON,
            "usageMetadata": JSON | st.dictionaries(st.sampled_from(list(USAGE)), JSON),
            "responseId": JSON,
        },
    )
)
def test_any_answer_is_read_or_is_a_value_error(native: dict[str, Any]):
    before = copy.deepcopy(native)
    stream = GeminiStream(SLUG, CREATED_S)
    for read in (lambda: to_completion(native, SLUG, CREATED_S), lambda: stream.read(native), stream.finish):
        with suppress(ValueError):
            json.dumps(read())
    assert native == before
