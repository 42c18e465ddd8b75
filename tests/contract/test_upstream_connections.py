"""Contract: providers are read in each framing of HTTP/1.1, over TLS, and on connections that are used again."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Chat
from rig.gateway import Gateway
from rig.scripts import Script, chunked, completion, until_close, whole
from rig.upstream import Upstream

ENVELOPES: dict[str, Callable[[bytes], Script]] = {
    "a length": whole,
    "chunks": lambda raw: chunked(raw[:10], raw[10:11], raw[11:], content_type="application/json"),
    "one chunk a byte": lambda raw: chunked(
        *(raw[i : i + 1] for i in range(len(raw))), content_type="application/json"
    ),
    "the end of the connection": lambda raw: until_close(raw, content_type="application/json"),
    "no content type": lambda raw: whole(raw, content_type=None),
    "a charset": lambda raw: whole(raw, content_type="application/json; charset=utf-8"),
    "text/plain": lambda raw: whole(raw, content_type="text/plain"),
    "status 201": lambda raw: whole(raw, status=201),
    "white space before and after": lambda raw: whole(b"\n\n   \r\n" + raw + b"\n"),
    "a byte order mark": lambda raw: whole(b"\xef\xbb\xbf" + raw),
    "unknown headers": lambda raw: whole(raw, headers=[("X-Odd", "\xe9"), ("X-Odd", "2")]),
}


@pytest.mark.parametrize("name", ENVELOPES)
def test_a_completion_is_read_in_each_framing(chat: Chat, upstream: Upstream, name: str) -> None:
    upstream.behave(ENVELOPES[name](json.dumps(completion("ça va ✓"), ensure_ascii=False).encode()))
    answer = chat()
    assert (answer.status_code, answer.json()) == (200, completion("ça va ✓") | {"model": "tester-large"})


def test_an_upstream_over_tls_is_verified_and_used(
    chat: Chat, upstreams: dict[str, Any], gateway: Gateway
) -> None:
    secure, untrusted = upstreams["SECURE"], upstreams["UNTRUSTED"]
    secure.reset()
    untrusted.reset()
    assert chat(model="secure-model").json()["model"] == "secure-model"
    assert len(secure.requests) == 1
    refused = chat(model="untrusted-model")
    assert (refused.status_code, refused.json()["error"]["code"]) == (502, "upstream_error")
    assert untrusted.requests == []


def test_an_upstream_connection_is_used_again(chat: Chat, upstream: Upstream) -> None:
    for _ in range(4):
        assert chat().status_code == 200
    assert len({request.connection for request in upstream.requests}) == 1
