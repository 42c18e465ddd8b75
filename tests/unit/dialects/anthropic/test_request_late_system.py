"""System messages after the first turn keep their place where the model takes them."""

from typing import Any

import pytest
from rig.anthropic_requests import (
    call,
)
from rig.sent import sent, shipped_families

from addon.dialects.anthropic.messages import translate_messages
from addon.dialects.anthropic.request import to_request
from policies.family import Family

SYSTEM = {"role": "system", "content": "s"}
USER = {"role": "user", "content": "u"}
SAID = {"role": "assistant", "content": "a"}
CALLED = {"role": "assistant", "tool_calls": [call("t", "{}")]}
RESULT = {"role": "tool", "tool_call_id": "t", "content": "r"}


@pytest.mark.parametrize(
    ("messages", "first", "roles"),
    [
        ([SYSTEM, USER, SYSTEM], 1, "user system"),
        ([SYSTEM, SYSTEM, USER, SAID, USER, SYSTEM], 2, "user assistant user system"),
        (
            [USER, SYSTEM, SAID, USER, SYSTEM, SAID, USER],
            0,
            "user system assistant user system assistant user",
        ),
        # The only place of a late one is after the user's turn.
        ([USER, SAID, SYSTEM, USER], 0, "user assistant user system"),
        ([USER, SYSTEM, USER, SYSTEM, SAID, USER], 0, "user system assistant user"),
        ([USER, CALLED, SYSTEM, RESULT], 0, "user assistant user system"),
        ([USER, CALLED, RESULT, SYSTEM], 0, "user assistant user system"),
        # No turn of the user is right before these.
        ([USER, SAID, SYSTEM, SAID, USER], 1, "user assistant user"),
        ([USER, SAID, SYSTEM], 1, "user assistant"),
        ([SAID, SYSTEM, USER], 0, "assistant user system"),
        ([USER, {"role": "system", "content": " "}, SAID], 0, "user assistant"),
        ([USER, SYSTEM, {"role": "assistant", "content": ""}, USER], 0, "user system"),
    ],
)
def test_a_late_system_message_keeps_its_place_where_the_model_takes_it(
    messages: list[Any], first: int, roles: str
):
    body = {"model": "m", "max_tokens": 9, "messages": messages}
    system, turns = translate_messages(messages, keeps_late_system=True)
    assert len(system) == first
    assert " ".join(turn["role"] for turn in turns) == roles
    given = sum(one["role"] == "system" and bool(one["content"].strip()) for one in messages)
    assert len(system) + sum(len(turn["content"]) for turn in turns if turn["role"] == "system") == given
    moved, _ = translate_messages(messages)
    assert len(moved) == given
    assert to_request(body, Family("f"), keeps_late_system=True)["messages"] == turns


def test_a_late_system_message_leaves_the_beginning_of_the_next_turn_as_it_was():
    talk = [SYSTEM, USER, SYSTEM]
    before = to_request(
        {"model": "m", "max_tokens": 9, "messages": talk}, Family("f"), keeps_late_system=True
    )
    after = to_request(
        {"model": "m", "max_tokens": 9, "messages": [*talk, SAID, USER, SYSTEM]},
        Family("f"),
        keeps_late_system=True,
    )
    assert after["system"] == before["system"]
    assert after["messages"][: len(before["messages"])] == before["messages"]


@pytest.mark.parametrize(
    ("family", "dialect", "roles"),
    [
        ("claude", "anthropic", ["user", "system"]),
        ("claude-fable", "anthropic", ["user", "system"]),
        ("claude-4-7", "anthropic", ["user"]),
        ("claude-4-6", "anthropic", ["user"]),
        ("claude-sampling", "anthropic", ["user"]),
        ("claude", "bedrock", ["user"]),
    ],
)
def test_only_models_that_take_late_system_messages_get_them(family: str, dialect: str, roles: list[str]):
    made, _ = sent({"messages": [USER, SYSTEM]}, shipped_families()[family], dialect)
    assert [turn["role"] for turn in made["messages"]] == roles
    assert ("system" in made) == (roles == ["user"])
