"""JSON schemas in the prompt, for models that have JSON mode but no schemas."""

from copy import deepcopy
from typing import Any

import pytest

from policies.family import Family
from policies.model import Model
from policies.prices import Prices
from policies.provider import Provider
from policies.refusal import Refusal
from policies.sanitize import sanitize
from policies.schema_prompt import INSTRUCTION

MESSAGES = [{"role": "user", "content": "Hello"}]
FREE = Prices(0, 0, 0)


def _model(**accepts: Any) -> Model:
    provider = Provider("VENDOR", "https://vendor.example", "openai", ())
    return Model("slug", provider, "vendor-id", Family("tested", **accepts), FREE, FREE, 100, False, True)


SCHEMA = {"type": "object", "properties": {"größe": {"type": "integer"}}}
ASKED = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": SCHEMA}}
INSTRUCTED = f'{INSTRUCTION}{{"type":"object","properties":{{"größe":{{"type":"integer"}}}}}}'
SYSTEM_PARTS = [{"type": "text", "text": "Be brief."}]


@pytest.mark.parametrize(
    ("messages", "roles", "sent"),
    [
        (MESSAGES, {}, [{"role": "system", "content": INSTRUCTED}, *MESSAGES]),
        (MESSAGES, {"system": "developer"}, [{"role": "developer", "content": INSTRUCTED}, *MESSAGES]),
        (
            [{"role": "system", "content": "Be brief."}, *MESSAGES],
            {},
            [{"role": "system", "content": f"Be brief.\n\n{INSTRUCTED}"}, *MESSAGES],
        ),
        (
            [{"role": "developer", "content": SYSTEM_PARTS, "name": "x"}, *MESSAGES],
            {"developer": "system"},
            [
                {
                    "role": "system",
                    "content": [*SYSTEM_PARTS, {"type": "text", "text": INSTRUCTED}],
                    "name": "x",
                },
                *MESSAGES,
            ],
        ),
        (
            [{"role": "system", "content": None}, *MESSAGES],
            {},
            [{"role": "system", "content": INSTRUCTED}, *MESSAGES],
        ),
    ],
)
def test_a_schema_goes_into_the_prompt_where_the_family_says_so(messages: Any, roles: Any, sent: Any) -> None:
    given = {"messages": messages, "response_format": ASKED}
    before = deepcopy(given)
    model = _model(response_formats={"json_schema": "in_prompt"}, roles=roles)
    sanitized = sanitize(given, model, 50, False)
    assert sanitized.body["messages"] == sent
    assert sanitized.body["response_format"] == {"type": "json_object"}
    assert given == before
    actions = {(change.field, change.action) for change in sanitized.changes}
    assert actions >= {("response_format", "renamed"), ("messages", "set")}


@pytest.mark.parametrize("asked", [{"type": "json_object"}, {"type": "text"}])
def test_without_a_schema_the_prompt_stays(asked: dict[str, str]) -> None:
    model = _model(response_formats={"json_schema": "in_prompt"})
    body = sanitize({"messages": MESSAGES, "response_format": asked}, model, 50, False).body
    assert (body["messages"], body["response_format"]) == (MESSAGES, asked)


@pytest.mark.parametrize("named", [None, "x", {}, {"name": "n"}, {"schema": [1]}])
def test_an_invalid_schema_is_refused_by_its_path(named: Any) -> None:
    model = _model(response_formats={"json_schema": "in_prompt"})
    asked = {"type": "json_schema", "json_schema": named}
    with pytest.raises(Refusal, match="Input should be an object") as refused:
        sanitize({"messages": MESSAGES, "response_format": asked}, model, 50, False)
    assert refused.value.param == "response_format.json_schema.schema"
