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
MORE_OF_MESSAGES = st.one_of(
    st.fixed_dictionaries({"name": TEXTS | st.none()}),
    st.fixed_dictionaries({"tool_calls": st.none() | st.lists(CALLS, max_size=2)}),
    st.fixed_dictionaries({"tool_call_id": TEXTS}),
    st.fixed_dictionaries({"content": st.none() | st.lists(PARTS, max_size=2)}),
    st.sampled_from(["reasoning_content", "refusal", "cache_control", "odd"]).flatmap(
        lambda name: st.fixed_dictionaries({name: TEXTS | st.none()})
    ),
)
PLAIN_MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant"]), "content": TEXTS}
)
MESSAGES = st.one_of(
    PLAIN_MESSAGES,
    st.fixed_dictionaries({"role": ROLES, "content": TEXTS}),
    st.tuples(PLAIN_MESSAGES, MORE_OF_MESSAGES).map(lambda both: both[0] | both[1]),
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


EXTRA = frozenset({"reasoning_effort", "thinking"})
MESSAGE_EXTRA = frozenset({"reasoning_content", "cache_control"})
RULES: dict[str, Any] = {
    "drops": frozenset({"seed", "stop"}),
    "clamps": {"temperature": (0.5, 1), "thinking": (0, 1)},
    "renames": {"user": "user_id"},
    "values": {"reasoning_effort": {"minimal": "low"}, "user": {"hello": "hi"}},
    "implies": {"thinking": {"reasoning_effort": "none"}},
    "conflicts": {"reasoning_effort": frozenset({"thinking"})},
    "stop_limit": 1,
    "n_limit": 1,
    "message_extra": frozenset(),
    "message_drops": frozenset({"name"}),
    "message_renames": {"reasoning_content": "reasoning"},
    "roles": {"system": "developer", "context": "context"},
    "late_system_role": "user",
    "joins_text_parts": True,
    "needs_reasoning_content": True,
    "tool_call_id_chars": 9,
    "asks_stream_usage": False,
}
OF_ONE_RULE = {
    rule: Family("made", **{"extra": EXTRA, "message_extra": MESSAGE_EXTRA, rule: value})
    for rule, value in RULES.items()
}


@st.composite
def requests(draw: st.DrawFn, family: Family) -> tuple[Model, dict[str, Any]]:
    ruled = family.changed_fields | family.limited_fields | family.extra
    names = st.sampled_from(sorted(CONTRACT_VALUES))
    if ruled:
        names |= st.sampled_from(sorted(ruled))
    fields: dict[str, Any] = {"messages": draw(st.lists(MESSAGES, min_size=1, max_size=2))}
    for name in draw(st.lists(names, max_size=3, unique=True)):
        fields[name] = draw(CONTRACT_VALUES.get(name, EXTRA_VALUES))
    return model_of(family, draw(st.sampled_from([None, 100]))), fields


def model_of(family: Family, maximum: int | None) -> Model:
    return Model("slug", PROVIDER, "vendor-id", family, FREE, FREE, maximum, False, True)


@pytest.mark.parametrize("name", [*RULES, *FAMILIES])
@settings(max_examples=30, deadline=None)
@given(data=st.data(), cap=st.sampled_from([None, 50]), stream=st.booleans())
def test_one_step_gives_what_the_rules_give(
    name: str, data: st.DataObject, cap: int | None, stream: bool
) -> None:
    model, fields = data.draw(requests(OF_ONE_RULE.get(name) or shipped_families()[name]))
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
