"""The header of dropped fields: the names in it, in order and within bounds."""

from typing import Any

import pytest
from rig.sent import sent, shipped_families

from addon.calls.dropped_fields import MAX_NAMES, format_dropped_header, list_dropped
from policies.field_change import FieldChange


def change(field: str, action: Any) -> FieldChange:
    return FieldChange(field, action, "", "")


def test_unknown_dropped_and_left_out_fields_are_named_once_and_in_order() -> None:
    given = ["messages", "seed", "user", "metadata", "n"]
    changes = [change("seed", "dropped"), change("user", "kept"), change("messages.name", "dropped")]
    header = format_dropped_header(
        given, ["messages", "seed", "user", "n"], list_dropped(changes), ["seed", "n"]
    )
    assert header == "messages.name, metadata, n, seed"
    assert format_dropped_header(given, given) is None


def test_fields_that_a_rule_set_or_the_gateway_applied_are_not_named() -> None:
    heard = ["stream", "stream_options", "model", "max_tokens", "max_completion_tokens"]
    assert format_dropped_header(heard, [], heard, ["reasoning_effort", "random_seed"]) is None


def test_names_are_bounded_and_those_that_do_not_fit_a_header_are_counted() -> None:
    many = [f"field_{number:02}" for number in range(MAX_NAMES + 5)]
    assert format_dropped_header(many, []) == ", ".join([*many[:MAX_NAMES], "+5"])
    odd = ["ok", "a b", "x" * 65, "naïve", "a\r\nset-cookie: b", "", "tg_" + "a" * 40]
    assert format_dropped_header(odd, []) == f"ok, +{len(odd) - 1}"


TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("family", "fields", "named"),
    [
        ("openai-chat", {"stop": list("abcde"), "n": 2}, "stop"),
        ("openai-chat", {"stop": list("abcd"), "n": 2, "temperature": 2}, None),
        (
            "openai-chat",
            {"n": 500, "temperature": 3, "presence_penalty": -9},
            "n, presence_penalty, temperature",
        ),
        ("groq", {"n": 2, "stop": "a"}, "n"),
        ("openai-reasoning-or-tools", {"tools": [TOOL], "reasoning_effort": "high"}, "reasoning_effort"),
        ("openai-reasoning-or-tools", {"tools": [TOOL], "reasoning_effort": "none"}, None),
        ("openai-reasoning-or-tools", {"tools": [TOOL]}, None),
        ("openai-reasoning-or-tools", {"reasoning_effort": "minimal"}, None),
        (
            "deepseek",
            {"tools": [TOOL], "tool_choice": "required", "thinking": {"type": "enabled"}},
            "thinking",
        ),
        ("mistral", {"seed": 1, "tools": [TOOL], "tool_choice": "required"}, None),
    ],
)
def test_what_is_shortened_or_replaced_is_named_and_what_is_only_renamed_is_not(
    family: str, fields: dict[str, Any], named: str | None
) -> None:
    _, changes = sent(
        {"messages": [{"role": "user", "content": "x"}], **fields}, shipped_families()[family], "openai"
    )
    assert format_dropped_header(fields, fields, list_dropped(changes)) == named


def test_names_are_those_of_the_clients_api() -> None:
    names = {"stop": "stop_sequences", "messages.reasoning_details": "messages.thinking"}
    given = {"stop", "messages"}
    header = format_dropped_header(
        given,
        {"messages"},
        ["messages.reasoning_details", "messages.thinking"],
        untranslated=["container"],
        names=names,
    )
    assert header == "container, messages.thinking, stop_sequences"
