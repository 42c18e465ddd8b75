"""JSON Schemas become those that Anthropic's Messages API supports."""

import json

import anthropic
from hypothesis import given
from hypothesis import strategies as st

from addon.dialects.anthropic.schema import supported_schema

SCALARS = st.sampled_from(
    [
        {"type": "integer", "minimum": 1, "maximum": 9, "description": "n"},
        {"type": "number", "multipleOf": 2},
        {"type": "string", "format": "date"},
        {"type": "string", "format": "colour"},
        {"type": "string", "pattern": "x+"},
        {"type": "string", "minLength": 2, "title": "T"},
        {"enum": ["a", "b"]},
        {"const": 3},
        {"$ref": "#/$defs/x"},
        {"type": "null"},
    ]
)


def composed(schemas):
    return st.one_of(
        st.builds(
            lambda items, n: {"type": "array", "items": items, "minItems": n}, schemas, st.integers(0, 3)
        ),
        st.builds(lambda both: {"anyOf": both}, st.lists(schemas, min_size=1, max_size=2)),
        st.builds(lambda both: {"oneOf": both}, st.lists(schemas, min_size=1, max_size=2)),
        st.builds(
            lambda inner, names: {"type": "object", "properties": inner, "required": names, "$defs": inner},
            st.dictionaries(st.sampled_from("abc"), schemas),
            st.lists(st.sampled_from("abc"), unique=True),
        ),
    )


@given(st.recursive(SCALARS, composed, max_leaves=6))
def test_a_schema_is_transformed_as_by_the_vendors_sdk(schema):
    before = json.dumps(schema)
    assert supported_schema(schema) == anthropic.transform_schema(schema)
    assert json.dumps(schema) == before


def test_a_supported_schema_stays():
    schema = {"type": "object", "properties": {}, "additionalProperties": False, "$schema": "draft"}
    assert supported_schema(schema) == {"type": "object", "properties": {}, "additionalProperties": False}
    open_map = {"type": "object", "additionalProperties": True, "default": {}}
    assert supported_schema(open_map) == open_map
    nonsense = {"type": "object", "properties": [], "anyOf": {}, "items": True, "format": []}
    assert supported_schema(nonsense)["properties"] == []
