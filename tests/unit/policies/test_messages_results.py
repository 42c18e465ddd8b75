"""Results of tools stand right after their calls, for every dialect, and none is lost."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.chat_messages import call, said
from rig.sent import sent as requested
from rig.sent import shipped_families

from policies.messages import order_tool_results

CALLS = said("assistant", None, tool_calls=[call("a"), call("b")])
RESULTS = {name: said("tool", name, tool_call_id=name) for name in "abc"}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ([said(), CALLS, RESULTS["a"], RESULTS["b"], said()], "user assistant a b user"),
        ([said(), CALLS, said(), RESULTS["a"], RESULTS["b"]], "user assistant a b user"),
        (
            [said(), CALLS, RESULTS["b"], said("system"), RESULTS["a"], said()],
            "user assistant b a system user",
        ),
        ([CALLS, said("assistant"), said(), RESULTS["a"]], "assistant a assistant user"),
        # The second call of "a" is the one that is answered.
        (
            [CALLS, RESULTS["a"], RESULTS["b"], said(), CALLS, said(), RESULTS["a"]],
            "assistant a b user assistant a user",
        ),
        ([RESULTS["a"], CALLS, said(), RESULTS["c"]], "a assistant user c"),
        ([said("tool", "x"), CALLS], "x assistant"),
    ],
)
def test_results_of_tools_follow_their_calls(given: list[dict[str, Any]], sent: str) -> None:
    before = deepcopy(given)
    made = order_tool_results(given)
    assert " ".join(one["content"] if one["role"] == "tool" else one["role"] for one in made) == sent
    assert given == before
    assert order_tool_results(made) is made


@given(st.lists(st.sampled_from([said(), said("assistant"), CALLS, *RESULTS.values()]), max_size=9))
def test_no_message_is_lost_when_results_are_put_in_order(given: list[dict[str, Any]]) -> None:
    made = order_tool_results(given)
    assert sorted(map(id, made)) == sorted(map(id, given))
    assert [one for one in made if one["role"] != "tool"] == [one for one in given if one["role"] != "tool"]


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini", "bedrock"])
def test_every_dialect_gets_the_results_right_after_their_calls(dialect: str) -> None:
    family = {"openai": "vllm", "anthropic": "claude", "gemini": "gemini", "bedrock": "claude"}[dialect]
    talk = [said(content="x"), CALLS, said(content="y"), RESULTS["b"], said("assistant", "z"), RESULTS["a"]]
    ordered = [
        said(content="x"),
        CALLS,
        RESULTS["b"],
        RESULTS["a"],
        said(content="y"),
        said("assistant", "z"),
    ]
    late, in_order = (
        requested({"messages": messages}, shipped_families()[family], dialect) for messages in (talk, ordered)
    )
    assert late[0] == in_order[0]
    named = {"messages": "the results of tools follow their calls, as strict servers want them"}
    assert named.items() <= {one.field: one.reason for one in late[1]}.items()
    assert "messages" not in {one.field for one in in_order[1] if one.action == "set"}
