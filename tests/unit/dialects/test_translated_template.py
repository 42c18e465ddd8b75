"""Translated streams whose events differ in their text alone: few steps, and the same chunks as if each was read."""

import json
import sys
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.native_converse_stream import event_frame

from addon.answers import silence, stream_body
from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.answers.silence import MAX_SILENT_BYTES
from addon.dialects import DIALECTS, translated_answers
from policies.family import Family

KEY = "sk-test-key-1234567890"
START = {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 5}}}
DELTA = {"type": "message_delta", "delta": {}}
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


def _said(kind: str, delta: str, index: int = 0, **more: Any) -> dict[str, Any]:
    """Return an event of the Responses API: it has a number and padding of its own."""
    padding = {"obfuscation": delta.upper() + "x"}
    placed = {"content_index": 0, "delta": delta, "item_id": "i", "output_index": index}
    return {"type": f"response.{kind}.delta", **placed, **padding, **more, "sequence_number": 3 * len(delta)}


EVENTS = {
    "responses": {
        "text": lambda text: _said("output_text", text, logprobs=[]),
        "summary": lambda text: _said("reasoning_summary_text", text, summary_index=0),
        "other summary": lambda text: _said("reasoning_summary_text", text, summary_index=len(text)),
        "arguments": lambda text: _said("function_call_arguments", text, 1),
        "input": lambda text: _said("custom_tool_call_input", text, 2),
        "other text": lambda text: _said("output_text", text, len(text)),
        "logprobs": lambda text: _said("output_text", "a", logprobs=[{"token": text}]),
        "refusal": lambda text: _said("refusal", text),
        "done": lambda text: {"type": "response.output_text.done", "output_index": 0, "text": text},
        "keepalive": lambda text: {"type": "keepalive", "sequence_number": len(text)},
    },
    "anthropic": {
        "text": lambda text: _block("text_delta", "text", text),
        "arguments": lambda text: _block("input_json_delta", "partial_json", text, 1),
        "thinking": lambda text: _block("thinking_delta", "thinking", text),
        "ping": lambda _: {"type": "ping"},
        "counts": lambda text: {**DELTA, "usage": {"output_tokens": len(text)}},
        "other counts": lambda text: {**DELTA, "usage": {"input_tokens": len(text)}},
        "reason": lambda text: {"type": "message_delta", "delta": {"stop_reason": text}},
        "stop": lambda text: {"type": "content_block_stop", "index": len(text)},
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
        "counts": lambda text: {"usageMetadata": {"promptTokenCount": len(text)}},
        "other counts": lambda text: {"candidates": [], "usageMetadata": {"totalTokenCount": len(text)}},
        "reason": lambda text: {"candidates": [{"finishReason": text}]},
        "signature": lambda text: _parts({"text": "", "thoughtSignature": text}),
        "second": lambda text: {"candidates": [{"index": 1, "finishReason": text}]},
        "none": lambda _: {"candidates": []},
    },
    "bedrock": {
        "text": lambda text: _delta({"text": text}),
        "thought": lambda text: _delta({"reasoningContent": {"text": text}}),
        "sealed": lambda text: _delta({"reasoningContent": {"signature": text}}),
        "arguments": lambda text: _delta({"toolUse": {"input": text}}, 1),
        "nothing": lambda _: _delta({}),
        "unknown": lambda text: {"unknown": {"text": text}},
        "reason": lambda text: {"messageStop": {"stopReason": text}},
        "stop": lambda text: {"contentBlockStop": {"contentBlockIndex": len(text)}},
    },
}
BEGINNING: dict[str, list[dict[str, Any]]] = {
    "responses": [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {"type": "function_call", "call_id": "call_1", "name": "f"},
        },
        {
            "type": "response.output_item.added",
            "output_index": 2,
            "item": {"type": "custom_tool_call", "call_id": "call_2", "name": "c"},
        },
    ],
    "anthropic": [START, CALL],
    "gemini": [],
    "bedrock": [
        {"messageStart": {"role": "assistant"}},
        {
            "contentBlockStart": {
                "contentBlockIndex": 1,
                "start": {"toolUse": {"toolUseId": "c", "name": "f"}},
            }
        },
    ],
}
PLAIN = {
    "responses": ("text", "summary", "arguments"),
    "anthropic": ("text", "arguments", "thinking"),
    "gemini": ("text", "thought", "signed", "counted"),
    "bedrock": ("text", "thought", "arguments"),
}
SILENT = {
    "responses": ("done", "keepalive"),
    "anthropic": ("counts", "other counts", "reason", "stop"),
    "gemini": ("counts", "other counts", "reason", "signature", "second", "none"),
    "bedrock": ("nothing", "unknown", "reason", "stop"),
}
TEXTS = ("", "a", "b c", "text", "\u00e9", 'say "x"', "\n", "\ud800", "sk-t", KEY, KEY[:12], KEY[12:])
CASES = [(dialect, kind) for dialect, kinds in PLAIN.items() for kind in kinds]


def _delta(delta: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}


def _reader(dialect: str, secrets: tuple[str, ...] = (KEY,)) -> AnswerReader:
    return DIALECTS[dialect].stream(AnswerContext("house/slug", Family("plain"), secrets=secrets))


def _stream(dialect: str, events: Iterable[dict[str, Any]]) -> bytes:
    if dialect == "bedrock":
        return b"".join(event_frame(name, payload) for one in events for name, payload in one.items())
    if dialect == "anthropic":
        return b"".join(map(_padded, events))
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in events)


def _padded(event: dict[str, Any]) -> bytes:
    """Return an event as Anthropic sends it, with blanks that hide the length of its text."""
    text = json.dumps(event)
    return f"event: x\ndata: {text[:-1]}{' ' * (len(text) % 4)}}}\n\n".encode()


def _relay(dialect: str, pieces: Iterable[bytes], secrets: tuple[str, ...]) -> tuple[object, ...]:
    reader = _reader(dialect, secrets)
    out = b"".join([*map(reader.feed, pieces), reader.finish()])
    shown = [json.loads(one[6:]) if one[6:] != b"[DONE]" else one for one in out.split(b"\n\n") if one]
    return shown, reader.usage, reader.relayed_text_chars, reader.finish_reason, reader.failure


@pytest.mark.parametrize("dialect", EVENTS)
@given(data=st.data())
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
        patch.setattr(silence, "MAX_EVENTS", 0)
        assert relayed == _relay(dialect, pieces, secrets)


@pytest.mark.parametrize(("dialect", "kind"), CASES)
def test_events_that_differ_in_their_text_take_few_steps(dialect: str, kind: str) -> None:
    reader, steps = _reader(dialect), 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal steps
        steps += event == "call"

    events = [EVENTS[dialect][kind](text) for text in ("a", "bb", "ccc", "dddd")]
    reader.feed(_stream(dialect, [*BEGINNING[dialect], *events]))
    more = _stream(dialect, events * 100)
    sys.setprofile(count)
    reader.feed(more)
    sys.setprofile(None)
    assert reader.failure is None
    limit = 10 if dialect == "bedrock" else 5  # Each frame is cut and checked.
    assert steps <= limit * 400 + 50, "calls of Python functions"


@pytest.mark.parametrize(
    ("dialect", "kind"), [(one, kind) for one, kinds in SILENT.items() for kind in kinds]
)
def test_events_that_give_nothing_and_come_again_are_not_parsed_each(
    dialect: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, parsed = _reader(dialect), 0
    parse = stream_body.parse_bounded

    def count(text: bytes, max_values: int) -> object:
        nonlocal parsed
        parsed += 1
        return parse(text, max_values)

    monkeypatch.setattr(stream_body, "parse_bounded", count)
    turns = [EVENTS[dialect][kind](text) for text in ("STOP", "MAX_TOKENS")]
    reader.feed(_stream(dialect, [*BEGINNING[dialect], EVENTS[dialect]["text"]("a"), *turns, *turns]))
    parsed = 0
    reader.feed(_stream(dialect, turns * 200))
    assert reader.failure is None
    assert parsed <= 2, "each of the two once, when nothing else comes"


def _signed(signature: str) -> bytes:
    return _stream("gemini", [_parts({"text": "", "thoughtSignature": signature})])


def test_a_signature_that_is_kept_is_no_silence() -> None:
    reader = _reader("gemini")
    reader.feed(_stream("gemini", [_parts({"text": "a"})]))
    last = ""
    for number in range(5):
        last = f"{number}" * 300_000
        text = _signed(last)
        for at in range(0, len(text), 8_192):
            reader.feed(text[at : at + 8_192])
        assert reader.failure is None
    shown = reader.feed(_stream("gemini", [{"candidates": [{"finishReason": "STOP"}]}])) + reader.finish()
    assert last.encode() in shown


@pytest.mark.parametrize("signatures", [("a" * 300_000,), ("a", "b"), ("",)])
def test_signatures_do_not_go_on_for_ever(signatures: tuple[str, ...]) -> None:
    reader, text = _reader("gemini"), b"".join(map(_signed, signatures))
    reader.feed(_stream("gemini", [_parts({"text": "a"})]))
    fed = 0
    while reader.failure is None:
        reader.feed(text)
        fed += len(text)
        assert fed < MAX_SILENT_BYTES + 3 * 300_000, "the same ones again are no content"
    assert "without content" in reader.failure.message
