"""A request that no rule of a family changes is sent in one step. That gives what the rules give field by field."""

from typing import Any

import pytest
from rig.large import sampled
from rig.sent import shipped_families

from policies.family import Family
from policies.messages import are_plain, check_roles, rewrite_messages
from policies.model import Model
from policies.prices import Prices
from policies.provider import Provider
from policies.refusal import Refusal
from policies.sanitize import Sanitized, sanitize, sanitize_by_field

FREE = Prices(0, 0, 0)
PROVIDER = Provider("VENDOR", "https://vendor.example", "openai", ())

ROLES = ["system", "developer", "user", "assistant", "tool", "function", "context", "robot"]
CALL = {"id": "call-1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MORE_OF_MESSAGES: list[dict[str, Any]] = [
    {},
    *({"content": content} for content in (None, "", [], [{"type": "text", "text": "a"}])),
    {"content": [{"type": "text", "text": "a", "cache_control": {}}]},
    {"content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": "https://a.test/b.png"}]},
    *({"tool_calls": calls} for calls in (None, [], [CALL], [CALL | {"odd": 1}])),
    *({"tool_call_id": call_id} for call_id in ("call-1", "123456789", "x" * 60)),
    *(
        {name: text}
        for name in ("name", "reasoning_content", "refusal", "cache_control", "odd")
        for text in ("a", None)
    ),
]
"""The fields of each message, next to its role and one text."""

NUMBERS: list[Any] = [-3, 0, 0.9, 2.5]
VALUES: dict[str, list[Any]] = {
    **dict.fromkeys(("temperature", "top_p", "presence_penalty", "frequency_penalty"), NUMBERS),
    "n": [1, 2, 9, 129],
    "top_logprobs": [5, 21],
    "logprobs": [True, False],
    "seed": [1],
    "stop": ["a", ["a"], ["a", "b", "c", "d", "e", "f"]],
    "logit_bias": [{"1": 1}],
    "user": ["u", "hello"],
    "tools": [[], [{"type": "function"}], [{"type": "custom"}], [{"type": "function", "cache_control": {}}]],
    "tool_choice": ["auto", "none", "required", {"type": "function"}],
    "parallel_tool_calls": [True],
    "response_format": [
        {"type": "text"},
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {}},
    ],
    "max_tokens": [5],
    "stream": [True],
}
EXTRA_VALUES = [0, 2.5, "high", "minimal", "none", True, {"type": "enabled"}, {"type": "disabled"}]

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


FAMILIES: dict[str, Family] = OF_ONE_RULE | shipped_families()


def model_of(family: Family, maximum: int | None) -> Model:
    return Model("slug", PROVIDER, "vendor-id", family, FREE, FREE, maximum, False, True)


@sampled(every=6)
@pytest.mark.parametrize("name", FAMILIES)
def test_one_step_gives_what_the_rules_give_for_fields(name: str) -> None:
    """Each field with each value, and each pair of fields one of which the family has a rule for."""
    family, message = FAMILIES[name], {"role": "user", "content": "hello"}
    ruled = family.drops.union(family.clamps, family.renames, family.values, family.implies, family.conflicts)
    alone = [
        {field: value}
        for field in VALUES.keys() | ruled | family.extra
        for value in VALUES.get(field, EXTRA_VALUES)
    ]
    pairs = [
        one | other
        for one in alone
        if one.keys() & (ruled | family.extra)
        for other in alone
        if one.keys() != other.keys()
    ]
    models = ((model_of(family, 100), 50, True), (model_of(family, None), None, False))
    for fields in ({}, *alone, *pairs):
        for model, cap, stream in models:
            check({"messages": [message], **fields}, model, cap, stream)


@pytest.mark.parametrize("name", FAMILIES)
def test_no_rule_changes_or_refuses_plain_messages(name: str) -> None:
    """Each role with each other field of a message, first and later in a conversation."""
    family, first = FAMILIES[name], {"role": "user", "content": "hello"}
    plain = []
    for role in ROLES:
        for more in MORE_OF_MESSAGES:
            message = {"role": role, "content": "a"} | more
            for messages in ([message], [first, message]):
                if are_plain(messages, family):
                    check_roles(messages, family)
                    assert rewrite_messages(messages, family) == (messages, [])
                    plain.append(messages)
    assert [first, first | {"content": "a"}] in plain


def check(fields: dict[str, Any], model: Model, cap: int | None, stream: bool) -> None:
    by_field = outcome(sanitize_by_field, model, fields, cap, stream)
    assert outcome(sanitize, model, fields, cap, stream) == by_field


def outcome(
    function: Any, model: Model, fields: dict[str, Any], cap: int | None, stream: bool
) -> tuple[Any, ...] | str:
    """Return the body as text, in its order, and the changes; or the refusal."""
    try:
        made: Sanitized = function(fields, model, cap, stream)
    except Refusal as refusal:
        return f"{refusal.code} {refusal.param} {refusal}"
    return repr(made.body), made.changes


@pytest.mark.parametrize("name", shipped_families())
def test_a_usual_request_is_plain_for_each_family(name: str) -> None:
    family = FAMILIES[name]
    fields = {
        "messages": [{"role": "user", "content": "hello"}],
        "temperature": 0.5,
        "seed": 1,
        "user": "u",
    }
    sent = {field: value for field, value in fields.items() if field not in family.changed_fields}
    made = sanitize(sent, model_of(family, 100), 50, stream=False)
    assert made.is_plain
    assert made.body == {"model": "vendor-id", **sent, family.cap_field: 50}
