"""The header of dropped fields: the names in it, in order and within bounds."""

from typing import Any

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
