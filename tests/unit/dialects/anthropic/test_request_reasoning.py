"""Reasoning in requests of Anthropic's Messages API: earlier thinking, and an effort as thinking."""

import pytest
from rig.anthropic_requests import ADAPTIVE, BUDGETS, HELLO, WEATHER, assistant, call, native, text

THOUGHT = {
    "type": "reasoning.text",
    "text": "Hm.",
    "signature": "s",
    "format": "anthropic-claude-v1",
    "index": 0,
}
SEALED = {"type": "reasoning.encrypted", "data": "d", "format": "anthropic-claude-v1", "index": 1}
USED = [call()]
RESULT = {"role": "tool", "tool_call_id": "t1", "content": "a"}


@pytest.mark.parametrize(
    "details",
    [
        [THOUGHT, SEALED],
        [
            {"type": "reasoning.text", "text": "Hm.", "signature": "s"},
            {"type": "reasoning.encrypted", "data": "d"},
        ],
        [
            *[{**THOUGHT, "text": piece, "signature": None} for piece in ("H", "m", ".")],
            {**THOUGHT, "text": None},
            SEALED,
        ],
        [
            THOUGHT,
            {"type": "reasoning.text", "text": "of another", "signature": "s", "format": "google-gemini-v1"},
            {"type": "reasoning.text", "text": "that no one signed", "index": 7},
            {"type": "reasoning.summary", "summary": "of another", "index": 8},
            SEALED,
        ],
    ],
)
def test_only_anthropics_reasoning_goes_back_and_comes_first(details):
    messages = [*HELLO, {"role": "assistant", "content": "a", "reasoning_details": details}]
    assert native(messages=messages)["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        text("a"),
    ]


@pytest.mark.parametrize(
    ("family", "chat", "thinking", "config"),
    [
        (ADAPTIVE, {"reasoning_effort": "xhigh"}, {"type": "adaptive"}, {"effort": "xhigh"}),
        (ADAPTIVE, {"reasoning_effort": "none"}, {"type": "disabled"}, None),
        (
            ADAPTIVE,
            {"reasoning_effort": "low", "thinking": {"type": "disabled"}},
            {"type": "disabled"},
            {"effort": "low"},
        ),
        (BUDGETS, {"reasoning_effort": "low"}, {"type": "enabled", "budget_tokens": 1024}, None),
        (BUDGETS, {"reasoning_effort": "none"}, {"type": "disabled"}, None),
        (BUDGETS, {"reasoning_effort": "high"}, None, None),  # not lower than the cap
        (BUDGETS, {"reasoning_effort": "high", "max_tokens": 4096}, None, None),
        (
            BUDGETS,
            {"reasoning_effort": "high", "max_tokens": 4097},
            {"type": "enabled", "budget_tokens": 4096},
            None,
        ),
        (BUDGETS, {"reasoning_effort": "low", "tools": [WEATHER], "tool_choice": "required"}, None, None),
        (BUDGETS, {"reasoning_effort": "low"} | assistant(content="It is"), None, None),
        (
            BUDGETS,
            {
                "reasoning_effort": "low",
                "messages": [*HELLO, {"role": "assistant", "tool_calls": USED}, RESULT],
            },
            None,
            None,
        ),
        (
            BUDGETS,
            {
                "reasoning_effort": "low",
                "messages": [
                    *HELLO,
                    {"role": "assistant", "tool_calls": USED, "reasoning_details": [THOUGHT]},
                    RESULT,
                ],
            },
            {"type": "enabled", "budget_tokens": 1024},
            None,
        ),
        (BUDGETS, {}, None, None),
        (BUDGETS, {"thinking": {"type": "enabled", "budget_tokens": 4000}}, None, None),
        (
            BUDGETS,
            {"thinking": {"type": "enabled", "budget_tokens": 3999}},
            {"type": "enabled", "budget_tokens": 3999},
            None,
        ),
    ],
)
def test_an_effort_becomes_thinking_when_the_api_allows_it(family, chat, thinking, config):
    made = native(family, **chat)
    assert (made.get("thinking"), made.get("output_config")) == (thinking, config)


def test_a_budgeted_model_without_thinking_gets_no_earlier_thinking():
    messages = [*HELLO, {"role": "assistant", "content": "a", "reasoning_details": [THOUGHT]}, *HELLO]
    for asked in ({}, {"thinking": {"type": "disabled"}}, {"reasoning_effort": "none"}):
        assert native(BUDGETS, messages=messages, **asked)["messages"][1]["content"] == [text("a")]
    kept = native(BUDGETS, messages=messages, thinking={"type": "enabled", "budget_tokens": 1024})
    assert [block["type"] for block in kept["messages"][1]["content"]] == ["thinking", "text"]
