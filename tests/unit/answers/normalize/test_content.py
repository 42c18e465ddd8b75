"""Content becomes a string, and the thinking in it becomes reasoning."""

from typing import Any

import pytest
from rig.normalized import assert_delta, assert_message, delta_of, message_of

THINKING = {
    "type": "thinking",
    "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}],
    "closed": True,
}
TEXT = {"type": "text", "text": "yes"}
PICTURE = {"type": "image_url", "image_url": {"url": "https://x"}}


# case: a message or delta, what is relayed
SHOWN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain text": ({"content": "yes", "new": 1}, {"content": "yes", "new": 1}),
    "null content": ({"content": None, "refusal": None}, {"content": None, "refusal": None}),
    "text parts become a string": ({"content": [TEXT, {"type": "text", "text": "!"}]}, {"content": "yes!"}),
    "thinking parts are reasoning": (
        {"content": [THINKING, TEXT]},
        {"content": "yes", "reasoning_content": "hm"},
    ),
    "other parts stay a list": (
        {"content": [THINKING, TEXT, PICTURE]},
        {"content": [TEXT, PICTURE], "reasoning_content": "hm"},
    ),
    "a list of other parts alone is untouched": ({"content": [PICTURE]}, {"content": [PICTURE]}),
    "an empty list is an empty string": ({"content": []}, {"content": ""}),
    "an object that is a part": ({"content": TEXT}, {"content": "yes"}),
    "an object that a model wrote": (
        {"content": {"name": "É", "age": 3}},
        {"content": '{"name":"É","age":3}'},
    ),
    "a summary in a part": (
        {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, TEXT]},
        {"content": "yes", "reasoning_content": "hm"},
    ),
    "thinking that is sent twice": (
        {"content": [THINKING, TEXT], "reasoning_content": "hm"},
        {"content": "yes", "reasoning_content": "hm"},
    ),
    "the old function_call": (
        {"content": None, "function_call": {"name": "f", "arguments": "{"}},
        {"content": None, "function_call": {"name": "f", "arguments": "{"}},
    ),
}


@pytest.mark.parametrize(("given", "expected"), SHOWN.values(), ids=SHOWN)
def test_a_delta_is_normalized(given: dict[str, Any], expected: dict[str, Any]):
    assert_delta(given, expected)


@pytest.mark.parametrize(("given", "expected"), SHOWN.values(), ids=SHOWN)
def test_a_message_is_normalized(given: dict[str, Any], expected: dict[str, Any]):
    assert_message(given, expected)


def test_only_a_message_has_empty_content_next_to_thinking():
    assert delta_of({"content": [THINKING]}) == {"reasoning_content": "hm"}
    assert message_of({"content": [THINKING]}) == {"content": "", "reasoning_content": "hm"}
