"""What a model lacks is refused by name."""

from dataclasses import replace
from typing import Any

import pytest
from rig.routed_calls import MODELS

from policies.model_lacks import LACKS, check_lacks
from policies.refusal import Refusal

GPT = MODELS["gpt"]
ASKED = {"role": "user", "content": "hello"}
PICTURE = {
    "role": "user",
    "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": "data:,"}],
}
TOOLS = [{"type": "function", "function": {"name": "f"}}]
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "a"}


def refused(lack: str, *messages: dict[str, Any], stream: bool = False, **fields: Any) -> str | None:
    """Return the field that a model with one lack refuses, None where it takes the call."""
    asked = {"messages": messages or (ASKED,), **fields}
    check_lacks(asked, GPT, stream=stream)
    try:
        check_lacks(asked, replace(GPT, lacks=frozenset({lack})), stream=stream)
    except Refusal as refusal:
        return refusal.param if refusal.code == "validation_failed" and GPT.slug in refusal.message else "?"
    return None


@pytest.mark.parametrize("lack", LACKS)
def test_an_ordinary_call_needs_none_of_it(lack: str) -> None:
    assert refused(lack, stream=True) is None
    assert refused(lack, tools=[], stream=True) is None


def test_images() -> None:
    assert refused("images", ASKED, PICTURE) == "messages.1.content.1"
    assert refused("tools", PICTURE) is None


@pytest.mark.parametrize(
    ("image", "place"),
    [
        ("https://example.com/a.png", "messages.0.content.0"),
        ({"url": "HTTP://example.com/a.png"}, "messages.0.content.0"),
        ({"url": "data:image/png;base64,AA=="}, None),
        ({}, None),
    ],
)
def test_images_by_url(image: Any, place: str | None) -> None:
    part = {"type": "image_url", "image_url": image}
    assert refused("image_urls", {"role": "user", "content": [part]}) == place


def test_tools() -> None:
    assert refused("tools", tools=TOOLS) == "tools"
    assert refused("images", tools=TOOLS) is None


def test_tools_in_a_stream() -> None:
    assert refused("streamed_tools", tools=TOOLS, stream=True) == "tools"
    assert refused("streamed_tools", tools=TOOLS) is None


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([ASKED, CALLED, RESULT], None),
        ([ASKED, {**CALLED, "content": "I look."}, RESULT], "messages.1.content"),
        ([ASKED, CALLED, RESULT, ASKED], "messages.3.content"),
        ([ASKED, CALLED, RESULT, {"role": "assistant", "content": "a"}, ASKED], None),
    ],
)
def test_text_beside_tool_calls(messages: list[dict[str, Any]], place: str | None) -> None:
    assert refused("text_beside_tool_calls", *messages, tools=TOOLS) == place
    assert refused("text_beside_tool_calls", *messages) is None
