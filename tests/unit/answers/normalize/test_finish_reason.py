"""Each provider's finish reason becomes a word of the contract."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.normalized import CALL, FAMILY, relayed

from addon.answers.normalize.choices import normalize_message_choices
from addon.answers.normalize.finish_reason import standard_finish_reason

REASONS: dict[Any, tuple[str | None, str | None]] = {
    # the provider's word: its meaning alone, and with tool calls
    "stop": ("stop", "tool_calls"),
    "eos_token": ("stop", "tool_calls"),
    "eos": ("stop", "tool_calls"),
    "end_turn": ("stop", "tool_calls"),
    "stop_sequence": ("stop", "tool_calls"),
    "COMPLETE": ("stop", "tool_calls"),
    "length": ("length", "length"),
    "max_tokens": ("length", "length"),
    "MAX_TOKENS": ("length", "length"),
    "model_length": ("length", "length"),
    "tool_calls": ("tool_calls", "tool_calls"),
    "tool_call": ("tool_calls", "tool_calls"),
    "tool_use": ("tool_calls", "tool_calls"),
    "function_call": ("function_call", "function_call"),
    "content_filter": ("content_filter", "content_filter"),
    "SAFETY": ("content_filter", "content_filter"),
    "refusal": ("content_filter", "content_filter"),
    "insufficient_system_resource": ("insufficient_system_resource", "insufficient_system_resource"),
    1: ("stop", "tool_calls"),
    2: ("length", "length"),
    128009: ("stop", "tool_calls"),
    "": (None, None),
    None: (None, None),
}


@pytest.mark.parametrize(("reason", "expected"), REASONS.items())
def test_a_finish_reason_becomes_a_word_of_the_contract(reason: Any, expected: tuple[str | None, str | None]):
    assert tuple(standard_finish_reason(reason, calls_tools=calls) for calls in (False, True)) == expected


@given(st.text() | st.integers() | st.booleans() | st.none() | st.lists(st.text()))
def test_a_word_of_the_contract_stays(reason: Any):
    for calls in (False, True):
        once = standard_finish_reason(reason, calls_tools=calls)
        assert standard_finish_reason(once, calls_tools=calls) == once


def stop(reason: Any, delta: dict[str, Any] | None = None) -> list[Any]:
    return [{"index": 0, "delta": delta or {}, "finish_reason": reason}]


def test_stop_after_tool_calls_becomes_tool_calls_in_a_stream():
    call = {"index": 0, **CALL}
    assert relayed([stop(None, {"tool_calls": [call]}), stop("stop")])[-1] == stop("tool_calls")
    assert relayed([stop("stop", {"tool_calls": [call]})]) == [stop("tool_calls", {"tool_calls": [call]})]
    assert relayed([stop(None, {"tool_calls": [call]}), stop("length")])[-1] == stop("length")


def test_an_empty_finish_reason_is_null_until_the_stream_ends():
    sent = relayed([stop("", {"content": "a"}), stop("", {"content": "b"})])
    assert sent == [stop(None, {"content": "a"}), stop(None, {"content": "b"}), stop("stop")]
    assert relayed([stop("", {"content": "a"}), stop("length")]) == [
        stop(None, {"content": "a"}),
        stop("length"),
    ]
    assert relayed([stop("", {"tool_calls": [{"index": 0, **CALL}]})])[-1] == stop("tool_calls")


def test_the_first_of_two_finish_reasons_stays():
    assert relayed([stop("length"), stop("stop"), stop("length")]) == [stop("length")] * 3


@pytest.mark.parametrize(
    ("reason", "calls", "expected"),
    [("", [], "stop"), ("", [CALL], "tool_calls"), (None, [], "stop"), (None, [CALL], "tool_calls")],
)
def test_a_whole_answer_has_a_finish_reason_of_the_contract(reason: Any, calls: list[Any], expected: str):
    choices = [{"index": 0, "message": {"role": "assistant", "tool_calls": calls}, "finish_reason": reason}]
    assert (normalize_message_choices(choices, FAMILY) or choices)[0]["finish_reason"] == expected
    del choices[0]["finish_reason"]
    made = normalize_message_choices(choices, FAMILY)
    assert made and made[0]["finish_reason"] == ("tool_calls" if calls else "stop")
