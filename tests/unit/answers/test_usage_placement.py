"""One chunk carries the usage, the last chunk is held for it, and events without a choice are merged."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rig.scripts import DONE, USAGE, chunk, event

from addon.answers.chunks import ChatChunks
from addon.answers.context import AnswerContext
from addon.answers.stream import StreamedAnswerReader
from policies.family import Family
from policies.usage import Usage

SOURCE = AnswerContext("vendor", Family("plain"), created_s=17, answer_id="chatcmpl-made")
OTHER = USAGE | {"completion_tokens": 7}
AZURE = chunk(usage={}) | {"usage": None, "id": "", "prompt_filter_results": [1], "system_fingerprint": None}
TIMINGS = chunk(usage=USAGE) | {"timings": {"ms": 1.50}}
HI, END, COUNTED = chunk("hi"), chunk(finish="stop"), chunk(usage=USAGE)
SECOND = {"index": 1, "delta": {"content": "b"}, "finish_reason": None}


def reader_of(*, asked: bool = False, choices: int | None = None) -> StreamedAnswerReader:
    source = replace(SOURCE, include_usage=asked, choices=choices)
    return StreamedAnswerReader(ChatChunks(source), source)


def payloads(sent: bytes) -> list[Any]:
    events = [one.removeprefix(b"data: ") for one in sent.split(b"\n\n")[:-1]]
    return [json.loads(one) for one in events if one != b"[DONE]"]


def relayed(*chunks: dict[str, Any], asked: bool = False) -> list[Any]:
    reader = reader_of(asked=asked)
    sent = reader.feed(b"".join(map(event, chunks)) + DONE)
    assert reader.is_done, reader.failure
    return payloads(sent)


def with_usage(chunk_: dict[str, Any], usage: Any) -> dict[str, Any]:
    return chunk_ | {"usage": usage}


NULL = {"usage": None}
# case: what the provider sends, what the client gets, what it gets when it asked for the usage
STREAMS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]] = {
    "in a chunk of its own": ([HI, END, COUNTED], [HI, with_usage(END, USAGE)], [HI, END, COUNTED]),
    "in the last chunk": (
        [HI, with_usage(END, USAGE)],
        [HI, with_usage(END, USAGE)],
        [HI, END | NULL, COUNTED],
    ),
    "in the last chunk, with text": (
        [HI, chunk("yo", finish="stop", usage=USAGE)],
        [HI, chunk("yo", finish="stop", usage=USAGE)],
        [HI, chunk("yo", finish="stop") | NULL, COUNTED],
    ),
    "text next to the end, usage later": (
        [HI, chunk("yo", finish="stop"), COUNTED],
        [HI, chunk("yo"), with_usage(END, USAGE)],
        [HI, chunk("yo", finish="stop"), COUNTED],
    ),
    "counted up in every chunk": (
        [with_usage(HI, OTHER), with_usage(END, USAGE)],
        [HI | NULL, with_usage(END, USAGE)],
        [HI | NULL, END | NULL, COUNTED],
    ),
    "counted up, and once more at the end": (
        [with_usage(HI, OTHER), with_usage(END, OTHER), COUNTED],
        [HI | NULL, with_usage(END, USAGE)],
        [HI | NULL, END | NULL, COUNTED],
    ),
    "twice": ([HI, with_usage(END, USAGE), COUNTED], [HI, with_usage(END, USAGE)], [HI, END | NULL, COUNTED]),
    "next to a silent choice after the end": (
        [HI, END, chunk("", usage=USAGE)],
        [HI, END, chunk("", usage=USAGE)],
        [HI, END, chunk("") | NULL, COUNTED],
    ),
    "silent choices after the end": (
        [HI, END, chunk(""), chunk(""), COUNTED],
        [HI, END, chunk(""), with_usage(chunk(""), USAGE)],
        [HI, END, chunk(""), chunk(""), COUNTED],
    ),
    "text after the end": (
        [HI, END, HI, COUNTED],
        [
            HI,
            END,
            HI,
            with_usage(chunk() | {"choices": [{"index": 0, "delta": {}, "finish_reason": None}]}, USAGE),
        ],
        [HI, END, HI, COUNTED],
    ),
    "no end": (
        [HI, COUNTED],
        [HI, with_usage(chunk() | {"choices": [{"index": 0, "delta": {}, "finish_reason": None}]}, USAGE)],
        [HI, COUNTED],
    ),
    "nowhere": ([HI, END], [HI, END], [HI, END]),
    "empty": ([HI, END, chunk(usage={})], [HI, with_usage(END, {})], [HI, END, chunk(usage={})]),
    "two choices": (
        [
            HI,
            HI | {"choices": [SECOND]},
            END,
            COUNTED,
            END | {"choices": [SECOND | {"finish_reason": "stop"}]},
        ],
        [
            HI,
            HI | {"choices": [SECOND]},
            END,
            HI | {"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": None}]},
            with_usage(END, USAGE) | {"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]},
        ],
        [
            HI,
            HI | {"choices": [SECOND]},
            END,
            END | {"choices": [SECOND | {"finish_reason": "stop"}]},
            COUNTED,
        ],
    ),
    "filter results before": (
        [AZURE, HI | {"system_fingerprint": "fp"}, END],
        [HI | {"system_fingerprint": "fp", "prompt_filter_results": [1]}, END],
        [HI | {"system_fingerprint": "fp", "prompt_filter_results": [1]}, END],
    ),
    "filter results after": (
        [HI, END, AZURE],
        [HI, END | {"system_fingerprint": None, "prompt_filter_results": [1]}],
        [HI, END],
    ),
    "more next to the usage": (
        [HI, END, TIMINGS],
        [HI, with_usage(END, USAGE) | {"timings": {"ms": 1.50}}],
        [HI, END, TIMINGS],
    ),
    "a chunk without choices at all": (
        [HI, {"usage": USAGE}, END],
        [HI, with_usage(END, USAGE)],
        [HI, END, COUNTED],
    ),
}


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("name", STREAMS)
def test_one_chunk_carries_the_usage(name: str, asked: bool) -> None:
    sent, merged, separate = STREAMS[name]
    got = relayed(*sent, asked=asked)
    assert got == (separate if asked else merged)


@given(
    st.lists(st.sampled_from([*(one for given, *_ in STREAMS.values() for one in given)]), max_size=8),
    st.booleans(),
)
def test_every_chunk_has_a_choice_and_at_most_one_has_usage(
    chunks: list[dict[str, Any]], asked: bool
) -> None:
    reader = reader_of(asked=asked)
    got = payloads(reader.feed(b"".join(map(event, chunks)) + DONE))
    bearing = [made for made in got if made.get("usage") is not None]
    if reader.failure:
        assert got == []
        return
    assert len(bearing) == any(made.get("usage") is not None for made in chunks)
    assert all(made["choices"] for made in (got[:-1] if asked and bearing else got))
    if asked and bearing:
        assert (got[-1]["choices"], bearing) == ([], got[-1:])
    received = [made["choices"][0]["delta"].get("content") for made in chunks if made.get("choices")]
    read = [choice["delta"].get("content") for made in got for choice in made["choices"]]
    assert "".join(filter(None, read)) == "".join(filter(None, received))


def test_only_the_end_of_the_last_choice_is_held() -> None:
    reader = reader_of()
    second = HI | {"choices": [SECOND]}
    for made in (HI, second, END):
        assert payloads(reader.feed(event(made))) == [made]
        assert not reader.has_pending
    last = END | {"choices": [SECOND | {"finish_reason": "stop"}]}
    assert payloads(reader.feed(event(last))) == [second]
    assert reader.has_pending
    assert payloads(reader.feed(event(COUNTED))) == [
        with_usage(END, USAGE) | {"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]}
    ]
    assert reader.feed(DONE) == DONE


def test_late_usage_is_recorded_and_not_sent() -> None:
    reader = reader_of()
    reader.feed(event(HI) + event(END))
    assert payloads(reader.flush_pending()) == [END]
    assert not reader.has_pending
    assert reader.feed(event(COUNTED) + DONE) == DONE
    assert reader.usage == Usage(9, 2, 11)


def test_nothing_is_held_when_the_usage_has_a_chunk_of_its_own() -> None:
    reader = reader_of(asked=True)
    assert payloads(reader.feed(event(HI) + event(END))) == [HI, END]
    assert not reader.has_pending


def test_the_usage_keeps_its_digits() -> None:
    counts = b'{"prompt_tokens": 1,"cost":1.250e-05,"big":12345678901234567890123}'
    for asked in (True, False):
        sent = reader_of(asked=asked).feed(
            event(HI) + event(END) + b'data: {"choices":[],"usage":%b}\n\n' % counts + DONE
        )
        assert b'"usage":' + counts in sent


@pytest.mark.parametrize(
    ("choices", "ends", "complete"), [(None, [0], True), (1, [0], True), (2, [0], False), (2, [0, 1], True)]
)
def test_a_broken_stream_is_complete_when_every_choice_has_ended(
    choices: int | None, ends: list[int], complete: bool
) -> None:
    reader = reader_of(choices=choices)
    reader.feed(event(HI))
    assert not reader.is_complete
    for index in ends:
        reader.feed(event(END | {"choices": [END["choices"][0] | {"index": index}]}))
    assert reader.is_complete == complete


def test_a_missing_id_time_and_object_are_added() -> None:
    bare = [{"choices": made["choices"]} for made in (HI, HI, END)]
    head = {"id": "chatcmpl-made", "created": 17, "object": "chat.completion.chunk", "model": "vendor"}
    assert relayed(*bare) == [made | head for made in bare]
    later = {"id": "own", **bare[0]}
    assert {made["id"] for made in relayed(later, bare[1], bare[2])} == {"own"}
    assert [made["id"] for made in relayed({**bare[0], "id": ""}, {**bare[1], "id": None}, bare[2])] == [
        head["id"]
    ] * 3


def test_members_of_events_without_a_choice_are_bounded() -> None:
    many = [chunk(usage={}) | {"usage": None, f"x{number}": number} for number in range(500)]
    first, _ = relayed(*many, HI, END)
    assert len(first) < 80
    huge = chunk(usage={}) | {"usage": None, "x": "y" * 100_000}
    assert relayed(huge, HI, END) == [HI, END]
