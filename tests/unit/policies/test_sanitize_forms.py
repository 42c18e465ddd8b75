"""Sanitization: fields that depend on each other, and forms of a field that a family refuses."""

from copy import deepcopy
from typing import Any

import pytest
from rig.sanitized_fields import MESSAGES, NAMED, model_accepting

from policies.refusal import Refusal
from policies.sanitize import sanitize

THINKING = frozenset({"thinking", "reasoning_effort"})
OFF = {"type": "disabled"}


@pytest.mark.parametrize(
    ("accepts", "fields", "sent"),
    [
        ({"values": {"user": {"a": "b"}}}, {"user": "a"}, {"user": "b"}),
        ({"values": {"user": {"a": "b"}}}, {"user": "c"}, {"user": "c"}),
        ({"values": {"user": {"a": "b"}}, "renames": {"user": "id"}}, {"user": "a"}, {"id": "b"}),
        ({"conflicts": {"temperature": {"top_p"}}}, {"temperature": 0, "top_p": 1}, {"temperature": 0}),
        ({"conflicts": {"temperature": {"top_p"}}}, {"top_p": 1}, {"top_p": 1}),
        (
            {"conflicts": {"logprobs": {"top_p"}}},
            {"logprobs": False, "top_p": 1},
            {"logprobs": False, "top_p": 1},
        ),
        ({"conflicts": {"user": {"seed"}}}, {"user": "none", "seed": 1}, {"user": "none", "seed": 1}),
        (
            {"conflicts": {"thinking": {"seed"}}},
            {"thinking": {"type": "enabled"}, "seed": 1},
            {"thinking": {"type": "enabled"}},
        ),
        ({"conflicts": {"thinking": {"seed"}}}, {"thinking": OFF, "seed": 1}, {"thinking": OFF, "seed": 1}),
        # The first field that is on decides. A field that it drops excludes no others.
        (
            {"conflicts": {"tool_choice": {"thinking"}, "thinking": {"temperature"}}},
            {"tool_choice": "required", "thinking": {"type": "enabled"}, "temperature": 1},
            {"tool_choice": "required", "temperature": 1},
        ),
        ({"conflicts": {"seed": {"user"}}, "drops": {"seed"}}, {"seed": 1, "user": "u"}, {"user": "u"}),
        (
            {"implies": {"tools": {"user": "none"}}},
            {"tools": [{"type": "custom"}]},
            {"tools": [{"type": "custom"}], "user": "none"},
        ),
        ({"implies": {"tools": {"user": "none"}}}, {"tools": [], "user": "u"}, {"user": "u"}),
        ({}, {"tools": [], "tool_choice": "none", "parallel_tool_calls": True}, {}),
        ({}, {"logprobs": True, "top_logprobs": 21}, {"logprobs": True, "top_logprobs": 20}),
        ({}, {"logprobs": False, "top_logprobs": 2}, {"logprobs": False}),
        ({"implies": {"tool_choice": {"thinking": OFF}}}, {"tool_choice": "auto"}, {"tool_choice": "auto"}),
        ({"conflicts": {"tool_choice": {"seed"}}}, {"tool_choice": "required", "seed": 1}, {"seed": 1}),
        (
            {"implies": {"tool_choice": {"thinking": OFF}}},
            {"tool_choice": "required", "thinking": {"type": "enabled"}},
            {"tool_choice": "required", "thinking": OFF},
        ),
        # Implied fields exclude others, too.
        (
            {"implies": {"tools": {"user": "none"}}, "conflicts": {"user": {"seed"}}},
            {"tools": [{"type": "custom"}], "user": "u", "seed": 1},
            {"tools": [{"type": "custom"}], "user": "none", "seed": 1},
        ),
        ({"tool_choices": {"required": "any"}}, {"tool_choice": "required"}, {"tool_choice": "any"}),
        ({"tool_choices": {"required": "any"}}, {"tool_choice": NAMED}, {"tool_choice": NAMED}),
        ({"tool_choices": {"named": "any"}}, {"tool_choice": NAMED}, {"tool_choice": "any"}),
        ({"response_formats": {"text": "dropped"}}, {"response_format": {"type": "text"}}, {}),
        (
            {"response_formats": {"json_schema": "json_object"}},
            {"response_format": {"type": "json_schema", "json_schema": {}}},
            {"response_format": {"type": "json_object"}},
        ),
        (
            {},
            {"response_format": {"type": "grammar", "grammar": "x"}},
            {"response_format": {"type": "grammar", "grammar": "x"}},
        ),
        ({}, {"tools": [{"type": "custom", "cache_control": 1}]}, {"tools": [{"type": "custom"}]}),
        (
            {"message_extra": {"cache_control"}},
            {"tools": [{"type": "custom", "cache_control": 1}]},
            {"tools": [{"type": "custom", "cache_control": 1}]},
        ),
        # The values of extra fields are not validated.
        ({"clamps": {"thinking": (0.0, 1.0)}}, {"thinking": {"a": 1}}, {"thinking": {"a": 1}}),
    ],
)
def test_fields_are_sent_as_they_agree_with_each_other(
    accepts: dict[str, Any], fields: dict[str, Any], sent: dict[str, Any]
) -> None:
    tools = (
        {"tools": [{"type": "custom"}]} if "tool_choice" in sent else {}
    )  # A choice is sent with tools only.
    given = {"messages": MESSAGES} | tools | fields
    before = deepcopy(given)
    sanitized = sanitize(given, model_accepting(extra=THINKING, **accepts), 50, False)
    assert sanitized.body == {"model": "vendor-id", "messages": MESSAGES, "max_tokens": 50} | tools | sent
    assert given == before
    changed = {change.field.partition(".")[0] for change in sanitized.changes}
    assert changed >= given.keys() | sanitized.body.keys() - {"id"}


@pytest.mark.parametrize(
    ("accepts", "fields", "message"),
    [
        (
            {"tool_choices": {"required": "refused"}},
            {"tool_choice": "required"},
            "tool_choice: slug does not take 'required'; use 'auto' or 'none'.",
        ),
        (
            {"tool_choices": {"required": "refused", "named": "refused", "none": "refused"}},
            {"tool_choice": NAMED},
            "tool_choice: slug does not take a function's name; use 'auto'.",
        ),
        (
            {"response_formats": {"json_schema": "refused"}},
            {"response_format": {"type": "json_schema"}},
            "response_format: slug does not take 'json_schema'.",
        ),
    ],
)
def test_a_form_that_the_family_refuses_is_refused_by_name(
    accepts: dict[str, Any], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(Refusal) as refused:
        sanitize({"messages": MESSAGES} | fields | {"tools": [NAMED]}, model_accepting(**accepts), 50, False)
    assert refused.value.message == message
    assert (refused.value.code, refused.value.param) == ("validation_failed", next(iter(fields)))


@pytest.mark.parametrize("kind", ["enabled", None, 5, ["disabled"], {"disabled": 1}])
def test_only_a_refused_text_is_refused(kind: Any) -> None:
    model = model_accepting(
        extra=THINKING, refused_values={"thinking.type": {"disabled"}, "user.id.x": {"a"}}
    )
    fields = {"messages": MESSAGES, "thinking": {"type": kind}, "user": "a"}
    assert sanitize(fields, model, 50, False).body["thinking"] == {"type": kind}
    with pytest.raises(Refusal, match=r"thinking\.type: slug does not take 'disabled'"):
        sanitize(fields | {"thinking": OFF}, model, 50, False)
