"""All text of a stream is counted, in every member and at every depth."""

import json

import pytest
from rig.relayed_streams import (
    DONE,
    A,
    chunk,
    relay,
)


@pytest.mark.parametrize(
    ("choice", "chars"),
    [
        ({"delta": {"content": "äbc"}}, 3),
        ({"delta": {"content": None, "reasoning_content": "abcd"}}, 4),
        ({"delta": {"reasoning": "ab", "reasoning_details": [{"type": "reasoning.text", "text": "ab"}]}}, 2),
        ({"delta": {"reasoning_details": [{"summary": "abc"}, {"data": "sealed"}]}}, 3 + len('"sealed"')),
        ({"delta": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "abc"}]}]}}, 3),
        ({"delta": {"content": [{"type": "text", "text": "ab"}, "c"]}}, 3),
        ({"delta": {"tool_calls": [{"function": {"name": "f", "arguments": '{"a'}}]}}, 3),
        ({"delta": {"tool_calls": [{"function": {"arguments": {"a": 1}}}, {"function": None}]}}, 7),
        ({"delta": {"tool_calls": [{"type": "custom", "custom": {"input": "abc"}}]}}, 3),
        ({"delta": {"function_call": {"arguments": "abcde"}, "tool_calls": None}}, 5),
        ({"delta": {"refusal": "no"}}, 2),
        ({"delta": {"role": "assistant", "audio": {"data": "ab"}}}, len('{"data":"ab"}')),
        ({"delta": {"images": [], "annotations": None, "novelty": [1, 2]}}, len("[1,2]")),
        ({"delta": {"content": [{"type": "image_url", "image_url": {"url": "u"}}]}}, len('{"url":"u"}')),
        (
            {"delta": {"tool_calls": [{"id": "a", "function": {"arguments": "b"}, "extra": "c"}]}},
            1 + len('"c"'),
        ),
        ({"text": "abc"}, 3),
        ({"delta": {"content": "ab"}, "message": {"content": "all so far"}}, 2),
        ({"delta": {"content": 5}}, 0),
        ("odd", 0),
    ],
)
def test_relayed_text_is_counted_in_every_member(choice: object, chars: int) -> None:
    chunks = json.dumps({"choices": [choice]}).encode()
    assert relay(b"data: %b\n\n" % chunks, DONE).text_chars == chars


@pytest.mark.parametrize("depth", [500, 5_000, 100_000])
@pytest.mark.parametrize("member", ["content", "reasoning_details", "tool_calls", "function_call"])
def test_no_depth_of_nesting_exhausts_the_stack(member: str, depth: int) -> None:
    for deep in ("[" * depth + "]" * depth, '{"arguments":' * depth + "1" + "}" * depth):
        delta = f'{{"{member}":[{deep}]}}' if member == "tool_calls" else f'{{"{member}":{deep}}}'
        event = b'data: {"choices":[{"delta":%b}]}\n\n' % delta.encode()
        result = relay(event, DONE, max_event_bytes=10_000_000)
        assert result.is_done or result.failure is not None


def test_text_that_was_not_sent_is_not_counted() -> None:
    assert relay(b"data: %b\n\ndata: %b\n\n" % (A, chunk("x", more=',"error":"no"'))).text_chars == 3
