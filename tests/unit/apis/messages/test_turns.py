"""The turns of a conversation as chat messages: what is carried, in which order, and what is named."""

import json
from typing import Any

import pytest
from rig.messages_requests import HELLO, MARK, PNG, ask, result, talk, text, tool_use, translate, user

from addon.apis.messages.request import to_chat
from addon.text.json_decode import decode_large_object
from addon.text.json_encode import encode_request
from policies.estimate import estimate_prompt_tokens
from policies.family import Estimator

PICTURE = {"type": "image", "source": PNG}
PICTURE_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
CALL = {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
ATTACHED = text("Attached to the result of the tool call t1:")


def document(source: Any, **more: Any) -> dict[str, Any]:
    return {"type": "document", "source": source, **more}


def file(data: str, name: str = "document.pdf") -> dict[str, Any]:
    return {"type": "file", "file": {"filename": name, "file_data": data}}


@pytest.mark.parametrize(
    ("system", "content"),
    [
        ("Be brief.", "Be brief."),
        ([text("Be brief.")], "Be brief."),
        ([text("A"), text("B", cache_control=MARK)], [text("A"), text("B", cache_control=MARK)]),
        ([text("A", cache_control=None)], "A"),
    ],
)
def test_the_system_prompt_is_the_first_message(system: Any, content: Any):
    assert translate(ask(system=system)).body["messages"] == [
        {"role": "system", "content": content},
        *HELLO,
    ]


def test_a_late_system_turn_keeps_its_place():
    turns = [*HELLO, {"role": "system", "content": [text("A")]}, {"role": "assistant", "content": "B"}]
    assert translate(ask(turns)).body["messages"] == [*HELLO, {"role": "system", "content": "A"}, turns[2]]


def test_what_a_system_turn_says_of_tools_and_time_is_named():
    turn = {"role": "system", "content": [text("A"), {"type": "tool_removal"}], "clear_at": "never"}
    made = translate(ask([*HELLO, turn]))
    assert made.body["messages"][1] == {"role": "system", "content": "A"}
    assert made.untranslated == ("messages.clear_at", "messages.tool_removal")


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (text("x"), [text("x")]),
        (text("x", cache_control=MARK), [text("x", cache_control=MARK)]),
        (PICTURE, [PICTURE_PART]),
        (
            {"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}, "cache_control": MARK},
            [{"type": "image_url", "image_url": {"url": "https://a.b/c.png"}, "cache_control": MARK}],
        ),
        (document(PDF), [file("data:application/pdf;base64,aGk=")]),
        (document(PDF, title="x.pdf", context="C"), [text("C"), file("data:application/pdf;base64,aGk=", "x.pdf")]),
        (document({"type": "url", "url": "https://a.b/c.pdf"}), [file("https://a.b/c.pdf")]),
        (
            document({"type": "text", "media_type": "text/plain", "data": "D"}, title="T", context="C"),
            [text("T\nC"), text("D")],
        ),
        (
            document({"type": "content", "content": [text("A"), PICTURE]}, cache_control=MARK),
            [text("A"), {**PICTURE_PART, "cache_control": MARK}],
        ),
        (document({"type": "content", "content": "A"}), [text("A")]),
        (
            {"type": "search_result", "title": "T", "source": "S", "content": [text("A")]},
            [text("T\nS"), text("A")],
        ),
    ],
)  # fmt: skip
def test_blocks_of_the_user(block: Any, parts: Any):
    made = translate(ask(user(text("First"), block)))
    assert made.body["messages"] == [{"role": "user", "content": [text("First"), *parts]}]
    assert not made.untranslated and made.obstacle is None


@pytest.mark.parametrize(
    ("block", "place"),
    [
        ({"type": "image", "source": {"type": "file", "file_id": "f"}}, "messages.0.content.1.source"),
        (document({"type": "file", "file_id": "f"}), "messages.0.content.1.source"),
        ({"type": "container_upload", "file_id": "f"}, "messages.0.content.1"),
        ({"type": "new tomorrow"}, "messages.0.content.1"),
        (result([{"type": "new tomorrow"}]), "messages.0.content.1.content.0"),
        (
            document({"type": "content", "content": [{"type": "new tomorrow"}]}),
            "messages.0.content.1.source.content.0",
        ),
    ],
)
def test_a_block_without_which_the_question_is_another_is_an_obstacle(block: Any, place: str):
    made = translate(ask(user(text("First"), block)))
    assert made.obstacle and made.obstacle[0] == place


@pytest.mark.parametrize(
    ("block", "names"),
    [
        (document(PDF, citations={"enabled": True}), ("messages.citations",)),
        (document(PDF, citations={"enabled": False}), ()),
        (PICTURE | {"transformations": {"a": "b"}}, ("messages.transformations",)),
        (text("x", citations=None), ()),
        (result(toolset_name="browser"), ("messages.toolset_name",)),
    ],
)
def test_members_that_chat_has_no_place_for_are_named(block: Any, names: tuple[str, ...]):
    assert translate(ask(user(text("x"), block))).untranslated == names


def test_results_come_first_and_next_to_their_calls():
    calls = [text("I look."), tool_use("t1", city="Oslo"), tool_use("t2"), text(" Wait.")]
    after = [
        text("And?"),
        result("Rain"),
        result([text("A"), text("B")], "t2", cache_control=MARK),
        text("Go"),
    ]
    assert translate(ask(talk(calls, *after))).body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "I look. Wait.",
            "tool_calls": [CALL, {"id": "t2", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "Rain"},
        {"role": "tool", "tool_call_id": "t2", "content": [text("A"), text("B")], "cache_control": MARK},
        {"role": "user", "content": [text("And?"), text("Go")]},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("block", "content"),
    [
        (result(""), ""),
        (result(None), ""),
        (result([]), ""),
        (result("x", is_error=False), "x"),
        (result("No such file", is_error=True), "Error: No such file"),
        (result("<tool_use_error>No</tool_use_error>", is_error=True), "<tool_use_error>No</tool_use_error>"),
        (result([text("No", cache_control=MARK)], is_error=True), [text("Error: No", cache_control=MARK)]),
        (result(" ", is_error=True), "Error"),
        ({"type": "tool_result", "tool_use_id": "t1", "is_error": True}, "Error"),
        (result([{"type": "tool_reference", "tool_name": "weather"}]), "Tool available: weather"),
    ],
)
def test_results(block: Any, content: Any):
    made = translate(ask(talk([tool_use()], block)))
    assert made.body["messages"][2:] == [{"role": "tool", "tool_call_id": "t1", "content": content}]


def test_pictures_and_documents_in_a_result_follow_all_results():
    after = [result([text("See"), PICTURE]), result([document(PDF)], "t2", is_error=True), text("Go")]
    made = translate(ask(talk([tool_use(), tool_use("t2")], *after)))
    assert made.body["messages"][2:] == [
        {"role": "tool", "tool_call_id": "t1", "content": "See"},
        {"role": "tool", "tool_call_id": "t2", "content": "Error"},
        {
            "role": "user",
            "content": [
                *(ATTACHED, PICTURE_PART),
                text("Attached to the result of the tool call t2:"),
                file("data:application/pdf;base64,aGk="),
                text("Go"),
            ],
        },
    ]


def test_a_result_of_only_a_picture_is_not_empty():
    tool, attached = translate(ask(talk([tool_use()], result([PICTURE])))).body["messages"][2:]
    assert tool["content"] == "The result is attached to the next message of the user."
    assert attached == {"role": "user", "content": [ATTACHED, PICTURE_PART]}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("Hi", {"content": "Hi"}),
        ([text("A"), text("B")], {"content": "AB"}),
        ([text("A"), text("B", cache_control=MARK)], {"content": [text("A"), text("B", cache_control=MARK)]}),
        ([tool_use(city="Oslo")], {"content": None, "tool_calls": [CALL]}),
        (
            [tool_use(city="Oslo") | {"cache_control": MARK, "caller": {"type": "direct"}}],
            {"content": None, "tool_calls": [{**CALL, "cache_control": MARK}]},
        ),
    ],
)
def test_turns_of_the_assistant(said: Any, message: Any):
    made = translate(ask([*HELLO, {"role": "assistant", "content": said}]))
    assert made.body["messages"][1] == {"role": "assistant", **message}
    assert not made.untranslated


def test_the_providers_own_tools_are_named_and_left_out():
    used = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    made = translate(ask(talk([used, found, text("Rain", citations=[{"type": "x"}])], text("And?"))))
    assert made.body["messages"][1] == {"role": "assistant", "content": "Rain"}
    assert made.untranslated == (
        "messages.server_tool_use",
        "messages.web_search_tool_result",
        "messages.citations",
    )
    assert len(translate(ask(talk([used, found], text("And?")))).body["messages"]) == 2, "nothing is left"


def test_a_mark_of_the_request_is_on_its_last_message():
    assert translate(ask(cache_control=MARK)).body["messages"] == [{**HELLO[0], "cache_control": MARK}]


def test_a_request_of_system_messages_alone_is_an_obstacle():
    made = translate(ask([{"role": "system", "content": "A"}]))
    assert made.obstacle and made.obstacle[0] == "messages"
    assert translate(ask([{"role": "system", "output_config": {}}])).obstacle


def test_each_message_names_its_source():
    made = translate(ask(talk([tool_use()], result(), text("Go")), system="A"))
    assert made.sources["messages"] == ["system", "messages.0", "messages.1", "messages.2", "messages.2"]
    assert len(made.body["messages"]) == len(made.sources["messages"])


LONG = 'A "quoted" line\n' * 8_000


def test_long_texts_keep_their_bytes_and_their_counts():
    """They are not decoded, except for those inside of a call's arguments, which are JSON in a text."""
    body = ask(
        [
            *talk([tool_use(file=[LONG])], result(LONG, is_error=True)),
            *user(document(PDF | {"data": "QUJD" * 50_000})),
        ]
    )
    decoded, large = decode_large_object(json.dumps(body).encode())
    made = to_chat(decoded)
    assert large is not None
    sent = json.loads(large.restore(encode_request(made.body)))
    assert sent == to_chat(body).body
    assert json.loads(sent["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"file": [LONG]}
    whole_tokens = estimate_prompt_tokens(sent, Estimator())
    assert estimate_prompt_tokens(made.body, Estimator()) == pytest.approx(whole_tokens, rel=0.001)
