"""The key of a call is masked in its answer, for every way of cutting or escaping the key."""

import json
import re
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.scripts import DONE, chunk, event

from addon.answers.chunks import ChatChunks
from addon.answers.context import AnswerContext
from addon.answers.guarded_reader import GuardedReader
from addon.answers.stream import StreamedAnswerReader
from addon.answers.streamed_secrets import MAX_TEXTS, SecretFreeText
from addon.dialects import DIALECTS
from policies.family import Family

KEY = "sk-proj-Zq7Rk2XwP9tL/mB4vNs8"
OTHER = "sk-proj-Other7Rk2XwP9tLmB4v"
SOURCE = AnswerContext("slug", Family("plain"), secrets=(KEY, OTHER))
HI, END = chunk("hi"), chunk(finish="stop")


def reader_of() -> GuardedReader:
    return GuardedReader(StreamedAnswerReader(ChatChunks(SOURCE), SOURCE), SOURCE.secrets)


def payloads(sent: bytes) -> list[Any]:
    lines = [one.removeprefix(b"data: ") for one in sent.split(b"\n\n") if one.startswith(b"data: {")]
    return [json.loads(line) for line in lines]


def joined(sent: bytes) -> dict[Any, str]:
    """Return the texts that a client joins."""
    texts: dict[Any, str] = defaultdict(str)
    for made in payloads(sent):
        for choice in made["choices"]:
            for name, value in choice["delta"].items():
                if name == "tool_calls":
                    for call in value:
                        function = call.get("function") or {}
                        texts[choice["index"], call["index"]] += function.get("arguments") or ""
                elif isinstance(value, str):
                    texts[choice["index"], name] += value
    return dict(texts)


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


def bare(text: str) -> str:
    """Return the text without the visible part of a key: three characters, or a vendor's opening."""
    return re.sub(r"[sk-]*\*\*\*", "***", text)


PLACES = st.lists(st.integers(0, 200), max_size=30)
TEXTS = st.lists(
    st.sampled_from([KEY, OTHER, KEY[:9], "sk-", "s", "words ", "\\n", KEY[1:], KEY[:-1], "é"]), max_size=6
)


@given(TEXTS.map("".join), PLACES)
def test_any_cut_of_a_text_hides_the_key_and_keeps_the_rest(text: str, places: list[int]) -> None:
    one = SecretFreeText((KEY, OTHER))
    shown = "".join([one.read(piece) for piece in cut(text, places)])
    assert KEY not in shown
    assert OTHER not in shown
    assert bare(shown + one.held) == bare(text.replace(KEY, "***").replace(OTHER, "***"))
    assert any(one.held in key for key in (KEY, OTHER))


@given(
    st.sampled_from(["content", "reasoning_content", "arguments", "reasoning", "refusal"]),
    PLACES,
    st.booleans(),
)
def test_a_client_can_not_join_a_key(name: str, places: list[int], alone: bool) -> None:
    text = f"My key is {KEY}, and yours {OTHER}."
    chunks = [chunk(role="assistant")]
    for number, piece in enumerate(cut(text, places)):
        if name == "arguments":
            first = {"id": "c", "type": "function"} if number == 0 else {}
            function = {"name": "f"} if number == 0 else {}
            call = {"index": 0, **first, "function": {**function, "arguments": piece}}
            chunks.append(chunk(tool_calls=[call]))
        else:
            chunks.append(chunk(**{name: piece}))
        if not alone:
            chunks.append(
                chunk("x") | {"choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": None}]}
            )
    sent = reader_of().feed(b"".join(map(event, [*chunks, END])) + DONE)
    texts = joined(sent)
    place: Any = (0, 0) if name == "arguments" else (0, name.replace("reasoning_content", "reasoning"))
    place = (0, "reasoning_content") if place == (0, "reasoning") else place
    assert bare(texts[place]) == "My key is ***, and yours ***."
    assert sent.endswith(DONE)


def test_only_a_possible_beginning_of_a_key_is_held() -> None:
    reader = reader_of()
    for text in ("words that end with s", " and k", "-p", " and sk-"):
        assert joined(reader.feed(event(chunk(text)))) == {(0, "content"): text}
    assert joined(reader.feed(event(chunk("see sk-proj")))) == {(0, "content"): "see "}
    assert joined(reader.feed(event(chunk("ect")))) == {(0, "content"): "sk-project"}


def test_held_text_is_sent_before_its_choice_goes_on() -> None:
    reader = reader_of()
    assert joined(reader.feed(event(chunk("an sk-pro")))) == {(0, "content"): "an "}
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
    made = payloads(reader.feed(event(chunk(tool_calls=[call]))))
    assert made[0]["choices"][0]["delta"] == {"tool_calls": [call], "content": "sk-pro"}
    reader.feed(event(chunk(tool_calls=[{"index": 0, "function": {"arguments": '"sk-p'}}])))
    [text, end] = payloads(reader.feed(event(END) + DONE))
    assert text["choices"][0]["delta"] == {"tool_calls": [{"index": 0, "function": {"arguments": "sk-p"}}]}
    assert end["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("ending", [DONE, event(END) + DONE])
def test_held_text_is_sent_or_masked_at_the_end(ending: bytes) -> None:
    for text, shown in (("my sk-p", "my sk-p"), (f"my {KEY[:20]}", "my ***")):
        assert joined(reader_of().feed(event(chunk(text)) + ending))[0, "content"] == shown


def test_a_key_is_masked_after_a_chunk_with_its_beginning() -> None:
    head, tail = KEY[:14], KEY[14:]
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
    sent = reader_of().feed(
        event(chunk(head)) + event(chunk(tool_calls=[call])) + event(chunk(tail)) + event(END) + DONE
    )
    assert joined(sent)[0, "content"] == "******"


def escaped(text: str, every: int) -> str:
    return "".join(f"\\u{ord(char):04X}" if number % every == 0 else char for number, char in enumerate(text))


@pytest.mark.parametrize("every", [1, 2, 7])
@pytest.mark.parametrize("name", ["id", "content", "x", "arguments"])
def test_an_escaped_key_is_masked_in_every_member(name: str, every: int) -> None:
    key = escaped(KEY, every).replace("/", "\\/")
    delta = {"content": f'"content":"a {key} b"', "arguments": f'"arguments":"{{\\"a\\":\\"{key}\\"}}"'}.get(
        name, ""
    )
    head = f'"id":"{key if name == "id" else 1}","x":"{key}"'
    text = f'data: {{{head},"choices":[{{"index":0,"delta":{{{delta}}}}}]}}\n\n'
    sent = reader_of().feed(text.encode()) + reader_of().feed(DONE)
    assert KEY not in json.dumps(payloads(sent)).replace("\\/", "/")
    assert "***" in sent.decode()


def test_a_key_that_is_escaped_twice_is_masked() -> None:
    inner = json.dumps({"key": "KEY"}).replace("KEY", escaped(KEY, 1))
    for body in (inner, json.dumps(inner), json.dumps(json.dumps(inner))):
        answer = json.dumps({"choices": [{"message": {"content": "BODY"}}]}).replace(
            '"BODY"', json.dumps(body)
        )
        reader = GuardedReader(DIALECTS["openai"].whole(SOURCE, 10**6), SOURCE.secrets)
        reader.feed(answer.encode())
        sent = reader.finish()
        assert b"***" in sent
        assert b"u005A" not in sent


@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
def test_a_key_in_pieces_is_masked_in_every_dialect(dialect: str) -> None:
    reader = GuardedReader(DIALECTS[dialect].stream(SOURCE), SOURCE.secrets)
    pieces = [KEY[at : at + 5] for at in range(0, len(KEY), 5)]
    if dialect == "anthropic":
        start = {"type": "message_start", "message": {"id": "m", "usage": {}}}
        deltas = [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": p}}
            for p in pieces
        ]
        end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
        events = [start, *deltas, end, {"type": "message_stop"}]
    else:
        events = [{"candidates": [{"content": {"parts": [{"text": piece}]}}]} for piece in pieces]
        events.append({"candidates": [{"finishReason": "STOP"}]})
    sent = reader.feed(b"".join(map(event, events))) + reader.finish()
    assert joined(sent)[0, "content"] == "***"
    assert sent.endswith(DONE)


@pytest.mark.parametrize("name", ["text", "summary", "signature", "data"])
def test_a_key_in_pieces_of_a_reasoning_detail_is_masked(name: str) -> None:
    reader = reader_of()
    pieces = [{"type": "reasoning.text", "index": 0, name: piece} for piece in (KEY[:9], KEY[9:], "x")]
    sent = b"".join([reader.feed(event(chunk(reasoning_details=[piece]))) for piece in pieces])
    deltas = [choice["delta"] for made in payloads(sent) for choice in made["choices"]]
    details = [one for delta in deltas for one in delta.get("reasoning_details", ())]
    assert "".join(one.get(name, "") for one in details) == "***x"


def test_the_number_of_followed_texts_is_bounded() -> None:
    chunks = ChatChunks(SOURCE)
    reader = StreamedAnswerReader(chunks, SOURCE)
    for number in range(6_000):
        reader.feed(event(chunk(reasoning_details=[{"index": number, "text": "x"}])))
    assert len(chunks._secrets._texts) <= 4_096


def test_more_texts_than_are_followed_pass() -> None:
    calls = [
        {"index": at, "id": f"c{at}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for at in range(MAX_TEXTS + 2)
    ]
    reader = reader_of()
    sent = b"".join(reader.feed(event(chunk(tool_calls=[call]))) for call in calls)
    sent += reader.feed(event(chunk(finish="tool_calls"))) + reader.feed(DONE)
    assert reader.failure is None
    assert set(joined(sent)) == {(0, at) for at in range(MAX_TEXTS + 2)}


def test_a_beginning_of_a_key_in_the_last_chunk_of_its_choice_is_not_held() -> None:
    """Text after the ``finish_reason`` is lost for clients that stop there."""
    reader = reader_of()
    sent = reader.feed(event(chunk(KEY[:6], finish="stop"))) + reader.feed(DONE)
    choices = [choice for made in payloads(sent) for choice in made["choices"]]
    assert "".join(one["delta"].get("content") or "" for one in choices) == KEY[:6]
    assert [one["finish_reason"] for one in choices if one["finish_reason"]] == ["stop"]
    assert choices[-1]["finish_reason"] == "stop"
