"""A request that no rule of a family changes is sent in one step. That gives what the rules give field by field."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.sent import shipped_families

from policies.family import Family
from policies.model import Model, Prices, Provider
from policies.refusal import Refusal
from policies.sanitize import Sanitized, sanitize, sanitize_by_field

FREE = Prices(0, 0, 0)
PROVIDER = Provider("VENDOR", "https://vendor.example", "openai", ())
FAMILIES = sorted(shipped_families())

TEXTS = st.sampled_from(["", "hello", "none", "minimal", "é"])
ROLES = st.sampled_from(["system", "developer", "user", "assistant", "tool", "function", "context", "robot"])
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image_url"]), "text": TEXTS},
    optional={"cache_control": st.just({"type": "ephemeral"}), "image_url": TEXTS},
)
CALLS = st.fixed_dictionaries(
    {"id": TEXTS, "type": st.just("function"), "function": st.just({"name": "f", "arguments": "{}"})},
    optional={"extra_content": TEXTS, "odd": TEXTS},
)
MESSAGES = st.fixed_dictionaries(
    {"role": ROLES, "content": TEXTS | st.none() | st.lists(PARTS, max_size=2)},
    optional={
        "name": TEXTS | st.none(),
        "tool_calls": st.none() | st.lists(CALLS, max_size=2),
        "tool_call_id": TEXTS | st.none(),
        **dict.fromkeys(["reasoning_content", "refusal", "cache_control", "odd"], TEXTS | st.none()),
    },
)
PLAIN_MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant"]), "content": TEXTS}
)
NUMBERS = st.sampled_from([-3, -2, 0, 0.5, 1, 1.0, 2, 2.5, 20, 21])
CONTRACT_VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(["temperature", "top_p", "presence_penalty", "frequency_penalty"], NUMBERS),
    "n": st.sampled_from([1, 2, 8, 9, 128, 129]),
    "top_logprobs": st.sampled_from([0, 5, 20, 21]),
    "logprobs": st.booleans(),
    "seed": st.integers(0, 9),
    "stop": TEXTS | st.lists(TEXTS, max_size=6),
    "logit_bias": st.just({"1": 1}),
    "user": TEXTS,
    "tools": st.lists(st.fixed_dictionaries({"type": st.sampled_from(["function", "custom"])}), max_size=2),
    "tool_choice": st.sampled_from(["auto", "none", "required"]) | st.just({"type": "function"}),
    "parallel_tool_calls": st.booleans(),
    "response_format": st.sampled_from(["text", "json_object", "json_schema"]).map(
        lambda kind: {"type": kind}
    ),
    "max_tokens": st.just(5),
    "stream": st.booleans(),
}
EXTRA_VALUES = NUMBERS | TEXTS | st.sampled_from([True, False, {"type": "enabled"}, {"type": "disabled"}])


@st.composite
def requests(draw: st.DrawFn) -> tuple[Model, dict[str, Any]]:
    family = shipped_families()[draw(st.sampled_from(FAMILIES))]
    names = st.sampled_from([*CONTRACT_VALUES, *sorted(family.extra)])
    fields: dict[str, Any] = {"messages": draw(st.lists(PLAIN_MESSAGES | MESSAGES, min_size=1, max_size=3))}
    for name in draw(st.lists(names, max_size=4, unique=True)):
        fields[name] = draw(CONTRACT_VALUES.get(name, EXTRA_VALUES))
    return model_of(family, draw(st.sampled_from([None, 100]))), fields


def model_of(family: Family, maximum: int | None) -> Model:
    return Model("slug", PROVIDER, "vendor-id", family, FREE, FREE, maximum, False, True)


@settings(max_examples=1_500, deadline=None)
@given(requests(), st.sampled_from([None, 50]), st.booleans())
def test_one_step_gives_what_the_rules_give(
    asked: tuple[Model, dict[str, Any]], cap: int | None, stream: bool
) -> None:
    model, fields = asked
    by_field = outcome(sanitize_by_field, model, fields, cap, stream)
    assert outcome(sanitize, model, fields, cap, stream) == by_field


def outcome(
    function: Any, model: Model, fields: dict[str, Any], cap: int | None, stream: bool
) -> tuple[Any, ...] | str:
    """Return the body as JSON, in its order, and the changes; or the refusal."""
    try:
        made: Sanitized = function(fields, model, cap, stream)
    except Refusal as refusal:
        return f"{refusal.code} {refusal.param} {refusal}"
    return json.dumps(made.body), made.changes


@pytest.mark.parametrize("name", FAMILIES)
def test_a_usual_request_is_plain_for_each_family(name: str) -> None:
    family = shipped_families()[name]
    fields = {
        "messages": [{"role": "user", "content": "hello"}],
        "temperature": 0.5,
        "top_p": 0.5,
        "user": "u",
    }
    sent = {field: value for field, value in fields.items() if field not in family.changed_fields}
    made = sanitize(sent, model_of(family, 100), 50, stream=False)
    assert made.is_plain
    assert made.body == {"model": "vendor-id", **sent, family.cap_field: 50}
