"""Families: the rules that no family may break."""

from typing import Any

import pytest

from policies.family import NEVER_DROPPED, RESERVED, Family, check_family


@pytest.mark.parametrize("field", sorted(NEVER_DROPPED | RESERVED))
@pytest.mark.parametrize("verb", ["drops", "extra", "clamps", "renames"])
def test_a_family_may_not_touch_messages_tools_or_the_gateways_own_fields(field: str, verb: str) -> None:
    touching = {
        "drops": {"drops": frozenset({field})},
        "extra": {"extra": frozenset({field})},
        "clamps": {"clamps": {field: (0.0, 1.0)}},
        "renames": {"renames": {"seed": field}},
    }[verb]
    with pytest.raises(ValueError, match=field):
        check_family(Family("greedy", **touching))  # type: ignore[arg-type]


def test_an_ordinary_family_is_accepted() -> None:
    check_family(Family("ordinary", drops=frozenset({"seed"}), renames={"user": "user_id"}))


@pytest.mark.parametrize(
    ("accepts", "named"),
    [
        ({"conflicts": {"thinking": {"tools"}}}, "tools"),
        ({"conflicts": {"thinking": {"n"}}}, "n"),
        ({"implies": {"thinking": {"max_tokens": 5}}}, "max_tokens"),
        ({"implies": {"thinking": {"n": 5}}}, "n"),
        ({"values": {"tool_choice": {"auto": "none"}}}, "tool_choice"),
        ({"message_drops": {"content"}}, "content"),
        ({"message_drops": {"tool_calls"}}, "tool_calls"),
        ({"message_extra": {"role"}}, "role"),
        ({"message_renames": {"content": "text"}}, "content"),
        ({"message_extra": {"x"}, "message_renames": {"x": "content"}}, "content"),
        ({"needs_reasoning_content": True}, "reasoning_content"),
    ],
)
def test_a_family_may_not_change_the_hold_or_the_content_of_a_call(
    accepts: dict[str, Any], named: str
) -> None:
    frozen = {key: frozenset(value) if isinstance(value, set) else value for key, value in accepts.items()}
    with pytest.raises(ValueError, match=rf"\b{named}\b"):
        check_family(Family("greedy", **frozen))


def test_response_formats_beside_tools_can_only_be_refused() -> None:
    with pytest.raises(ValueError, match=r"may only refuse response_formats\.with_tools"):
        check_family(Family("wrong", response_formats={"with_tools": "in_prompt"}))
    check_family(Family("right", response_formats={"with_tools": "refused"}))


def test_a_role_is_plain_unless_it_is_renamed_or_late() -> None:
    family = Family("f", roles={"developer": "system", "critic": "critic"}, late_system_role="user")
    assert {"user", "assistant", "critic"} <= family.plain_roles
    assert family.plain_roles.isdisjoint({"developer", "system"})
    assert "system" in Family("f").plain_roles


def test_only_a_json_schema_may_go_into_the_prompt() -> None:
    with pytest.raises(ValueError, match="json_schema in_prompt"):
        check_family(Family("wrong", response_formats={"json_object": "in_prompt"}))
