"""Thinking goes back to the provider that made it: what the gateway sealed, and what Anthropic signed."""

from typing import Any

import pytest
from rig.messages_requests import HELLO, ask, text, tool_use, translate

from addon.apis.thought_signatures import signature_details
from addon.dialects.opaque_reasoning import seal

CLAUDE = "anthropic-claude-v1"
ENCRYPTED = {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "format": "openai-responses-v1"}
SIGNED = {"type": "reasoning.text", "text": "Hm", "signature": "s", "format": CLAUDE, "index": 0}


def thinking(signature: str | None, said: str = "Hm") -> dict[str, Any]:
    return {"type": "thinking", "thinking": said, "signature": signature}


def redacted(data: str) -> dict[str, Any]:
    return {"type": "redacted_thinking", "data": data}


def assistant(*blocks: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    made = translate(ask([*HELLO, {"role": "assistant", "content": list(blocks)}]))
    messages = made.body["messages"]
    return (messages[1] if len(messages) > 1 else {}), made.untranslated


@pytest.mark.parametrize(
    ("blocks", "reasoning"),
    [
        ([thinking(seal([]))], {"reasoning_content": "Hm"}),
        ([thinking(seal([SIGNED]))], {"reasoning_content": "Hm", "reasoning_details": [SIGNED]}),
        (
            [thinking(seal([ENCRYPTED]), "")],
            {"reasoning_details": [{**ENCRYPTED, "index": 0}]},
        ),
        (
            [thinking(seal([{**SIGNED, "text": None}]))],
            {"reasoning_content": "Hm", "reasoning_details": [SIGNED]},
        ),
        ([redacted(seal([ENCRYPTED]))], {"reasoning_details": [{**ENCRYPTED, "index": 0}]}),
        ([thinking("s")], {"reasoning_details": [SIGNED]}),
        (
            [redacted("d")],
            {
                "reasoning_details": [
                    {"type": "reasoning.encrypted", "data": "d", "format": CLAUDE, "index": 0}
                ]
            },
        ),
    ],
)
def test_thinking_becomes_reasoning(blocks: Any, reasoning: Any):
    assert assistant(*blocks, text("Yes")) == ({"role": "assistant", "content": "Yes", **reasoning}, ())


@pytest.mark.parametrize("block", [thinking(None), thinking(""), thinking("tg1.cut"), redacted("tg1.cut")])
def test_what_no_provider_understands_is_left_out_and_named(block: Any):
    named = (f"messages.{block['type']}",)
    assert assistant(block, text("Yes")) == ({"role": "assistant", "content": "Yes"}, named)
    assert assistant(block) == ({}, named)


def test_details_of_several_blocks_are_numbered_in_one_row():
    pieces = [{**SIGNED, "signature": None}, {"type": "reasoning.text", "signature": "s", "index": 0}]
    message, _ = assistant(thinking(seal(pieces)), thinking("s2"), redacted(seal([ENCRYPTED, SIGNED])))
    assert [detail["index"] for detail in message["reasoning_details"]] == [0, 0, 1, 2, 3]
    assert message["reasoning_content"] == "Hm"


def test_signatures_of_gemini_go_back_to_their_places():
    signed = {"extra_content": {"google": {"thought_signature": "m"}}}
    call = {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    calls = [{**call, "extra_content": {"google": {"thought_signature": "c"}}}, {**call, "id": "t2"}]
    given = {"role": "assistant", "content": "Yes", "tool_calls": calls, **signed}
    details = signature_details(given)
    assert [detail.get("id") for detail in details] == [None, "t1"]
    message, _ = assistant(redacted(seal(details)), text("Yes"), tool_use("t1"), tool_use("t2"))
    assert message == given


def test_signatures_without_their_call_are_dropped():
    message, _ = assistant(redacted(seal([{**ENCRYPTED, "format": "google-gemini-v1"}])), text("Yes"))
    assert message == {"role": "assistant", "content": "Yes"}


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"extra_content": None, "tool_calls": None},
        {"extra_content": {"google": {"thought_signature": 7}}},
        {"tool_calls": [{"index": 0, "extra_content": {"google": {"thought_signature": "c"}}}]},
    ],
)
def test_messages_without_signatures(message: Any):
    assert signature_details(message) == []
