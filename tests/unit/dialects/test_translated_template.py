"""Translated streams whose events differ in their text alone: few steps, and the same chunks as if each was read."""

import json
import sys
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.dialects import DIALECTS, translated_answers
from policies.family import Family

KEY = "sk-test-key-1234567890"
START = {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 5}}}
CALL = {
    "type": "content_block_start",
    "index": 1,
    "content_block": {"type": "tool_use", "id": "call_1", "name": "f", "input": {}},
}
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}


def _block(kind: str, name: str, text: str, index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, name: text}}


def _parts(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, "index": 0}], **more}


EVENTS = {
    "anthropic": {
        "text": lambda text: _block("text_delta", "text", text),
        "arguments": lambda text: _block("input_json_delta", "partial_json", text, 1),
        "thinking": lambda text: _block("thinking_delta", "thinking", text),
        "ping": lambda _: {"type": "ping"},
    },
    "gemini": {
        "text": lambda text: _parts({"text": text}),
        "thought": lambda text: _parts({"text": text, "thought": True}),
        "signed": lambda text: _parts({"text": text, "thoughtSignature": "c2ln"}),
        "counted": lambda text: _parts({"text": text}, usageMetadata={"promptTokenCount": 5}),
        "picture": lambda text: _parts({"text": text}, PICTURE),
        "unknown": lambda text: _parts({"text": text}, {"executableCode": {"code": "1"}}),
        "call": lambda text: _parts({"functionCall": {"name": "f", "args": {"text": text}}}),
        "two": lambda text: _parts({"text": text}, {"text": "b"}),
        "other": lambda text: _parts({"text": text}, other=1),
    },
}
BEGINNING = {"anthropic": [START, CALL], "gemini": []}
PLAIN = {"anthropic": ("text", "arguments"), "gemini": ("text", "thought", "signed", "counted")}
TEXTS = ("", "a", "b c", "text", "\u00e9", 'say "x"', "\n", "\ud800", "sk-t", KEY, KEY[:12], KEY[12:])
CASES = [(dialect, kind) for dialect, kinds in PLAIN.items() for kind in kinds]


def _reader(dialect: str, secrets: tuple[str, ...] = (KEY,)) -> AnswerReader:
    return DIALECTS[dialect].stream(AnswerContext("house/slug", Family("plain"), secrets=secrets))


def _stream(dialect: str, events: Iterable[dict[str, Any]]) -> bytes:
    named = b"event: x\n" if dialect == "anthropic" else b""
    return b"".join(named + b"data: " + json.dumps(one).encode() + b"\n\n" for one in events)


def _relay(dialect: str, pieces: Iterable[bytes], secrets: tuple[str, ...]) -> tuple[object, ...]:
    reader = _reader(dialect, secrets)
    out = b"".join([*map(reader.feed, pieces), reader.finish()])
    shown = [json.loads(one[6:]) if one[6:] != b"[DONE]" else one for one in out.split(b"\n\n") if one]
    return shown, reader.usage, reader.relayed_text_chars, reader.finish_reason, reader.failure


@pytest.mark.parametrize("dialect", EVENTS)
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_events_that_are_alike_are_relayed_as_if_each_was_read(dialect: str, data: st.DataObject) -> None:
    runs = data.draw(
        st.lists(
            st.tuples(st.sampled_from(sorted(EVENTS[dialect])), st.lists(st.sampled_from(TEXTS), max_size=6)),
            max_size=5,
        )
    )
    events = [EVENTS[dialect][kind](text) for kind, texts in runs for text in texts]
    stream = _stream(dialect, [*BEGINNING[dialect], *events])
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=4))
    secrets = data.draw(st.sampled_from([(), (KEY,)]))
    pieces = [stream[start:end] for start, end in pairwise(sorted({0, len(stream), *cuts}))]
    relayed = _relay(dialect, pieces, secrets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translated_answers, "MAX_MISSES", 0)  # No template is made.
        assert relayed == _relay(dialect, pieces, secrets)


@pytest.mark.parametrize(("dialect", "kind"), CASES)
def test_events_that_differ_in_their_text_take_few_steps(dialect: str, kind: str) -> None:
    reader, steps = _reader(dialect), 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal steps
        steps += event == "call"

    events = [EVENTS[dialect][kind](text) for text in "abcd"]
    reader.feed(_stream(dialect, [*BEGINNING[dialect], *events]))
    more = _stream(dialect, events * 100)
    sys.setprofile(count)
    reader.feed(more)
    sys.setprofile(None)
    assert reader.failure is None
    assert steps <= 5 * 400 + 50, "calls of Python functions"
