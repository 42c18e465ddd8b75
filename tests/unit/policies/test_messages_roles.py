"""Roles of messages: those that are known, and the refusal of others with the nearest known role."""

import pytest
from rig.chat_messages import said

from policies.family import ROLES, Family
from policies.messages import check_roles
from policies.refusal import Refusal


@pytest.mark.parametrize("role", [*sorted(ROLES), "context"])
def test_the_usual_roles_and_those_of_the_family_are_known(role: str) -> None:
    check_roles([said(role)], Family("f", roles={"context": "context"}))


@pytest.mark.parametrize(
    ("role", "nearest"),
    [
        ("User", "user"),
        (" assistant", "assistant"),
        ("asistant", "assistant"),
        ("AI assistant", "assistant"),
        ("sys", "system"),
        ("tools", "tool"),
        ("human", None),
        ("tg_" + "a" * 40, None),
        (" " * 100_000, None),
    ],
)
def test_another_role_is_refused_with_the_nearest_one_and_not_repeated(
    role: str, nearest: str | None
) -> None:
    with pytest.raises(Refusal) as refused:
        check_roles([said("user"), said(role)], Family("f"))
    refusal = refused.value
    assert (refusal.code, refusal.param) == ("validation_failed", "messages.1.role")
    asked = f"; did you mean '{nearest}'?" if nearest else ""
    known = "assistant, developer, function, system, tool, user"
    assert refusal.message == f"messages.1.role: Input should be one of {known}{asked}"


def test_every_unknown_role_is_named_within_a_bound() -> None:
    with pytest.raises(Refusal, match=r"also messages\.2\.role$") as refused:
        check_roles([said("x"), said("user"), said("x")], Family("f"))
    assert refused.value.param is None
    with pytest.raises(Refusal, match=r"messages\.999\.role, 4000 more$"):
        check_roles([said("x")] * 5_000, Family("f"))
