"""Tool calls that a provider sends in any pieces, with and without numbers, are joined into the right calls."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.tool_calls import FAMILY, assembled, chunk

from addon.answers.normalize.choices import ChunkNormalizer, ChunkResult

NAMES = st.text("abcxyz_", min_size=1, max_size=5)
MEANT = st.lists(
    st.tuples(NAMES, st.dictionaries(NAMES, st.text(max_size=4), max_size=2)), min_size=1, max_size=4
)


def _pieces(text: str, places: list[int]) -> list[str]:
    ends = sorted({len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


@given(MEANT, st.data())
def test_numbered_calls_are_joined_correctly(meant: list[tuple[str, Any]], data: st.DataObject):
    """The numbers start anywhere, the calls alternate, and later deltas may repeat ids and names."""
    base = data.draw(st.integers(0, 2))
    chunks, later = [], []
    for number, (name, arguments) in enumerate(meant):
        head, *rest = _pieces(json.dumps(arguments), data.draw(st.lists(st.integers(0, 40), max_size=3)))
        kind = data.draw(st.sampled_from([{}, {"type": "function"}, {"type": None}]))
        first = {"index": base + number, "id": f"id{number}", **kind}
        chunks.append(chunk([{**first, "function": {"name": name, "arguments": head}}]))
        again = data.draw(st.sampled_from([{}, {"id": None}, {"id": ""}, {"id": f"id{number}"}]))
        named = data.draw(st.sampled_from([{}, {"name": None}, {"name": ""}, {"name": name}]))
        repeated = {"index": base + number, **again, **kind}
        later.append([{**repeated, "function": {**named, "arguments": piece}} for piece in rest])
    turns = data.draw(st.permutations([number for number, deltas in enumerate(later) for _ in deltas]))
    chunks += [chunk([later[number].pop(0)]) for number in turns]
    calls = assembled(chunks)
    assert [(call.id, call.type, call.function.name) for call in calls] == [
        (f"id{number}", "function", name) for number, (name, _) in enumerate(meant)
    ]
    assert [json.loads(call.function.arguments) for call in calls] == [arguments for _, arguments in meant]


@given(MEANT, st.data())
def test_calls_without_numbers_are_joined_correctly(meant: list[tuple[str, Any]], data: st.DataObject):
    """The calls follow each other, some with an id. Arguments are an object or text, in one chunk or several."""
    deltas: list[dict[str, Any]] = []
    for number, (name, arguments) in enumerate(meant):
        given_id = data.draw(st.sampled_from([{}, {"id": ""}, {"id": None}, {"id": f"id{number}"}]))
        if data.draw(st.booleans()):
            deltas.append({**given_id, "function": {"name": name, "arguments": arguments}})
            continue
        head, *rest = _pieces(json.dumps(arguments), data.draw(st.lists(st.integers(0, 40), max_size=3)))
        deltas.append({**given_id, "function": {"name": name, "arguments": head}})
        deltas += [{"function": {"arguments": piece}} for piece in rest]
    together = data.draw(st.booleans())
    calls = assembled([chunk(deltas)] if together else [chunk([delta]) for delta in deltas])
    assert [(call.type, call.function.name) for call in calls] == [("function", name) for name, _ in meant]
    assert [json.loads(call.function.arguments) for call in calls] == [arguments for _, arguments in meant]
    assert len({call.id for call in calls}) == len(meant) and all(call.id for call in calls)


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_call_without_id_begins_only_when_the_arguments_before_it_are_whole(cut: int):
    arguments = '{"a": "}\\"{\\\\", "b": [{"c": 1}]}'
    pieces = [arguments[:cut], arguments[cut:], "{}"]
    given = [[{"index": 0, "function": {"name": "f", "arguments": piece}}] for piece in pieces]
    normalizer = ChunkNormalizer(FAMILY, 1)
    numbers = [numbered(normalizer.normalize(chunk(calls)), calls) for calls in given]
    assert numbers == [0, 0, 1]


def numbered(normal: ChunkResult, calls: list[Any]) -> int:
    shown = calls if normal.choices is None else normal.choices[0]["delta"]["tool_calls"]
    return int(shown[0]["index"])
