"""An edit of JSON text changes one value and no other byte."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.text.json_edits import apply_edits, members, model_edits, prepend_edit

SLUG = b'"house/slug"'


def renamed(text: bytes, *, insert: bool = True) -> bytes:
    return apply_edits(text, model_edits(text, json.loads(text.decode("utf-8-sig")), SLUG, insert=insert))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"model":"up"}', b'{"model":"house/slug"}'),
        (b'{"model" \n:\t"up" ,"a":1.50}', b'{"model" \n:\t"house/slug" ,"a":1.50}'),
        (b' \r\n{ "a": 1e2, "model": "u\\"p\\\\" }\n', b' \r\n{ "a": 1e2, "model": "house/slug" }\n'),
        (b'\xef\xbb\xbf{"model":""}', b'\xef\xbb\xbf{"model":"house/slug"}'),
        (b'{"model":null}', b'{"model":"house/slug"}'),
        (b'{"model":12, "b":[]}', b'{"model":"house/slug", "b":[]}'),
        (b'{"model":{"model":"x"} , "b":2}', b'{"model":"house/slug" , "b":2}'),
        (b'{"model":["a","b"]}', b'{"model":"house/slug"}'),
        (b'{"model":"a","model":"b"}', b'{"model":"house/slug","model":"house/slug"}'),
        (b'{"a":{"model":"x"},"model":"up"}', b'{"a":{"model":"x"},"model":"house/slug"}'),
        (b'{"a":{"model":"x"},"mod\\u0065l":"x"}', b'{"a":{"model":"x"},"mod\\u0065l":"house/slug"}'),
        (b'{"model":"up","a":["model",":"]}', b'{"model":"house/slug","a":["model",":"]}'),
        (b'{"a":"\\"model\\":\\"x\\"","model":"up"}', b'{"a":"\\"model\\":\\"x\\"","model":"house/slug"}'),
        (b'{"a":{"\\"model":"x"},"model":"up"}', b'{"a":{"\\"model":"x"},"model":"house/slug"}'),
        (b'{"a":{"model":"x"}}', b'{"model":"house/slug","a":{"model":"x"}}'),
        (b'{"a":"model"}', b'{"model":"house/slug","a":"model"}'),
        (b"{}", b'{"model":"house/slug"}'),
        (b"{ \n }", b'{"model":"house/slug" \n }'),
    ],
)
def test_only_the_top_level_model_changes(before: bytes, after: bytes) -> None:
    assert renamed(before) == after


def test_nothing_is_inserted_unless_asked() -> None:
    assert renamed(b'{"a":{"model":"x"}}', insert=False) == b'{"a":{"model":"x"}}'


def test_members_are_found_in_objects_and_arrays() -> None:
    text = b'[ {"k\\u0041":[1,{"x":2}], "b" : -1.0e5 }, "s,]" ,[],{} ]'
    assert [text[m.start : m.end] for m in members(text, 0)] == [
        b'{"k\\u0041":[1,{"x":2}], "b" : -1.0e5 }',
        b'"s,]"',
        b"[]",
        b"{}",
    ]
    assert [(m.key, text[m.start : m.end]) for m in members(text, 2)] == [
        ("kA", b'[1,{"x":2}]'),
        ("b", b"-1.0e5"),
    ]


def test_a_member_in_an_empty_object_has_no_comma() -> None:
    assert apply_edits(b"[{ }]", [prepend_edit(b"[{ }]", 1, "k", b"1")]) == b'[{"k":1 }]'


KEYS = st.sampled_from(["model", "mode", '"model', "model\\", "a", "choices", "m\u00f6del"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | KEYS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(
    pairs=st.lists(st.tuples(KEYS, VALUES), max_size=5),
    ascii_only=st.booleans(),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r\n")]),
)
def test_only_the_models_of_any_object_change(
    pairs: list[tuple[str, Any]], ascii_only: bool, separators: tuple[str, str]
) -> None:
    def written(members_: list[tuple[str, Any]]) -> bytes:
        dump = json.JSONEncoder(ensure_ascii=ascii_only, separators=separators).encode
        return f"{{{separators[0].join(dump(k) + separators[1] + dump(v) for k, v in members_)}}}".encode()

    expected = [(k, "house/slug" if k == "model" else v) for k, v in pairs]
    assert renamed(written(pairs), insert=False) == written(expected)
