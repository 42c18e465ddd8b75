"""The bytes of a Messages request: the chat request of it, and the client's own body beside it."""

import json

import pytest
from rig.messages_requests import HELLO, MARK, ask, text, user

from addon.apis.messages.parse import parse_messages
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
