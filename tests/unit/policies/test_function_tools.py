"""Functions of tools as the models of a family accept them."""

from typing import Any

import pytest

from policies.family import Family, StrictTools
from policies.function_tools import NO_PARAMETERS, fit_functions
from policies.refusal import Refusal

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}


def function(name: str = "f", **members: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **members}}


def fitted(*tools: dict[str, Any], **rules: Any) -> tuple[list[dict[str, Any]], set[str]]:
    """Return the functions that are sent, and the fields that changed."""
    sent, changes = fit_functions(tools, Family("f", **rules))
    return [tool.get("function", tool) for tool in sent], {f"{one.field} {one.action}" for one in changes}


def test_a_whole_schema_stays_the_same_object() -> None:
    tools = [function(parameters=CITY, strict=True), {"type": "custom", "custom": {"name": "c"}}]
    sent, changes = fit_functions(tools, Family("f"))
    assert sent is tools
    assert changes == []


@pytest.mark.parametrize("members", [{}, {"parameters": None}, {"parameters": {}}])
def test_a_function_without_parameters_gets_an_empty_schema(members: dict[str, Any]) -> None:
    sent, changed = fitted(function(**members))
    assert sent == [{"name": "f", "parameters": NO_PARAMETERS}]
    assert changed == {"tools.parameters set"}


def test_a_schema_without_a_type_is_an_object_unless_it_says_otherwise() -> None:
    (sent,), _ = fitted(function(parameters={"properties": {}}))
    assert sent["parameters"] == {"type": "object", "properties": {}}
    either = {"anyOf": [CITY, CITY]}
    assert fitted(function(parameters=either)) == ([{"name": "f", "parameters": either}], set())


@pytest.mark.parametrize(
    ("rule", "wanted", "sent"),
    [
        ("any", [True, None], [True, None]),
        ("all", [True, True], [True, True]),
        ("all", [True, None], [None, None]),
        ("all", [True, False], [None, None]),
        ("all", [False, None], [False, None]),
        ("none", [True, False], [None, None]),
        ("none", [None, None], [None, None]),
    ],
)
def test_strict_is_sent_where_the_family_takes_it(
    rule: StrictTools, wanted: list[bool | None], sent: list[bool | None]
) -> None:
    tools = [function(parameters=CITY, **({} if one is None else {"strict": one})) for one in wanted]
    found, changed = fitted(*tools, strict_tools=rule)
    assert [one.get("strict") for one in found] == sent
    assert changed == ({"tools.strict dropped"} if wanted != sent else set())


def test_notes_at_the_top_of_a_schema_are_left_out_where_only_some_keys_may_be_there() -> None:
    noted = {**CITY, "additionalProperties": False, "$schema": "x", "title": "y", "strict": True}
    (sent,), changed = fitted(function(parameters=noted), tool_schema_keys=("type", "properties", "required"))
    assert sent["parameters"] == CITY
    assert changed == {"tools.parameters dropped"}


def test_a_key_that_carries_meaning_is_refused_by_name() -> None:
    with pytest.raises(Refusal) as caught:
        fitted(
            function(parameters=CITY),
            function(parameters={**CITY, "$defs": {}}),
            tool_schema_keys=("type", "properties", "required"),
        )
    assert (caught.value.code, caught.value.param) == ("validation_failed", "tools.1.function.parameters")
    assert "$defs" in caught.value.message
