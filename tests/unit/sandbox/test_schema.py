"""The simplest values for JSON schemas."""

import json
from enum import Enum
from typing import Annotated, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from addon.sandbox.schema import simplest_value


class _Colour(Enum):
    RED = "red"
    BLUE = "blue"


class _Leaf(BaseModel):
    name: Annotated[str, Field(min_length=10, max_length=12)]
    children: list["_Leaf"] = Field(default_factory=list)


class _Everything(BaseModel):
    text: str
    short: Annotated[str, Field(max_length=2)]
    count: Annotated[int, Field(gt=3, lt=5)]
    even: Annotated[int, Field(ge=7, multiple_of=2)]
    below: Annotated[int, Field(lt=-2)]
    share: Annotated[float, Field(gt=0, lt=1)]
    flag: bool
    colour: _Colour
    kind: Literal["one"]
    maybe: int | None
    either: int | str
    pair: tuple[int, str]
    several: Annotated[list[str], Field(min_length=2, max_length=3)]
    day: Annotated[str, Field(json_schema_extra={"format": "date"})]
    leaf: _Leaf
    by_name: dict[str, int]
    nothing: None


def test_the_simplest_value_fits_its_schema() -> None:
    value = simplest_value(_Everything.model_json_schema())
    made = _Everything.model_validate_json(json.dumps(value), strict=True)
    assert (made.count, made.even, made.below, made.kind) == (4, 8, -3, "one")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "integer", "maximum": -5}}}, -5),
        (
            {"allOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 2}}}]},
            {"a": 1, "b": 2},
        ),
        ({"type": ["null", "boolean"]}, True),
        ({"type": "number", "minimum": 0.25, "maximum": 0.75}, 0.5),
        ({"anyOf": [{"type": "null"}, {"type": "integer", "exclusiveMinimum": 2}]}, 3),
        ({"$ref": "#"}, None),
        ({"$ref": "#/nowhere"}, None),
        ({"type": "object", "properties": 5, "required": 5}, {}),
        ({"type": "array", "minItems": -1, "items": {"type": "string"}}, ["example"]),
        ({"type": "integer", "multipleOf": 0, "minimum": float("inf")}, 1),
        (True, None),
    ],
)
def test_an_unusual_schema_has_a_simplest_value(schema: object, value: object) -> None:
    assert simplest_value(schema) == value


def test_the_value_of_a_recursive_schema_is_bounded() -> None:
    properties = {f"p{number}": {"$ref": "#"} for number in range(60)}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    assert len(json.dumps(simplest_value(schema))) < 100_000


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["type", "properties", "items", "enum", "anyOf", "allOf", "$ref", "minimum", "exclusiveMaximum",
         "multipleOf", "minLength", "minItems", "required", "prefixItems", "format"]
    ), inner | st.sampled_from(["object", "array", "string", "integer", "number", "#"]), max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(_JSON)
@example({"type": "number", "minimum": 1e14, "multipleOf": 1e-300})
def test_a_wrong_schema_raises_no_error(schema: object) -> None:
    json.dumps(simplest_value(schema))
