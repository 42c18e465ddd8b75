"""Sanitization: each field goes upstream as the family accepts it, and every change has a reason and a source."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.sanitized_fields import MESSAGES, NAMED, model_accepting

from policies.field_change import CHAT_BODY
from policies.field_rules import DEFAULT_CLAMPS
from policies.refusal import Refusal
from policies.sanitize import sanitize


def _changes(fields: dict[str, Any], **accepts: Any) -> dict[str, list[str]]:
    changes: dict[str, list[str]] = {}
    for change in sanitize({"messages": MESSAGES} | fields, model_accepting(**accepts), 50, False).changes:
        changes.setdefault(change.field, []).append(change.action)
    return changes


@pytest.mark.parametrize(
    ("accepts", "field", "value", "sent"),
    [
        ({}, "temperature", 0.7, {"temperature": 0.7}),
        ({}, "temperature", 3, {"temperature": 2}),
        ({}, "temperature", -0.1, {"temperature": 0}),
        ({"clamps": {"temperature": (0.0, 1.0)}}, "temperature", 1.5, {"temperature": 1}),
        ({"clamps": {"temperature": (0.01, 1.0)}}, "temperature", 0, {"temperature": 0.01}),
        ({"clamps": {"temperature": (0.0, 5.0)}}, "temperature", 4, {"temperature": 4}),
        ({}, "presence_penalty", -9, {"presence_penalty": -2}),
        ({}, "frequency_penalty", 2.5, {"frequency_penalty": 2}),
        ({}, "tools", [], {}),
        ({}, "tool_choice", "auto", {}),
        ({}, "tool_choice", NAMED, {}),
        ({"tool_choices": {"required": "refused"}}, "tool_choice", "required", {}),
        ({}, "parallel_tool_calls", False, {}),
        ({}, "top_logprobs", 5, {}),
        ({}, "top_p", 0.1, {"top_p": 0.1}),
        ({"drops": frozenset({"seed"})}, "seed", 7, {}),
        ({"renames": {"seed": "random_seed"}}, "seed", 7, {"random_seed": 7}),
        ({"renames": {"temperature": "heat"}}, "temperature", 9, {"heat": 2}),
        ({"stop_limit": 2}, "stop", ["a", "b", "c"], {"stop": ["a", "b"]}),
        ({"stop_limit": 2}, "stop", ["a"], {"stop": ["a"]}),
        ({"stop_limit": 2}, "stop", "abc", {"stop": "abc"}),
        ({}, "stop", ["a"] * 9, {"stop": ["a"] * 9}),
        ({"n_limit": 1}, "n", 3, {"n": 1}),
        ({"n_limit": 4}, "n", 3, {"n": 3}),
        ({}, "n", 3, {"n": 3}),
        ({"extra": frozenset({"reasoning_effort"})}, "reasoning_effort", "low", {"reasoning_effort": "low"}),
    ],
)
def test_a_field_goes_upstream_as_the_family_accepts_it(
    accepts: dict[str, Any], field: str, value: Any, sent: dict[str, Any]
) -> None:
    body = sanitize({"messages": MESSAGES, field: value}, model_accepting(**accepts), 50, False).body
    assert body == {"model": "vendor-id", "messages": MESSAGES, "max_tokens": 50} | sent


@pytest.mark.parametrize("cap_field", ["max_tokens", "max_completion_tokens"])
def test_the_cap_goes_in_the_one_field_that_the_family_wants(cap_field: Any) -> None:
    fields = {"messages": MESSAGES, "max_tokens": 1, "max_completion_tokens": 2}
    body = sanitize(fields, model_accepting(cap_field=cap_field), 50, False).body
    assert body == {"model": "vendor-id", "messages": MESSAGES, cap_field: 50}


@pytest.mark.parametrize(
    ("asks", "stream", "sent"),
    [
        (True, True, {"stream": True, "stream_options": {"include_usage": True}}),
        (False, True, {"stream": True}),
        (True, False, {}),
        (False, False, {}),
    ],
)
def test_usage_is_asked_for_in_streams_where_the_family_wants_to_be_asked(
    asks: bool, stream: bool, sent: dict[str, Any]
) -> None:
    body = sanitize({"messages": MESSAGES}, model_accepting(asks_stream_usage=asks), 50, stream).body
    assert body == {"model": "vendor-id", "messages": MESSAGES, "max_tokens": 50} | sent


def test_every_change_has_a_reason() -> None:
    accepts = {"drops": frozenset({"seed"}), "renames": {"temperature": "heat", "user": "user_id"}}
    changes = _changes({"temperature": 9, "seed": 1, "user": "u", "top_p": 1}, **accepts)
    assert changes == {
        "model": ["set"],
        "messages": ["kept"],
        "temperature": ["clamped", "renamed"],
        "seed": ["dropped"],
        "user": ["renamed"],
        "top_p": ["kept"],
        "max_tokens": ["set"],
    }
    sanitized = sanitize({"messages": MESSAGES, "seed": 1}, model_accepting(**accepts), 50, True)
    assert all(change.reason for change in sanitized.changes)
    assert {change.field for change in sanitized.changes} >= {"stream", "stream_options"}


@pytest.mark.parametrize(
    ("accepts", "field", "value", "action", "source"),
    [
        ({}, "top_p", 0.1, "kept", "the contract, chat request body"),
        ({}, "temperature", 3, "clamped", "the contract, chat request body"),
        (
            {"clamps": {"temperature": (0.0, 1.0)}},
            "temperature",
            3,
            "clamped",
            "families.toml [tested] clamps.temperature",
        ),
        ({}, "n", 129, "clamped", "families.toml, default of n_limit"),
        ({"n_limit": 1}, "n", 2, "clamped", "families.toml [tested] n_limit"),
        ({"stop_limit": 1}, "stop", ["a", "b"], "clamped", "families.toml [tested] stop_limit"),
        ({"drops": frozenset({"seed"})}, "seed", 1, "dropped", "families.toml [tested] drops"),
        ({"renames": {"seed": "random_seed"}}, "seed", 1, "renamed", "families.toml [tested] renames.seed"),
        ({"values": {"user": {"a": "b"}}}, "user", "a", "renamed", "families.toml [tested] values.user.a"),
        ({"extra": frozenset({"top_k"})}, "top_k", 1, "kept", "families.toml [tested] extra"),
        (
            {"conflicts": {"messages": {"seed"}}},
            "seed",
            1,
            "dropped",
            "families.toml [tested] conflicts.messages",
        ),
        (
            {"implies": {"seed": {"user": "u"}}},
            "user",
            "x",
            "replaced",
            "families.toml [tested] implies.seed",
        ),
        (
            {"tool_choices": {"required": "any"}},
            "tool_choice",
            "required",
            "renamed",
            "families.toml [tested] tool_choices.required",
        ),
        (
            {"response_formats": {"json_schema": "json_object"}},
            "response_format",
            {"type": "json_schema"},
            "renamed",
            "families.toml [tested] response_formats.json_schema",
        ),
        (
            {},
            "tools.cache_control",
            None,
            "dropped",
            "families.toml, default of message_extra",
        ),
        ({}, "model", None, "set", 'models.toml ["slug"] upstream_model_id'),
        ({}, "messages", None, "kept", "the contract, message object"),
        ({}, "max_tokens", None, "set", "families.toml, default of cap_field"),
        (
            {"cap_field": "max_completion_tokens"},
            "max_completion_tokens",
            None,
            "set",
            "families.toml [tested] cap_field",
        ),
        ({}, "stream", None, "set", "the contract, chat request body"),
        ({}, "stream_options", None, "set", "the contract, streaming chunk"),
    ],
)
def test_every_change_has_the_source_of_its_rule(
    accepts: dict[str, Any], field: str, value: Any, action: str, source: str
) -> None:
    given = {"messages": MESSAGES, "seed": 5, "tools": [{"type": "custom", "cache_control": 1}]}
    if value is not None:
        given[field] = value
    changes = sanitize(given, model_accepting(**accepts), 50, True).changes
    assert (action, source) in [(change.action, change.source) for change in changes if change.field == field]


def test_a_model_outside_the_catalog_is_named_by_the_call() -> None:
    changes = sanitize(
        {"messages": MESSAGES}, replace(model_accepting(), max_completion_tokens=None), None, False
    ).changes
    assert [change.source for change in changes if change.field == "model"] == [CHAT_BODY]


def test_the_clients_values_are_not_changed() -> None:
    fields = {"messages": MESSAGES, "stop": ["a", "b"], "tools": [{"type": "function"}]}
    before = deepcopy(fields)
    sanitize(fields, model_accepting(stop_limit=1, drops=frozenset({"seed"})), 50, True)
    assert fields == before


numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers()


@given(
    value=numbers,
    field=st.sampled_from(sorted(DEFAULT_CLAMPS)),
    bounds=st.tuples(numbers, numbers).map(sorted).map(tuple) | st.none(),
)
def test_a_clamped_value_is_inside_and_one_that_was_inside_is_untouched(
    value: float, field: str, bounds: tuple[float, float] | None
) -> None:
    lowest, highest = bounds or DEFAULT_CLAMPS[field]
    model = model_accepting(clamps={field: bounds} if bounds else {})
    fields = {"messages": MESSAGES, "logprobs": True, field: value}
    sent = sanitize(fields, model, 50, False).body[field]
    assert lowest <= sent <= highest
    if lowest <= value <= highest:
        assert sent is value


def test_a_role_is_checked_for_models_of_the_catalog_alone() -> None:
    fields = {"messages": [{"role": "robot", "content": "x"}]}
    with pytest.raises(Refusal, match=r"^messages\.0\.role: "):
        sanitize(fields, model_accepting(), 50, False)
    outside = replace(model_accepting(), max_completion_tokens=None)
    assert sanitize(fields, outside, None, False).body["messages"] == fields["messages"]
