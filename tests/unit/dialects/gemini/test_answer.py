"""Gemini's answers, whole and streamed, become chat completions with what the official SDK reads in them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from rig.gemini_answers import CREATED_S, SLUG, USAGE, answer, choice, streamed, whole
from rig.readers import chat, difference, gemini_sdk

from addon.dialects.gemini.answer import to_completion


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
        (None, "stop", "tool_calls"),
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
