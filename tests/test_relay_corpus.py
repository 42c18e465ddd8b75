"""Recorded answers of real providers, whole and streamed, come out as they went in but for the model.

The recordings are read from the folder in TOLLGATE_CORPUS; without it these tests are skipped.
"""

import json
import random
import re
from itertools import accumulate, pairwise
from typing import Any

import pytest
from rig.corpus import FOLDER, needs_corpus, read_corpus

from addon.answer import BILLING_NOTE, rewrite_answer
from addon.chat_chunks import ChatChunks
from addon.source import Source
from addon.sse import StreamRelay
from policies.facts import Family, Usage

SLUG = "tollgate-slug/under-test"
SOURCE = Source(SLUG, Family("plain"))
SLUG_JSON = json.dumps(SLUG).encode()
LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r|\Z)")
STRING = re.compile(rb'"[^"]*"')
MISSING_BLANK_LINE = re.compile(rb"data:[^\r\n]*(?:\r\n|\n|\r)data:")


def records(*, stream: bool) -> list[Any]:
    if not FOLDER:
        return [pytest.param({}, marks=needs_corpus, id="no-recordings")]
    return [
        pytest.param(record, id=record["id"])
        for record in read_corpus()
        if record["stream"] is stream and record["status"] // 100 == 2
    ]


def exact(text: bytes) -> Any:
    """JSON with objects as lists of pairs and numbers as they are written, so that every digit counts."""
    return json.loads(text.decode(), parse_int=str, parse_float=str, object_pairs_hook=list)


def read_usage(payloads: list[Any]) -> Usage | None:
    """A second, independent reading: per field the last integer that any payload reports."""
    read: dict[str, int] = {}
    for payload in payloads:
        usage = payload.get("usage") or (payload.get("x_groq") or {}).get("usage") or {}
        prompt, completion = (usage.get(f"{kind}_tokens_details") or {} for kind in ("prompt", "completion"))
        names = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens")
        cached = [prompt.get("cached_tokens"), *(usage.get(name) for name in names)]
        reasoning = [completion.get("reasoning_tokens"), usage.get("reasoning_tokens")]
        counts = {name: usage.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
        counts["cached_tokens"] = next((count for count in cached if count is not None), None)
        counts["reasoning_tokens"] = next((count for count in reasoning if count is not None), None)
        read |= {name: count for name, count in counts.items() if count is not None}
    return Usage(**read) if read else None


def is_error(payload: Any) -> bool:
    return not isinstance(payload, dict) or bool(payload.get("error"))


def read_lines(stream: bytes) -> list[bytes]:
    """The lines of a stream, up to and including [DONE], without their ends and without blank ones."""
    lines = [line.rstrip(b"\r\n") for line in LINE.findall(stream)]
    done = next((i for i, line in enumerate(lines) if line[5:].strip() == b"[DONE]"), len(lines))
    return [line for line in lines[: done + 1] if line]


def data_of(lines: list[bytes]) -> list[bytes]:
    return [line[5:].strip() for line in lines if line.startswith(b"data:") and b"[DONE]" not in line[:13]]


def first_failure(lines: list[bytes]) -> str | None:
    """Why a stream can't be relayed whole, by a reading of its lines; None for a good one."""
    finished = any(line[5:].strip() == b"[DONE]" for line in lines)
    for text in data_of(lines):
        try:
            payload = json.loads(text)
        except ValueError:
            return "an event is not JSON"
        if is_error(payload):
            return "an event is an error"
        finished = finished or any(choice.get("finish_reason") for choice in payload.get("choices") or [])
    return None if finished else "the stream ends early"


def relay(pieces: list[bytes]) -> tuple[bytes, StreamRelay]:
    machine = StreamRelay(ChatChunks(SOURCE), SOURCE)
    return b"".join([*map(machine.feed, pieces), machine.finish()]), machine


def facts(machine: StreamRelay) -> tuple[Any, ...]:
    chars, failure = machine.relayed_text_chars, machine.failure
    return machine.usage, machine.finish_reason, chars, failure, machine.done


def random_pieces(stream: bytes, seed: str) -> list[bytes]:
    dice = random.Random(seed)
    largest = dice.choice([3, 40, 4000])
    cuts, at = [0], 0
    while at < len(stream):
        at = min(len(stream), at + dice.randint(1, max(largest, len(stream) // 2000)))
        cuts.append(at)
    return [stream[a:b] for a, b in pairwise(cuts)]


def assert_same_but_model(before: bytes, after: bytes) -> bytes:
    """Every byte of ``after`` stands in ``before``, but for the model; return what ``after`` has beyond it."""
    if b'"model"' not in before:
        after = after.replace(b'"model":%b,' % SLUG_JSON, b"")
    at = 0
    *heads, tail = after.split(SLUG_JSON)
    for head in heads:
        assert before.startswith(head, at)
        value = STRING.match(before, at + len(head))
        assert value
        at = value.end()
    rest = before[at:]
    assert tail.startswith(rest) or rest.startswith(tail)
    return tail[len(rest) :]


@pytest.mark.parametrize("record", records(stream=True))
def test_a_recorded_stream_is_relayed_byte_for_byte_but_for_the_model(record: dict[str, Any]) -> None:
    stream = record["response_text"].encode()
    out, machine = relay([stream])
    lines = read_lines(stream)
    relayed = [json.loads(text) for text in data_of(read_lines(out))]
    assert all(payload["model"] == SLUG for payload in relayed)
    failure = first_failure(lines)
    assert (machine.failure is None) == (failure is None), failure or machine.failure
    assert machine.done == (failure is None)
    if failure is None:
        assert out.split(b"data:")[-1].strip() == b"[DONE]"
        assert machine.usage == read_usage([json.loads(text) for text in data_of(lines)])
    if MISSING_BLANK_LINE.search(stream):
        stream, out = b"\n".join(lines), b"\n".join(read_lines(out))
    added = assert_same_but_model(stream, out)
    assert added.strip() in (b"", b"data: [DONE]")


@pytest.mark.parametrize("record", records(stream=True))
def test_a_recorded_stream_gives_the_same_however_it_is_cut(record: dict[str, Any]) -> None:
    stream = record["response_text"].encode()
    whole, machine = relay([stream])
    cuts = [0, *accumulate(record.get("chunk_lens") or []), len(stream)]
    for pieces in (
        random_pieces(stream, record["id"]),
        [stream[a:b] for a, b in pairwise(cuts)],
        [stream[i : i + 1] for i in range(min(3000, len(stream)))] + [stream[3000:]],
    ):
        out, other = relay(pieces)
        assert out == whole
        assert facts(other) == facts(machine)


@pytest.mark.parametrize("record", records(stream=False))
def test_a_recorded_answer_changes_in_its_model_only(record: dict[str, Any]) -> None:
    body = record["response_text"].encode()
    answer = rewrite_answer(body, SOURCE)
    payload = json.loads(body)
    if is_error(payload) or "choices" not in payload:
        assert answer.failure is not None
        assert answer.body == b""
        return
    assert answer.failure is None
    assert json.loads(answer.body)["model"] == SLUG
    assert answer.usage == read_usage([payload])
    before = [(k, SLUG if k == "model" else v) for k, v in exact(body)]
    after = [tuple(pair) for pair in exact(answer.body)]
    if "model" not in payload:
        before.insert(0, ("model", SLUG))
    if BILLING_NOTE.encode() in answer.body:
        assert_only_the_note_was_added(payload, json.loads(answer.body))
        before, after = ([pair for pair in pairs if pair[0] != "choices"] for pairs in (before, after))
    assert after == before


def assert_only_the_note_was_added(before: Any, after: Any) -> None:
    assert before["usage"]["completion_tokens"] > 0
    for old, new in zip(before["choices"], after["choices"], strict=True):
        message = old["message"]
        assert not any(
            message.get(key) for key in ("content", "reasoning", "reasoning_content", "tool_calls")
        )
        assert new == {**old, "message": {**message, "reasoning_content": BILLING_NOTE}}
