"""Usage, finish reason and model of an OpenAI-shaped stream."""

import json
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.relayed_streams import (
    DONE,
    HEAD,
    A,
    one_by_one,
    reader_of,
    relay,
)

from addon.answers import chunks, silence
from addon.answers.context import AnswerContext
from policies.family import Family
from policies.usage import Usage


def test_usage_is_read_from_any_event() -> None:
    groq = b'{"choices":[],"x_groq":{"usage":{"prompt_tokens":7,"completion_tokens":1}}}'
    own = b'{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_cache_hit_tokens":5}}'
    assert relay(b"data: %b\n\n" % groq, DONE).usage == Usage(7, 1)
    assert relay(b"data: %b\n\ndata: %b\n\n" % (groq, own), DONE).usage == Usage(7, 2, None, 5)
    assert relay(b"data: %b\n\ndata: %b\n\n" % (own, A), DONE).usage == Usage(7, 2, None, 5)
    assert relay(b"data: %b\n\n" % A, DONE).usage is None


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (['"stop"'], "stop"),
        (['"tool_calls"', '"stop"', "null"], "stop"),
        (["null", '""', '"eos_token"'], "eos_token"),
        (["7"], "7"),
        (["null"], None),
    ],
)
def test_the_last_finish_reason_that_is_not_empty_counts(reasons: list[str], expected: str | None) -> None:
    events = [b'data: {"choices":[{"delta":{},"finish_reason":%b}]}\n\n' % r.encode() for r in reasons]
    assert relay(*events, DONE).finish_reason == expected


def test_a_slug_is_written_as_JSON() -> None:
    reader = reader_of(source=AnswerContext('o"d\\d/sl\u00fcg', Family("plain")))
    out = reader.feed(b"data: %b\n\n" % A)
    assert json.loads(out.removeprefix(b"data: "))["model"] == 'o"d\\d/sl\u00fcg'


KEY = "Zq7Rk2XwP9tLmB4vNs8"
TEXTS = [
    b"a",
    b"two words",
    "\u00e4\u20ac".encode(),
    b'\\"',
    b"\\ud83d\\ude00",
    KEY[:9].encode(),
    KEY[9:].encode(),
    b"Zq7",
]
ALIKE = [
    b'data: {%b,"model":"up","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % (HEAD.encode(), text)
    for text in TEXTS
]
PADDED = [
    event.replace(b"}\n", b',"usage":null,"obfuscation":"%b"}\n' % padding)
    for event, padding in zip(
        ALIKE, [b"", b"a1", b"x" * 20, b"\\u0041", b"a", b"b", b"not plain", b"z"], strict=True
    )
]
UNLIKE = [
    *(
        PADDED[0].replace(b'""', b"null"),
        PADDED[1].replace(b'"a1"', b"12"),
        PADDED[1].replace(b'"a1"', b"345"),
    ),
    *(PADDED[1].replace(b'"a1"', b'"a1"x'), PADDED[1].replace(b"}\n", b',"obfuscation":"b"}\n')),
    *(event.replace(b"\n", b"\r\n") for event in ALIKE[:2]),
    *(event.replace(b"\n", b"\r") for event in ALIKE[:2]),
    *(b": comment\n\n", b"\n", b"data: {}\n\n", b"data: %b\n\n" % A, DONE),
    *(b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n', ALIKE[0].replace(b'"a"', b'"\xff"')),
    ALIKE[0].replace(b'"a"', b'"%b"' % (b"x" * 300)),
]


@given(
    st.lists(st.sampled_from(ALIKE) | st.sampled_from([*ALIKE, *UNLIKE]), max_size=12)
    | st.lists(st.sampled_from(PADDED) | st.sampled_from([*ALIKE, *PADDED, *UNLIKE]), max_size=12),
    st.lists(st.integers(0, 2_000), max_size=6),
    st.sampled_from([(), (KEY,)]),
)
def test_chunks_that_are_alike_are_relayed_as_if_each_was_read(
    events: list[bytes], cuts: list[int], secrets: tuple[str, ...]
) -> None:
    source = AnswerContext("house/slug", Family("plain"), secrets=secrets)
    stream = b"".join(events)
    ends = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(ends)]
    relayed = relay(*pieces, max_event_bytes=300, source=source)
    assert relayed == relay(*one_by_one(stream), max_event_bytes=300, source=source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "MAX_MISSES", 0)  # No template is made.
        assert relayed == relay(*pieces, max_event_bytes=300, source=source)


def event(choice: str, more: str = "") -> bytes:
    return f'data: {{"id":"c1","choices":[{choice}]{more}}}\n\n'.encode()


def twins(text: str, again: str, more: str = "") -> bytes:
    detail = f'{{"type":"reasoning.text","text":"{again}","index":0}}'
    return event(f'{{"index":0,"delta":{{"reasoning":"{text}","reasoning_details":[{detail}]{more}}}}}')


def details(text: str, more: str = "") -> bytes:
    detail = f'{{"type":"reasoning.text","text":"{text}"{more},"index":0}}'
    return event(f'{{"index":0,"delta":{{"reasoning_details":[{detail}]}}}}')


def summary(one: bytes) -> bytes:
    return one.replace(b'"reasoning.text","text"', b'"reasoning.summary","summary"')


def unnumbered(one: bytes, instead: bytes = b"") -> bytes:
    """Return the event without the index of its detail."""
    return one.replace(b',"index":0}]', instead + b"}]")


TURNS = [
    event('{"index":0,"delta":{"content":"ab"}}'),
    event('{"index":0,"delta":{"content":"c"}}'),
    event('{"index":0,"delta":{"content":"sk-te"}}'),
    event('{"index":0,"delta":{"content":"st-key-1234567890"}}'),
    event('{"index":1,"delta":{"content":"ab"}}'),
    event('{"index":1,"delta":{"content":"sk-te"}}'),
    event('{"delta":{"content":"unnumbered"}}'),
    event('{"delta":{"content":"x"},"index":7}'),
    event('{"index":0,"delta":{"role":"assistant","content":"r"}}'),
    event('{"index":0,"delta":{"reasoning":"thought"}}'),
    event('{"index":0,"delta":{"reasoning_content":"thought"}}'),
    event('{"index":0,"delta":{}}'),
    event('{"index":0,"delta":{"content":""}}'),
    event('{"delta":{}}'),
    event("{}"),
    event("", ',"x_metrics":{"a":1}'),
    event("", ',"x_metrics":{"a":2}'),
    event("", ',"x_other":1'),
    event("", ',"usage":{}'),
    event("", ',"usage":{"prompt_tokens":7}'),
    event('{"index":0,"delta":{"content":"u"}}', ',"usage":{"prompt_tokens":3,"completion_tokens":40}'),
    event(
        '{"index":1,"delta":{"content":"u"}}', ',"usage":{"prompt_tokens":5,"details":{"reasoning_tokens":9}}'
    ),
    event('{"index":0,"delta":{"content":"u"}}', ',"usage":{"prompt_tokens":5.0}'),
    event('{"index":0,"delta":{"content":"u"}}', ',"usage":{"total_tokens":5},"usage":{"total_tokens":6}'),
    event('{"index":0,"delta":{"content":"u"}}', ',"usage":{},"x_groq":{"usage":{"prompt_tokens":8}}'),
    event('{"index":0,"delta":{}}', ',"usage":{"prompt_tokens":4,"completion_tokens":null}'),
    b'data: {"usage":{"total_tokens":9},"choices":[{"index":0,"delta":{"content":"before"}}]}\n\n',
    twins("same", "same"),
    twins("longer", "longer"),
    twins("sk-te", "sk-te"),
    twins("st-key-1234567890", "st-key-1234567890"),
    twins("same", "other"),
    twins("", ""),
    twins("both", "both", ',"content":"both"'),
    twins("more", "more", ',"role":"assistant"'),
    details("alone"),
    details("sk-te"),
    details("st-key-1234567890"),
    details("\\u00e4\\n"),
    details("", ',"summary":"sum"'),
    details("last", ',"text":"last"'),
    details("first", ',"t\\u0065xt":"last"'),
    details("padded")[:-3] + b',"obfuscation":"x1"}\n\n',
    details("counted")[:-3] + b',"usage":{"prompt_tokens":3}}\n\n',
    unnumbered(details("alone")),
    unnumbered(details("alone"), b',"index":null'),
    unnumbered(details("sk-te")),
    unnumbered(details("st-key-1234567890")),
    unnumbered(details("counted"))[:-3] + b',"usage":{"prompt_tokens":3}}\n\n',
    unnumbered(details("two"), b'},{"text":"more"'),
    unnumbered(details("other")).replace(b'{"index":0', b'{"index":1'),
    unnumbered(twins("same", "same")),
    unnumbered(twins("sk-te", "sk-te")),
    unnumbered(twins("more", "more", ',"role":"assistant"')),
    unnumbered(twins("cited", "cited", ',"annotations":[{}]')),
    event('{"index":0,"delta":{"reasoning_details":[{}]}}'),
    details("ab", ',"reasoning":"cd"'),
    summary(details("alone")),
    summary(details("sk-te")),
    summary(details("st-key-1234567890")),
    summary(details("", ',"text":"text"')),
    summary(details("last", ',"summary":"last"')),
    summary(twins("same", "same")),
    summary(twins("st-key-1234567890", "st-key-1234567890")),
    summary(unnumbered(details("alone"))),
    summary(unnumbered(twins("same", "same"))),
    event('{"index":0,"delta":{"reasoning_details":[{"index":3}]}}'),
    event("", ',"usage":{"prompt_tokens":3,"completion_tokens":2}'),
    event('{"index":0,"delta":{"content":"u"}}', ',"usage":{"prompt_tokens":3,"completion_tokens":2}'),
    event('{"index":0,"delta":{},"finish_reason":"stop"}'),
    event('{"index":1,"delta":{"content":"e"},"finish_reason":"length"}'),
    b"data: {}\n\n",
    b": comment\n\n",
    b"\n",
]


@given(
    st.lists(st.lists(st.sampled_from(TURNS), min_size=1, max_size=4), max_size=4),
    st.integers(1, 4),
    st.lists(st.integers(0, 2_000), max_size=6),
    st.sampled_from([(), ("sk-test-key-1234567890",)]),
    st.sampled_from([None, 1, 2]),
    st.booleans(),
)
def test_chunks_that_take_turns_are_relayed_as_if_each_was_read(
    parts: list[list[bytes]],
    times: int,
    cuts: list[int],
    secrets: tuple[str, ...],
    choices: int | None,
    include_usage: bool,
) -> None:
    source = AnswerContext(
        "house/slug", Family("plain"), secrets=secrets, choices=choices, include_usage=include_usage
    )
    stream = b"".join(b"".join(part) * times for part in parts)
    ends = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(ends)]
    relayed = relay(*pieces, source=source)
    assert relayed == relay(*one_by_one(stream), source=source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "MAX_MISSES", 0)  # No template is made.
        patch.setattr(silence, "MAX_EVENTS", 0)
        assert relayed == relay(*pieces, source=source)


def test_each_detail_without_an_index_gets_the_next_one_of_its_choice() -> None:
    one = unnumbered(details("a"))
    other = unnumbered(details("b")).replace(b'{"index":0', b'{"index":1')
    reader = reader_of()
    sent = reader.feed(one * 3 + other * 2 + one + details("c").replace(b"0}]", b"7}]") + one * 2)
    found: dict[int, list[tuple[int, str]]] = {}
    for line in sent.decode().split("\n\n")[:-1]:
        (choice,) = json.loads(line.removeprefix("data: "))["choices"]
        (detail,) = choice["delta"]["reasoning_details"]
        found.setdefault(choice["index"], []).append((detail["index"], detail["text"]))
    numbered = [(0, "a"), (1, "a"), (2, "a"), (3, "a"), (7, "c"), (8, "a"), (9, "a")]
    assert found == {0: numbered, 1: [(0, "b"), (1, "b")]}


SMALLEST = {
    "content": [event('{"index":0,"delta":{"content":"a"}}')],
    "without an index": [event('{"delta":{"content":"a"}}')],
    "a detail alone": [details("a")],
    "an empty delta": [event('{"index":0,"delta":{}}')],
    "two choices in turn": [
        event('{"index":0,"delta":{"content":"a"}}'),
        event('{"index":1,"delta":{"content":"b"}}'),
    ],
    "reasoning and content in turn": [
        event('{"index":0,"delta":{"reasoning":"a"}}'),
        event('{"index":0,"delta":{"content":"b"}}'),
    ],
    "pings between": [event('{"index":0,"delta":{"content":"a"}}'), b"data: {}\n\n"],
    "a usage in each": [
        event('{"index":0,"delta":{"content":"a"}}', ',"usage":{"prompt_tokens":3,"completion_tokens":2}'),
        event('{"index":0,"delta":{"content":"b"}}', ',"usage":{"prompt_tokens":3,"completion_tokens":10}'),
    ],
    "a usage in each, without text": [
        event('{"index":0,"delta":{}}', ',"usage":{"prompt_tokens":3,"completion_tokens":2}'),
        event('{"index":0,"delta":{}}', ',"usage":{"prompt_tokens":3,"completion_tokens":10}'),
    ],
    "reasoning under two names": [twins("a", "a"), twins("bc", "bc")],
    "a summary": [summary(details("a"))],
    "a summary under two names": [summary(twins("a", "a"))],
    "a detail without an index": [unnumbered(details("a"))],
    "reasoning under two names, without an index": [unnumbered(twins("a", "a")), unnumbered(twins("b", "b"))],
    "details of two choices in turn": [
        unnumbered(details("a")),
        unnumbered(details("b")).replace(b'{"index":0', b'{"index":1'),
    ],
}


@pytest.mark.parametrize("part", SMALLEST.values(), ids=SMALLEST)
def test_the_smallest_chunks_take_few_steps(part: list[bytes]) -> None:
    source = AnswerContext("house/slug", Family("plain"), secrets=("sk-test-key-1234567890",))
    reader, steps = reader_of(source=source), 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += event == "call"

    reader.feed(b"".join(part) * 10)
    sys.setprofile(count)
    reader.feed(b"".join(part) * 500)
    sys.setprofile(None)
    assert reader.failure is None
    assert steps <= 6 * 500 * len(part) + 50, "calls of Python functions"
