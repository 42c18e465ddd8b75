"""Token counts of Gemini's answers: those not reported stay absent, and only final counts are passed on."""

from typing import Any

import pytest
from rig.gemini_answers import CREATED_S, SLUG, USAGE, answer, streamed, whole

from addon.dialects.gemini.answer import GeminiStream


@pytest.mark.parametrize(
    ("metadata", "usage"),
    [
        (
            {
                "promptTokenCount": 10,
                "toolUsePromptTokenCount": 4,
                "candidatesTokenCount": 20,
                "thoughtsTokenCount": 30,
                "cachedContentTokenCount": 8,
                "totalTokenCount": 64,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}],
            },
            {
                "prompt_tokens": 14,
                "completion_tokens": 20,
                "total_tokens": 64,
                "prompt_tokens_details": {"cached_tokens": 8},
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
        ),
        (
            {"promptTokenCount": 10, "thoughtsTokenCount": 3, "totalTokenCount": 13},
            {
                "prompt_tokens": 10,
                "completion_tokens": 0,
                "total_tokens": 13,
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
        ),
        ({"cachedContentTokenCount": 0}, {"prompt_tokens_details": {"cached_tokens": 0}}),
        ({"promptTokenCount": "10", "totalTokenCount": True}, {"prompt_tokens": 10}),
        ({"promptTokenCount": "ten", "candidatesTokenCount": [1], "totalTokenCount": True}, None),
        ({"trafficType": "ON_DEMAND"}, None),
        (None, None),
    ],
)
def test_a_count_that_was_not_reported_stays_absent(metadata: Any, usage: Any):
    native = answer({"text": "x"}, usageMetadata=metadata)
    assert whole(native).get("usage") == usage
    assert [made["usage"] for made in streamed([native]) if "usage" in made] == ([usage] if usage else [])


def test_a_cut_stream_reports_only_final_counts():
    metadata = USAGE | {"thoughtsTokenCount": 90, "cachedContentTokenCount": 2}
    prompt = {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 2}}
    hidden = GeminiStream(SLUG, CREATED_S)
    hidden.read(answer({"text": "x"}, finish=None, usageMetadata=metadata))
    assert not hidden.has_finished
    assert hidden.usage == prompt | {"completion_tokens_details": {"reasoning_tokens": 90}}
    shown = GeminiStream(SLUG, CREATED_S)
    shown.read(answer({"text": "x", "thought": True}, finish=None, usageMetadata=metadata))
    assert shown.usage == prompt


def test_earlier_counts_are_final_once_the_answer_has_ended():
    chunks = streamed([answer({"text": "x"}, finish=None, usageMetadata=USAGE), answer({"text": "y"})])
    assert chunks[-1]["usage"] == {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
