"""The bytes of a Messages request: the chat request of it, and the client's own body beside it."""

import json
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.messages_requests import HELLO, MARK, PNG, TOOL, ask, result, talk, text, tool_use, user

from addon.apis.chat.schema import validate as validate_chat
from addon.apis.messages.parse import parse_messages
from addon.dialects.opaque_reasoning import seal
from addon.text.http_heads import Headers
from policies.large_text import LargeText
from policies.refusal import Refusal

LONG = "word " * 20_000


def test_a_request_is_translated_and_kept():
    body = ask(user(text(LONG, cache_control=MARK)), stream=True, metadata={"user_id": "u"}, container=None)
    content = json.dumps(body | {"mcp_servers": []}).encode()
    headers = Headers([("anthropic-beta", "a"), ("anthropic-beta", "b"), ("x-api-key", "tg_secret")])
    chat = parse_messages(content, headers)
    assert (chat.model, chat.stream, chat.requested_cap, chat.end_user) == ("m", True, 9, "u")
    assert (chat.untranslated, chat.obstacle, chat.body_bytes) == (("mcp_servers",), None, len(content))
    assert chat.native is not None and chat.large is not None
    assert chat.native.body == body | {"mcp_servers": [], "messages": chat.native.body["messages"]}
    assert dict(chat.native.headers) == {"anthropic-beta": "a, b"}
    (part,) = chat.fields["messages"][0]["content"]
    assert isinstance(part["text"], LargeText)
    assert part["text"] is chat.native.body["messages"][0]["content"][0]["text"], "it is not copied"


def test_a_request_that_counts_needs_no_cap():
    content = json.dumps({"model": "m", "messages": HELLO}).encode()
    assert parse_messages(content, {}, counts_only=True).requested_cap is None
    with pytest.raises(Refusal, match="max_tokens: Field required"):
        parse_messages(content, {})


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a": 1, "a": 2}', b'{"messages": NaN}'])
def test_the_rules_of_json_are_those_of_chat(content: bytes):
    with pytest.raises(Refusal) as refused:
        parse_messages(content, {})
    assert refused.value.code == "validation_failed"


PICTURE = {"type": "image", "source": PNG}
PAGES = {"type": "content", "content": [text("A"), PICTURE]}
PLAIN = {"type": "text", "media_type": "text/plain", "data": "D"}
FULL = ask(
    [
        *user(
            text("Hi", cache_control=MARK),
            PICTURE,
            {"type": "document", "source": PAGES, "title": "T", "citations": {"enabled": True}},
            {"type": "document", "source": PLAIN, "context": "C"},
            {"type": "search_result", "title": "T", "source": "S", "content": [text("A")]},
        ),
        *talk(
            [
                {"type": "thinking", "thinking": "Hm", "signature": seal([{"type": "reasoning.text"}])},
                {"type": "redacted_thinking", "data": "d"},
                text("I look."),
                tool_use(city="Oslo"),
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            ],
            result(
                [text("Rain"), PICTURE, {"type": "tool_reference", "tool_name": "weather"}], is_error=True
            ),
        ),
        {"role": "system", "content": [text("Late")], "output_config": {"effort": "low"}},
    ],
    system=[text("Be brief.", cache_control=MARK)],
    tools=[TOOL | {"strict": True, "defer_loading": True}, {"type": "bash_20250124", "name": "bash"}],
    tool_choice={"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
    thinking={"type": "enabled", "budget_tokens": 2_000, "display": "omitted"},
    output_config={"effort": "high", "format": {"type": "json_schema", "schema": TOOL["input_schema"]}},
    metadata={"user_id": "u", "team": "a"},
    stop_sequences=["END"],
    cache_control=MARK,
)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "text", "tg1.", "tool_use", "document", [], {}, [{}], [[]], {"type": "text"}])
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return each holder in a JSON value, with each of its keys or indexes."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in ((value, key), *places(inner))]


@given(st.lists(st.tuples(st.integers(0, 10_000), VALUES), min_size=1, max_size=3))
def test_any_other_body_is_read_or_refused(changes: list[tuple[int, Any]]):
    body = deepcopy(FULL)
    for at, value in changes:
        known = places(body)
        holder, key = known[at % len(known)]
        holder[key] = value
    with suppress(Refusal):
        chat = parse_messages(json.dumps(body).encode(), {})
        validate_chat({**chat.fields, **chat.extras})
        assert len(chat.sources["messages"]) == len(chat.fields["messages"])
        assert len(chat.sources["tools"]) == len(chat.fields.get("tools", []))
