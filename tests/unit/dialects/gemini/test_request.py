"""Chat requests become Gemini's generateContent: fields, messages and parts, and fields refused by name."""

from typing import Any

import pytest
from rig.gemini_requests import BY_BUDGET, BY_LEVEL, HI, contents, image, result, sent

from addon.dialects.gemini.request import to_request
from policies.family import Family
from policies.refusal import Refusal


def test_the_body_has_the_conversation_and_neither_model_nor_stream():
    assert sent() == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


@pytest.mark.parametrize(
    ("fields", "config"),
    [
        ({"temperature": 0.5, "top_p": 0.9, "top_k": 3}, {"temperature": 0.5, "topP": 0.9, "topK": 3}),
        ({"max_tokens": 7}, {"maxOutputTokens": 7}),
        ({"max_completion_tokens": 7}, {"maxOutputTokens": 7}),
        ({"n": 2, "seed": 3}, {"candidateCount": 2, "seed": 3}),
        (
            {"presence_penalty": 1, "frequency_penalty": -1},
            {"presencePenalty": 1, "frequencyPenalty": -1},
        ),
        ({"stop": "END"}, {"stopSequences": ["END"]}),
        ({"stop": ["a", "b"]}, {"stopSequences": ["a", "b"]}),
        ({"logprobs": True, "top_logprobs": 4}, {"responseLogprobs": True, "logprobs": 4}),
        ({"logprobs": False, "top_logprobs": 4}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, {"responseMimeType": "application/json"}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}},
            {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
        ),
        (
            {"thinking_config": {"thinking_budget": 5, "includeThoughts": True}, "reasoning_effort": "low"},
            {"thinkingConfig": {"thinkingBudget": 5, "includeThoughts": True}},
        ),
        ({"user": "u", "logit_bias": {"1": 2}, "parallel_tool_calls": False, "stop": []}, None),
    ],
)
def test_a_field_gets_geminis_name(fields: dict[str, Any], config: dict[str, Any] | None):
    assert sent(**fields).get("generationConfig") == config


@pytest.mark.parametrize(
    ("family", "effort", "thinking"),
    [
        (BY_LEVEL, "low", {"thinkingLevel": "LOW", "includeThoughts": True}),
        (BY_BUDGET, "low", {"thinkingBudget": 1_024, "includeThoughts": True}),
        (BY_BUDGET, "none", {"thinkingBudget": 0, "includeThoughts": False}),
        (
            Family("always", effort_budgets={"none": 128}),
            "none",
            {"thinkingBudget": 128, "includeThoughts": False},
        ),
    ],
)
def test_an_effort_is_a_level_or_a_budget_of_the_family(
    family: Family, effort: str, thinking: dict[str, Any]
):
    assert sent(family, reasoning_effort=effort)["generationConfig"]["thinkingConfig"] == thinking


def test_system_and_developer_messages_become_the_system_instruction():
    native = sent(
        messages=[
            {"role": "system", "content": "a"},
            HI,
            {"role": "developer", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        ]
    )
    assert native["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}, {"text": "c"}]}
    assert native["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]


@pytest.mark.parametrize(
    ("part", "native"),
    [
        ({"type": "text", "text": "x"}, {"text": "x"}),
        ({"type": "refusal", "refusal": "No."}, {"text": "No."}),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,eHl6", "detail": "low"}},
            {"inlineData": {"mimeType": "image/png", "data": "eHl6"}},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://a.example/b/c.JPG?d=e.png"}},
            {"fileData": {"fileUri": "https://a.example/b/c.JPG?d=e.png", "mimeType": "image/jpeg"}},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://a.example/b"}},
            {"fileData": {"fileUri": "https://a.example/b"}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "eHl6", "format": "wav"}},
            {"inlineData": {"mimeType": "audio/wav", "data": "eHl6"}},
        ),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;name=a;base64,eHl6"}},
            {"inlineData": {"mimeType": "application/pdf", "data": "eHl6"}},
        ),
    ],
)
def test_a_part_keeps_its_content(part: dict[str, Any], native: dict[str, Any]):
    assert contents({"role": "user", "content": [part]}) == [{"role": "user", "parts": [native]}]


def test_the_signature_of_a_text_goes_back_with_the_last_text():
    signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    message = {"role": "assistant", "content": "It rains.", "reasoning_content": "Look outside."}
    assert contents(HI, message | signed)[1]["parts"] == [
        {"text": "Look outside.", "thought": True},
        {"text": "It rains.", "thoughtSignature": "c2ln"},
    ]
    assert contents(HI, {"role": "assistant", "content": None} | signed)[1]["parts"] == [
        {"text": "", "thoughtSignature": "c2ln"}
    ]


def test_an_empty_message_is_not_left_out():
    assert contents({"role": "user", "content": ""}, {"role": "assistant", "content": None}) == [
        {"role": "user", "parts": [{"text": ""}]},
        {"role": "model", "parts": [{"text": ""}]},
    ]


PICTURE = image("data:image/png;base64,eHl6")["messages"][0]["content"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [HI, {"role": "critic", "content": "x"}]}, "messages.1.role"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages.0.content.0"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
            "messages.0.content.0.file.file_data",
        ),
        (image("gs://bucket/a.png"), "messages.0.content.0.image_url.url"),
        (image("data:image/png,xyz"), "messages.0.content.0.image_url.url"),
        (image("data:;base64,eHl6"), "messages.0.content.0.image_url.url"),
        (image("https://[x/a.png"), "messages.0.content.0.image_url.url"),
        ({"messages": [HI, result("nobody", "x")]}, "messages.1.tool_call_id"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}]},
            "messages.0.tool_calls.0.type",
        ),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "[1]"}}
                        ],
                    }
                ]
            },
            "messages.0.tool_calls.0.function.arguments",
        ),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
        ({"response_format": {"type": "grammar"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"reasoning_effort": "none"}, "reasoning_effort"),
        ({"reasoning_effort": ["low"]}, "reasoning_effort"),
        ({"thinking_config": {"tinkering": 1}}, "thinking_config"),
    ],
)
def test_a_field_that_gemini_does_not_have_is_refused_by_name(fields: dict[str, Any], param: str):
    with pytest.raises(Refusal) as caught:
        to_request({"messages": [HI]} | fields, BY_LEVEL)
    assert (caught.value.code, caught.value.param) == ("validation_failed", param)
    assert caught.value.message.startswith(f"{param}: ")


def test_an_effort_without_a_budget_is_refused():
    with pytest.raises(Refusal, match=r"reasoning_effort: must be one of none, low, high\."):
        to_request({"messages": [HI], "reasoning_effort": "medium"}, BY_BUDGET)
