"""Gemini's answers, whole and streamed, become chat completions with what the official SDK reads in them."""

import copy
import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from rig.readers import chat, difference, gemini_sdk

from addon.dialects.gemini.answer import GeminiStream, to_completion

SLUG, CREATED_S = "gemini-3", 1_700_000_000
USAGE = {"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12}


def answer(*parts: dict[str, Any], finish: str | None = "STOP", **more: Any) -> dict[str, Any]:
    """Return one event, or a whole answer; ``more`` are its own members, not its candidate's."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "responseId": "r1", "modelVersion": "gemini-3-internal"} | more


def whole(native: dict[str, Any]) -> dict[str, Any]:
    """Return the completion. The SDK's types accept it, except for counts and an end that Gemini did not report."""
    made = to_completion(native, SLUG, CREATED_S)
    counts = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0} | made.get("usage", {})
    ends = [one | {"finish_reason": one["finish_reason"] or "stop"} for one in made["choices"]]
    ChatCompletion.model_validate(json.loads(json.dumps(made | {"usage": counts, "choices": ends})))
    return made


def choice(native: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = whole(native)["choices"][0]
    return found


def streamed(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    stream = GeminiStream(SLUG, CREATED_S)
    chunks = [made for event in events for made in stream.read(event)]
    assert stream.has_finished
    chunks += stream.finish()
    for made in chunks:
        counts = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0} | made.get("usage", {})
        ChatCompletionChunk.model_validate(made | {"usage": counts})
    return chunks


def test_a_whole_answer_is_a_completion_with_the_catalog_slug():
    assert whole(answer({"text": "Hi"}, usageMetadata=USAGE)) == {
        "id": "r1",
        "object": "chat.completion",
        "created": CREATED_S,
        "model": SLUG,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    }


def test_a_stream_sends_role_text_finish_and_usage_in_this_order():
    first, second = answer({"text": "H"}, finish=None, usageMetadata=USAGE), answer({"text": "i"})
    chunks = streamed([first, second | {"usageMetadata": USAGE}])
    assert {made["id"] for made in chunks} == {"r1"} and {made["model"] for made in chunks} == {SLUG}
    assert [made["choices"] for made in chunks] == [
        [{"index": 0, "delta": {"role": "assistant", "content": "H"}, "finish_reason": None}],
        [{"index": 0, "delta": {"content": "i"}, "finish_reason": None}],
        [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        [],
    ]
    assert chunks[-1]["usage"] == {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}


def test_thoughts_become_reasoning_with_googles_signature():
    parts = (
        {"text": "Hm.", "thought": True},
        {"text": "Yes."},
        {"text": "", "thoughtSignature": "c2ln"},
    )
    assert choice(answer(*parts))["message"] == {
        "role": "assistant",
        "content": "Yes.",
        "reasoning_content": "Hm.",
        "extra_content": {"google": {"thought_signature": "c2ln"}},
    }


CALL = {"functionCall": {"name": "look", "args": {"où": "là"}}, "thoughtSignature": "c2ln"}
NAMED = {"functionCall": {"name": "wait", "id": "given"}}


def test_calls_have_ids_and_their_arguments_are_text():
    assert choice(answer(CALL, NAMED)) == {
        "index": 0,
        "message": {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_r1_0_0",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"où":"là"}'},
                    "extra_content": {"google": {"thought_signature": "c2ln"}},
                },
                {"id": "given", "type": "function", "function": {"name": "wait", "arguments": "{}"}},
            ],
        },
        "finish_reason": "tool_calls",
    }


def test_calls_of_several_events_have_running_numbers_and_stable_ids():
    chunks = streamed([answer(CALL, finish=None), answer(NAMED, CALL, finish=None), answer({"text": ""})])
    deltas = [call for made in chunks[:2] for call in made["choices"][0]["delta"]["tool_calls"]]
    assert [(call["index"], call["id"]) for call in deltas] == [
        (0, "call_r1_0_0"),
        (1, "given"),
        (2, "call_r1_0_2"),
    ]
    assert [call["id"] for call in choice(answer(CALL, NAMED, CALL))["message"]["tool_calls"]] == [
        call["id"] for call in deltas
    ]
    assert chunks[-1]["choices"] == [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]


@pytest.mark.parametrize(
    ("native", "reason", "with_calls"),
    [
        ("STOP", "stop", "tool_calls"),
        ("MAX_TOKENS", "length", "length"),
        *((name, "content_filter", "content_filter") for name in ("SAFETY", "RECITATION", "LANGUAGE", "SPII")),
        *((name, "content_filter", "content_filter") for name in ("BLOCKLIST", "PROHIBITED_CONTENT")),
        *((name, "content_filter", "content_filter") for name in ("IMAGE_SAFETY", "MODEL_ARMOR")),
        *((name, "stop", "tool_calls") for name in ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")),
        *((name, "stop", "tool_calls") for name in ("OTHER", "A_REASON_OF_TOMORROW")),
        (1, "stop", "tool_calls"),
        (None, None, None),
    ],
)  # fmt: skip
def test_a_finish_reason_is_a_standard_one(native: str, reason: str | None, with_calls: str | None):
    made = to_completion(answer({"text": "x"}, finish=native), SLUG, CREATED_S)
    assert made["choices"][0]["finish_reason"] == reason
    made = to_completion(answer(CALL, finish=native), SLUG, CREATED_S)
    assert made["choices"][0]["finish_reason"] == with_calls


def test_a_more_precise_finish_reason_is_passed_on():
    native = answer({"text": "x"})
    native["candidates"][0] |= {"finishReason": "UNEXPECTED_TOOL_CALL", "finishMessage": "No such tool."}
    google = {"finishReason": "UNEXPECTED_TOOL_CALL", "finishMessage": "No such tool."}
    assert choice(native)["extra_content"] == {"google": google}
    assert streamed([native])[0]["choices"][0]["extra_content"] == {"google": google}


BLOCKED = {"promptFeedback": {"blockReason": "OTHER"}, "usageMetadata": {"promptTokenCount": 3}}


def test_a_blocked_prompt_is_one_empty_choice():
    made = whole(BLOCKED)
    assert made["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": "content_filter"}
    ]
    assert made["extra_content"] == {"google": {"promptFeedback": {"blockReason": "OTHER"}}}
    assert made["usage"] == {"prompt_tokens": 3}
    chunks = streamed([BLOCKED])
    assert chunks[0]["extra_content"] == made["extra_content"]
    assert chunks[-2]["choices"][0]["finish_reason"] == "content_filter"
    assert chunks[-1]["usage"] == {"prompt_tokens": 3}


def test_the_last_of_repeated_finish_reasons_ends_a_stream():
    events = [answer({"text": "a"}), answer({"text": "b"}), answer(finish="RECITATION")]
    chunks = streamed(events)
    assert [made["choices"][0]["finish_reason"] for made in chunks if made["choices"]] == [
        None,
        None,
        None,
        "content_filter",
    ]


def test_each_candidate_is_a_choice_with_an_end():
    two = {"candidates": [{"index": n, "content": {"parts": [{"text": str(n)}]}} for n in range(2)]}
    finished = {"candidates": [{"index": n, "finishReason": "STOP"} for n in (1, 0)]}
    chunks = streamed([two, finished])
    assert [(made["choices"][0]["index"], made["choices"][0]["finish_reason"]) for made in chunks] == [
        (0, None),
        (1, None),
        (0, "stop"),
        (1, "stop"),
    ]
    assert [made["message"]["content"] for made in whole(two)["choices"]] == ["0", "1"]


def test_log_probabilities_have_the_common_shape():
    native = answer({"text": "a b"})
    native["candidates"][0]["logprobsResult"] = {
        "chosenCandidates": [{"token": "a", "logProbability": -0.1, "tokenId": 1}, {"token": " b"}],
        "topCandidates": [{"candidates": [{"token": "a", "logProbability": -0.1}, {"token": "c"}]}],
    }
    assert to_completion(native, SLUG, CREATED_S)["choices"][0]["logprobs"] == {
        "refusal": None,
        "content": [
            {
                "token": "a",
                "logprob": -0.1,
                "bytes": None,
                "top_logprobs": [
                    {"token": "a", "logprob": -0.1, "bytes": None},
                    {"token": "c", "logprob": None, "bytes": None},
                ],
            },
            {"token": " b", "logprob": None, "bytes": None, "top_logprobs": []},
        ],
    }


def test_pictures_become_images_and_other_parts_are_passed_on():
    picture = {"inlineData": {"mimeType": "image/png", "data": "eHl6"}}
    others = [
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"partOfTomorrow": 1},
        picture | {"thought": True},
        {"inlineData": {"mimeType": "audio/wav", "data": "eHl6"}},
    ]
    native = answer(picture, *others, fieldOfTomorrow={"a": 1})
    native["candidates"][0]["groundingMetadata"] = {"webSearchQueries": ["x"]}
    made = whole(native)
    assert made["extra_content"] == {"google": {"fieldOfTomorrow": {"a": 1}}}
    assert made["choices"][0]["extra_content"] == {
        "google": {"groundingMetadata": {"webSearchQueries": ["x"]}}
    }
    assert made["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,eHl6"}}],
        "extra_content": {"google": {"parts": others}},
    }
    assert "gemini-3-internal" not in json.dumps(made)


# --- usage -----------------------------------------------------------------------------------------------------


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


# --- bodies that are not answers -------------------------------------------------------------------------------


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


# --- as the SDK reads it ---------------------------------------------------------------------------------------

TEXTS = st.text(max_size=8)
OBJECTS = st.dictionaries(st.text("ab", min_size=1, max_size=3), st.integers() | TEXTS, max_size=2)
PARTS = st.one_of(
    st.builds(lambda text: {"text": text}, TEXTS),
    st.builds(lambda text: {"text": text, "thought": True}, TEXTS),
    st.builds(
        lambda name, args: {"functionCall": {"name": name, "args": args}}, st.text("fg", min_size=1), OBJECTS
    ),
    st.just({"functionCall": {"name": "f"}, "thoughtSignature": "c2ln"}),
    st.just({"executableCode": {"language": "PYTHON", "code": "1"}}),
)
REASONS = st.sampled_from(["STOP", "MAX_TOKENS", "SAFETY"])


@given(st.lists(st.lists(PARTS, max_size=4), min_size=1, max_size=5), REASONS)
def test_a_whole_or_streamed_answer_means_what_the_sdk_reads(pieces: list[list[dict[str, Any]]], reason: str):
    *others, end = [answer(*piece, finish=None, usageMetadata=USAGE) for piece in pieces]
    end["candidates"][0]["finishReason"] = reason
    one = answer(*(part for piece in pieces for part in piece), finish=reason, usageMetadata=USAGE)
    expected = gemini_sdk.read([one])
    assert difference(chat.read([whole(one)], think_tags=False), expected) is None
    assert difference(chat.read(streamed([*others, end]), think_tags=False), expected) is None


def test_the_official_sdk_joins_streamed_lists():
    picture = {"inlineData": {"mimeType": "image/png", "data": "eHl6"}}
    code = [{"executableCode": {"code": "1"}}, {"codeExecutionResult": {"output": "1"}}]
    first = answer(picture, code[0], finish=None)
    chunks = streamed([first, answer(code[1], picture)])
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    for made in chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate(made))
    message = state.get_final_completion().choices[0].message.to_dict()
    assert [image["index"] for image in message["images"]] == [0, 1]
    assert [part["index"] for part in message["extra_content"]["google"]["parts"]] == [0, 1]
