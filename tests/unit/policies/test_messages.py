"""Messages: a table of families and conversations, and properties that no family may break."""

import re
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.chat_messages import call, said, text

from policies.family import Family
from policies.messages import remove_cache_control, rewrite_messages

HINT = {"type": "ephemeral"}


def sendable(messages: list[dict[str, Any]], **accepts: Any) -> list[Any]:
    return rewrite_messages(messages, Family("tested", **accepts))[0]


@pytest.mark.parametrize(
    ("accepts", "message", "sent"),
    [
        ({}, said(unknown=1), said()),
        ({}, said("assistant", reasoning_content="Hm."), said("assistant")),
        (
            {"message_extra": {"reasoning_content"}},
            said("assistant", reasoning_content="Hm."),
            said("assistant", reasoning_content="Hm."),
        ),
        (
            {"message_extra": {"reasoning_content"}, "message_renames": {"reasoning_content": "reasoning"}},
            said("assistant", reasoning_content="Hm."),
            said("assistant", reasoning="Hm."),
        ),
        ({}, said(name="Ann"), said(name="Ann")),
        ({"message_drops": {"name"}}, said(name="Ann"), said()),
        ({}, said(name=None, tool_calls=None), said()),
        (
            {},
            said("assistant", None, tool_calls=[call("a")]),
            said("assistant", None, tool_calls=[call("a")]),
        ),
        (
            {},
            {"role": "assistant", "tool_calls": [call("a")]},
            {"role": "assistant", "tool_calls": [call("a")]},
        ),
        ({}, said("developer"), said("system")),
        ({"roles": {}}, said("developer"), said("developer")),
        ({"roles": {"system": "user"}}, said("system"), said("user")),
        ({}, said(cache_control=HINT), said()),
        ({}, said(content=[text("a", cache_control=HINT), text("b")]), said(content=[text("a"), text("b")])),
        (
            {"message_extra": {"cache_control"}},
            said(content=[text("a", cache_control=HINT)], cache_control=HINT),
            said(content=[text("a", cache_control=HINT)], cache_control=HINT),
        ),
        ({}, said(content=[text("a"), text("b")]), said(content=[text("a"), text("b")])),
        ({"joins_text_parts": True}, said(content=[text("a"), text("b")]), said(content="a\nb")),
        (
            {"joins_text_parts": True},
            said(content=[text("a"), {"type": "image_url", "image_url": {"url": "u"}}]),
            said(content=[text("a"), {"type": "image_url", "image_url": {"url": "u"}}]),
        ),
        (
            {},
            said("assistant", tool_calls=[call("a", extra_content={"google": {}}, index=0), call("b")]),
            said("assistant", tool_calls=[call("a", index=0), call("b")]),
        ),
        (
            {"message_extra": {"extra_content"}},
            said("assistant", tool_calls=[call("a", extra_content={"google": {}})]),
            said("assistant", tool_calls=[call("a", extra_content={"google": {}})]),
        ),
        (
            {"message_extra": {"reasoning_content"}, "needs_reasoning_content": True},
            said("assistant", None, tool_calls=[call("a")]),
            said("assistant", None, tool_calls=[call("a")], reasoning_content=""),
        ),
        (
            {"message_extra": {"reasoning_content"}, "needs_reasoning_content": True},
            said("assistant", None, tool_calls=[call("a")], reasoning_content="Hm."),
            said("assistant", None, tool_calls=[call("a")], reasoning_content="Hm."),
        ),
        (
            {"message_extra": {"reasoning_content"}, "needs_reasoning_content": True},
            said("assistant"),
            said("assistant"),
        ),
    ],
)
def test_a_message_goes_upstream_as_the_family_accepts_it(
    accepts: dict[str, Any], message: dict[str, Any], sent: dict[str, Any]
) -> None:
    before = deepcopy(message)
    assert sendable([message], **accepts) == [sent]
    assert message == before


def test_a_message_of_the_user_after_results_follows_one_of_the_assistant() -> None:
    calls = {"role": "assistant", "tool_calls": [call("a"), call("b")]}
    results = [{"role": "tool", "tool_call_id": one, "content": "x"} for one in ("a", "b")]
    messages = [said("user"), calls, *results, said("system"), said("user")]
    assert sendable(messages) == messages
    rules: dict[str, Any] = {"separates_results": True, "late_system_role": "user"}
    between = {"role": "assistant", "content": "OK."}
    late = {**said("system"), "role": "user"}
    assert sendable(messages, **rules) == [*messages[:4], between, late, said("user")]
    assert sendable(messages[:4], **rules) == messages[:4]


def test_a_late_system_message_has_the_role_that_the_family_accepts_there() -> None:
    roles = ["system", "developer", "user", "assistant", "system", "developer", "user"]
    messages = [said(role) for role in roles]
    assert [m["role"] for m in sendable(messages)] == [
        *("system", "system", "user", "assistant", "system", "system", "user"),
    ]
    assert [m["role"] for m in sendable(messages, late_system_role="user")] == [
        *("system", "system", "user", "assistant", "user", "user", "user"),
    ]


def test_each_field_of_messages_has_one_change() -> None:
    messages = [said("developer", x=1), said(x=2), said("assistant", "", tool_calls=[call("long id", y=1)])]
    _, changes = rewrite_messages(messages, Family("tested", tool_call_id_chars=9))
    assert {(change.field, change.action, change.source) for change in changes} == {
        ("messages.x", "dropped", "families.toml, default of message_extra"),
        ("messages.role", "renamed", "families.toml, default of roles"),
        ("messages.tool_calls.y", "dropped", "families.toml, default of message_extra"),
        ("messages.tool_calls.id", "renamed", "families.toml [tested] tool_call_id_chars"),
    }
    assert all(change.reason.startswith("tested ") for change in changes)


@pytest.mark.parametrize(
    ("accepts", "field", "source"),
    [
        ({"roles": {"system": "user"}}, "role", "roles.system"),
        ({"late_system_role": "user"}, "role", "late_system_role"),
        ({"message_drops": {"name"}}, "name", "message_drops"),
        ({"message_extra": {"x"}, "message_renames": {"x": "y"}}, "x", "message_renames.x"),
        ({"message_extra": {"x"}}, "z", "message_extra"),
        ({"message_extra": {"x"}}, "content.cache_control", "message_extra"),
        ({"joins_text_parts": True}, "content", "joins_text_parts"),
        ({"tool_call_id_limit": 32}, "tool_calls.id", "tool_call_id_limit"),
        (
            {"message_extra": {"reasoning_content"}, "needs_reasoning_content": True},
            "reasoning_content",
            "needs_reasoning_content",
        ),
    ],
)
def test_each_change_of_messages_has_the_familys_key(
    accepts: dict[str, Any], field: str, source: str
) -> None:
    messages = [
        said("user", [text("a", cache_control=HINT)], name="Ann", x=1, z=2),
        said("assistant", tool_calls=[call("c" * 99)]),
        said("system", "Be kind."),
    ]
    _, changes = rewrite_messages(messages, Family("tested", **accepts))
    sources = {change.field: change.source for change in changes}
    assert sources[f"messages.{field}"] == f"families.toml [tested] {source}"


def test_cache_control_is_removed_from_tools() -> None:
    tools = [{"type": "function", "cache_control": HINT}, {"type": "function"}]
    assert remove_cache_control(tools) == [{"type": "function"}] * 2
    assert remove_cache_control(tools[1:]) is not tools
    untouched = tools[1:]
    assert remove_cache_control(untouched) is untouched


def test_tool_call_ids_of_the_right_length_stay_and_others_are_the_same_in_calls_and_results() -> None:
    messages = [
        said("assistant", None, tool_calls=[call("Abcdef123"), call("call_1"), call("call_2")]),
        said("tool", "1", tool_call_id="call_1"),
        said("tool", "2", tool_call_id="call_2"),
        said("tool", "3", tool_call_id="Abcdef123"),
    ]
    sent = sendable(messages, tool_call_id_chars=9)
    first, second, third = [made["id"] for made in sent[0]["tool_calls"]]
    assert first == "Abcdef123"
    assert [message["tool_call_id"] for message in sent[1:]] == [second, third, first]
    # The next turn must have the same ids.
    assert sendable([*messages, said("assistant")], tool_call_id_chars=9)[:4] == sent


ids = st.text(max_size=12) | st.from_regex(r"[A-Za-z0-9]{4,5}", fullmatch=True)


@given(given_ids=st.lists(ids, min_size=1, max_size=30, unique=True), chars=st.sampled_from([4, 9, 64]))
def test_tool_call_ids_have_the_right_length_and_stay_different(given_ids: list[str], chars: int) -> None:
    calls = said("assistant", None, tool_calls=[call(call_id) for call_id in given_ids])
    results = [said("tool", "x", tool_call_id=call_id) for call_id in given_ids]
    sent = sendable([calls, *results], tool_call_id_chars=chars)
    made = [made["id"] for made in sent[0]["tool_calls"]]
    assert len(set(made)) == len(given_ids)
    assert all(re.fullmatch(f"[A-Za-z0-9]{{{chars}}}", call_id) for call_id in made)
    assert [message["tool_call_id"] for message in sent[1:]] == made


parts = st.builds(text, st.text(max_size=5)) | st.just({"type": "image_url", "image_url": {"url": "u"}})
messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant", "tool"]),
        "content": st.text() | st.lists(parts),
    },
    optional={
        "name": st.text(),
        "tool_call_id": st.text(),
        "tool_calls": st.lists(st.builds(call, st.text()), max_size=2),
    },
)


@given(conversation=st.lists(messages, max_size=6))
def test_a_family_without_rules_sends_each_message_as_the_same_object(
    conversation: list[dict[str, Any]],
) -> None:
    sent, changes = rewrite_messages(conversation, Family("plain"))
    assert all(one is other for one, other in zip(sent, conversation, strict=True))
    assert changes == []


accepts = st.fixed_dictionaries(
    {
        "message_extra": st.sampled_from([frozenset(), frozenset({"reasoning_content", "cache_control"})]),
        "message_drops": st.sampled_from([frozenset(), frozenset({"name"})]),
        "late_system_role": st.sampled_from([None, "user"]),
        "joins_text_parts": st.booleans(),
        "tool_call_id_chars": st.sampled_from([None, 9]),
    }
)


@given(conversation=st.lists(messages, max_size=6), accepts=accepts)
def test_no_family_loses_a_message_or_a_word_of_it(
    conversation: list[dict[str, Any]], accepts: dict[str, Any]
) -> None:
    before = deepcopy(conversation)
    sent = sendable(conversation, **accepts)
    assert len(sent) == len(conversation)
    for message, original in zip(sent, conversation, strict=True):
        assert _words(message["content"]) == _words(original["content"])
        assert [made["function"] for made in message.get("tool_calls", [])] == [
            made["function"] for made in original.get("tool_calls", [])
        ]
        assert ("tool_call_id" in message) == ("tool_call_id" in original)
    assert conversation == before


def _words(content: str | list[dict[str, Any]]) -> list[str]:
    if isinstance(content, str):
        return content.split("\n")
    return [word for part in content for word in part.get("text", "").split("\n")] or [""]


PICTURE = "https://a.test/b.png"


def test_a_picture_whose_url_is_a_bare_string_is_sent_as_an_object() -> None:
    text = {"type": "text", "text": "What is this?"}
    messages = [{"role": "user", "content": [text, {"type": "image_url", "image_url": PICTURE}]}]
    sent, changes = rewrite_messages(messages, Family("f"))
    assert sent[0]["content"] == [text, {"type": "image_url", "image_url": {"url": PICTURE}}]
    assert messages[0]["content"][1]["image_url"] == PICTURE
    assert [(change.field, change.action) for change in changes] == [
        ("messages.content.image_url", "renamed")
    ]


def test_a_picture_that_is_an_object_stays_the_same_object() -> None:
    message = {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}}],
    }
    assert rewrite_messages([message], Family("f")) == ([message], [])


def test_a_null_field_is_not_a_dropped_one() -> None:
    message = {"role": "assistant", "content": "x", "refusal": None, "audio": None, "annotations": []}
    sent, changes = rewrite_messages([message], Family("f"))
    assert sent == [{"role": "assistant", "content": "x"}]
    assert [change.field for change in changes] == ["messages.annotations"]
