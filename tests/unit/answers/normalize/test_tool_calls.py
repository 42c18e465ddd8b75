"""The official SDK joins tool calls of every shape into the right calls."""

import json
from typing import Any

import pytest
from rig.tool_calls import FAMILY, assembled, chunk

from addon.answers.normalize.choices import ChunkNormalizer, ChunkResult, normalize_message_choices

FIRST = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
SECOND = {"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}


def relayed(*deltas: list[Any]) -> list[list[Any]]:
    """Return the ``tool_calls`` of each chunk of one choice as they are relayed."""
    normalizer, out = ChunkNormalizer(FAMILY), []
    for calls in deltas:
        choices = normalizer.normalize(chunk(calls)).choices
        out.append(calls if choices is None else choices[0]["delta"]["tool_calls"])
    return out


# case: the chunks' tool_calls, what is relayed
STREAMS: dict[str, tuple[list[list[Any]], list[list[Any]]]] = {
    "well-formed calls stay": (
        [[FIRST], [{"index": 0, "function": {"arguments": "{}"}}], [SECOND]],
        [[FIRST], [{"index": 0, "function": {"arguments": "{}"}}], [SECOND]],
    ),
    "a repeated type and null id and name do no harm": (
        [
            [FIRST],
            [{"index": 0, "id": None, "type": "function", "function": {"name": None, "arguments": "x"}}],
        ],
        [
            [FIRST],
            [{"index": 0, "id": None, "type": "function", "function": {"name": None, "arguments": "x"}}],
        ],
    ),
    "a repeated id and name, and a null type, are left out": (
        [[FIRST], [{"index": 0, "id": "a", "type": None, "function": {"name": "f", "arguments": "x"}}]],
        [[FIRST], [{"index": 0, "function": {"arguments": "x"}}]],
    ),
    "an empty id and name are left out": (
        [[FIRST], [{"index": 0, "id": "", "type": "", "function": {"name": "", "arguments": "x"}}]],
        [[FIRST], [{"index": 0, "function": {"arguments": "x"}}]],
    ),
    "an id of its own in each delta is no new call": (
        [[FIRST], [{"index": 0, "id": "z", "function": {"arguments": "x"}}]],
        [[FIRST], [{"index": 0, "function": {"arguments": "x"}}]],
    ),
    "numbers begin at 0": (
        [[{**FIRST, "index": 1}], [{"index": 1, "function": {"arguments": "x"}}]],
        [[FIRST], [{"index": 0, "function": {"arguments": "x"}}]],
    ),
    "whole calls that are all numbered 0 differ in their ids": (
        [[FIRST], [{**SECOND, "index": 0}]],
        [[FIRST], [SECOND]],
    ),
    "without numbers they are counted": (
        [
            [
                {"id": "a", "function": {"name": "f", "arguments": ""}},
                {"id": "b", "function": SECOND["function"]},
            ]
        ],
        [[FIRST | {"index": 0}, SECOND]],
    ),
    "without numbers a call goes on until another begins": (
        [
            [{"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}],
            [{"function": {"arguments": "x"}}],
            [{"id": "a", "function": {"arguments": "y"}}],
        ],
        [
            [FIRST],
            [{"index": 0, "function": {"arguments": "x"}}],
            [{"index": 0, "function": {"arguments": "y"}}],
        ],
    ),
    "arguments become text": (
        [[{**FIRST, "function": {"name": "f", "arguments": {"a": [1, "é"]}}}]],
        [[{**FIRST, "function": {"name": "f", "arguments": '{"a":[1,"é"]}'}}]],
    ),
    "null arguments are empty": (
        [
            [{**FIRST, "function": {"name": "f", "arguments": None}}],
            [{"index": 0, "function": {"arguments": None}}],
        ],
        [[FIRST], [{"index": 0, "function": {"arguments": ""}}]],
    ),
    "a name may come later than the id": (
        [
            [{**FIRST, "function": {"arguments": ""}}],
            [{"index": 0, "function": {"name": "f", "arguments": "x"}}],
        ],
        [
            [{**FIRST, "function": {"arguments": ""}}],
            [{"index": 0, "function": {"name": "f", "arguments": "x"}}],
        ],
    ),
    "unknown members stay": (
        [[{**FIRST, "index": None, "extra_content": {"google": {"thought_signature": "s"}}}]],
        [[{**FIRST, "extra_content": {"google": {"thought_signature": "s"}}}]],
    ),
    "a custom call keeps its body": (
        [[{"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}]],
        [[{"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}]],
    ),
}


@pytest.mark.parametrize(("given", "expected"), STREAMS.values(), ids=STREAMS)
def test_the_deltas_of_a_stream_become_well_formed(given: list[list[Any]], expected: list[list[Any]]):
    before = json.dumps(given)
    relay = relayed(*given)
    made = [[_ordered(call) for call in calls] for calls in relay]
    assert made == [[_ordered(call) for call in calls] for calls in expected]
    assert json.dumps(given) == before, "what was given is not changed"


def _ordered(call: dict[str, Any]) -> list[Any]:
    return sorted(call.items())


def test_a_delta_that_needs_no_change_keeps_its_bytes():
    normalizer = ChunkNormalizer(FAMILY)
    assert normalizer.normalize(chunk([FIRST])) == ChunkResult(None, False)
    assert normalizer.normalize(chunk([{"index": 0, "function": {"arguments": "x"}}])) == ChunkResult(
        None, True
    )


def test_a_missing_id_is_made_once_and_is_always_the_same():
    given = [{"id": "", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    [first], [second] = relayed(given, given)
    assert first["id"].startswith("call_") and second["id"].startswith("call_")
    assert (first["index"], second["index"]) == (0, 1)
    assert first["id"] != second["id"]
    assert relayed(given, given) == [[first], [second]]


def test_made_ids_differ_between_choices_and_between_answers():
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    normalizer = ChunkNormalizer(FAMILY)
    ids = set()
    for index in (0, 1):
        choices = normalizer.normalize(chunk([call], index)).choices
        assert choices
        ids.add(choices[0]["delta"]["tool_calls"][0]["id"])
    for answer_id in ("x", "y"):
        made = normalize_message_choices([_message([call])], FAMILY, answer_id)
        assert made
        ids.add(made[0]["message"]["tool_calls"][0]["id"])
    assert len(ids) == 4


@pytest.mark.parametrize("nothing", [[], None])
def test_an_empty_list_of_calls_is_left_out_and_null_stays(nothing: Any):
    choices = ChunkNormalizer(FAMILY).normalize(chunk(nothing)).choices
    whole = normalize_message_choices([_message(nothing)], FAMILY)
    if nothing is None:
        assert choices is None and whole is None
    else:
        assert choices and "tool_calls" not in choices[0]["delta"]
        assert whole and "tool_calls" not in whole[0]["message"]


def test_the_calls_of_each_choice_are_numbered_separately():
    chunks = [chunk([{**SECOND, "index": 1}], 0), chunk([FIRST], 1), chunk([{**FIRST, "index": 5}], 0)]
    assert [call.id for call in assembled(chunks, 0)] == ["b", "a"]
    assert [call.id for call in assembled(chunks, 1)] == ["a"]


def _message(calls: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return {"index": 0, "message": message, "finish_reason": "tool_calls"}


# case: the calls of a whole message, what is relayed
WHOLE: dict[str, tuple[list[Any], list[Any]]] = {
    "arguments that are an object": (
        [{"id": "a", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}],
        [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
    ),
    "arguments under their old name": (
        [{"id": "a", "type": "function", "function": {"name": "f", "parameters": {"a": 1}}}],
        [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
    ),
    "no arguments and no type": (
        [{"id": "a", "function": {"name": "f"}, "index": 3}],
        [{"id": "a", "function": {"name": "f", "arguments": ""}, "index": 3, "type": "function"}],
    ),
    "a custom call": (
        [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}],
        [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}],
    ),
}


@pytest.mark.parametrize(("given", "expected"), WHOLE.values(), ids=WHOLE)
def test_the_calls_of_a_whole_answer_become_well_formed(given: list[Any], expected: list[Any]):
    choices = normalize_message_choices([_message(given)], FAMILY) or [_message(given)]
    assert choices[0]["message"]["tool_calls"] == expected


def test_ids_of_a_whole_answer_are_unique_strings():
    call = {"type": "function", "function": {"name": "f", "arguments": ""}}
    given = [{**call, "id": call_id} for call_id in ("a", "a", 0, 0, "", None)]
    made = normalize_message_choices([_message(given)], FAMILY)
    assert made
    ids = [one["id"] for one in made[0]["message"]["tool_calls"]]
    assert ids[0] == "a" and len(set(ids)) == 6 and all(type(one) is str and one for one in ids)
