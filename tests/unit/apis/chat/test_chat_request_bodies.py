"""Chat requests: bodies without a valid JSON object are refused, and any other body is read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.chat_requests import CONTRACT, HELLO, NAMED_APART, encoded, read, refused

from addon.apis.chat.request import ChatRequest, parse_chat_request
from addon.text.json_decode import MAX_DEPTH
from policies.refusal import Refusal

SECRET = "a-private-word"


# --- bodies without a JSON object --------------------------------------------------------------------------

PLAIN = encoded()


def nested(levels: int) -> bytes:
    """Return a request with arrays down to this level. Its own object is the first level."""
    return PLAIN[:-1] + b',"x":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


UNREADABLE: list[tuple[bytes, str]] = [
    (b"", "is empty"),
    (b" \r\n\t ", "is empty"),
    (b"\xef\xbb\xbf" + PLAIN, "byte order mark"),
    (PLAIN.decode().encode("utf-16"), "UTF-8"),
    (PLAIN.decode().encode("utf-16-le"), "UTF-16"),
    (PLAIN.decode().encode("utf-32-be"), "UTF-32"),
    (PLAIN.replace(b"hello", b"\xff"), "not valid UTF-8 (at byte 43)"),
    (PLAIN.replace(b"hello", b"\xed\xa0\x80"), "not valid UTF-8"),
    (PLAIN.replace(b"hello", b"\xc0\xaf"), "not valid UTF-8"),
    (b"messages=hello", "not valid JSON (at line 1, column 1)"),
    (b'{\n "messages": }', "not valid JSON (at line 2, column 14)"),
    (PLAIN[:-1], "not valid JSON"),
    (PLAIN + b"{}", "not valid JSON"),
    (PLAIN.replace(b'"', b"'"), "not valid JSON"),
    (b"/* */" + PLAIN, "not valid JSON"),
    (PLAIN[:-1] + b",}", "not valid JSON"),
    (PLAIN.replace(b"hello", b"a\nb"), "not valid JSON"),
    (PLAIN.replace(b"hello", b"a\x00b"), "not valid JSON"),
    (b"[" + PLAIN + b"]", "must be a JSON object"),
    (b'"hello"', "must be a JSON object"),
    (b"null", "must be a JSON object"),
    (b"5", "must be a JSON object"),
    (b'{"messages":[],"messages":[]}', 'The key "messages" appears more than once'),
    (b'{"messages":[{"role":"user","content":"a","content":"b"}]}', 'The key "content" appears'),
    (b'{"m\\u0065ssages":[],"messages":[]}', 'The key "messages" appears'),
    (PLAIN[:-1] + b',"x":[[{"k":{"a":1,"a":1}}]]}', 'The key "a" appears'),
    (PLAIN[:-1] + b',"temperature":NaN}', "NaN"),
    (PLAIN[:-1] + b',"temperature":Infinity}', "Infinity"),
    (PLAIN[:-1] + b',"x":[{"y":-Infinity}]}', "Infinity"),
    (PLAIN[:-1] + b',"temperature":1e999}', "too large"),
    (PLAIN[:-1] + b',"x":-1.5e400}', "too large"),
    (PLAIN[:-1] + b',"max_tokens":' + b"9" * 5_000 + b"}", "too many digits"),
    (PLAIN[:-1] + b',"x":' + b"9" * 1_000_000 + b"}", "too many digits"),
    (nested(MAX_DEPTH + 1), "deeper than 64 levels"),
    (PLAIN[:-1] + b',"x":' + b'{"a":' * 64 + b"1" + b"}" * 64 + b"}", "deeper than 64 levels"),
    (b"[" * 10_000_000, "deeper than 64 levels"),
    (b'{"a":' * 1_000_000, "deeper than 64 levels"),
    (b"[" * 50_000 + b"]" * 50_000, "deeper than 64 levels"),
    (b'{"messages":' + b"[" * 5_000 + b"]" * 5_000 + b"}", "deeper than 64 levels"),
    (PLAIN.replace(b"hello", b"\\ud800"), "surrogate"),
    (PLAIN.replace(b"hello", b"\\uDC00\\uD800"), "surrogate"),
    (PLAIN[:-1] + b',"x":{"\\udfff":1}}', "surrogate"),
]


@pytest.mark.parametrize(("body", "says"), UNREADABLE, ids=lambda value: repr(value[:40]))
def test_a_body_without_a_valid_json_object_is_refused_with_the_reason(body: bytes, says: str) -> None:
    refusal = refused(body)
    assert (refusal.code, refusal.param) == ("validation_failed", None)
    assert says in refusal.message


@pytest.mark.parametrize(
    "body",
    [
        nested(MAX_DEPTH),
        b"\n " + PLAIN + b"\r\n",
        PLAIN.replace(b"hello", "日本語 🎉 \u2028".encode()),
        PLAIN.replace(b"hello", b"\\ud83c\\udf89 \\u0000"),
        PLAIN.replace(b"hello", b"\\\\ud800 \\\\\\ud83c\\udf89"),
        PLAIN.replace(b"hello", b"[" * 10_000),
        PLAIN[:-1] + b',"x":[' + b"[]," * 10_000 + b"{}]}",
        PLAIN[:-1] + b',"x":1e308,"y":1e-999,"z":' + b"9" * 4_000 + b"}",
    ],
    ids=lambda body: repr(body[:60]),
)
def test_a_body_that_only_looks_odd_is_read(body: bytes) -> None:
    assert parse_chat_request(body).fields["messages"] == json.loads(body)["messages"]


def test_the_named_key_is_masked_and_bounded() -> None:
    key = "sk-fake-0000000000000000"
    assert key not in refused(f'{{"{key}":1,"{key}":2}}'.encode()).message
    assert len(refused(f'{{"{"k" * 500}":1,"{"k" * 500}":2}}'.encode()).message) < 200


def test_the_broken_text_is_never_repeated() -> None:
    assert SECRET not in refused(f'{{"messages": {SECRET}}}'.encode()).message


# --- any body ------------------------------------------------------------------------------------------

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.just("function"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "function", "name", "id"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)
BODIES = st.dictionaries(st.sampled_from(CONTRACT) | st.text(max_size=5), JSON_VALUES, max_size=6)


@given(body=BODIES, with_messages=st.booleans())
def test_any_object_is_read_as_it_is_or_refused_with_one_of_two_codes(
    body: dict[str, Any], with_messages: bool
) -> None:
    given_body = body | ({"messages": HELLO} if with_messages else {})
    outcome = read(json.dumps(given_body).encode())
    if isinstance(outcome, Refusal):
        assert outcome.code in ("bad_request", "validation_failed")
    else:
        kept = {
            key: value for key, value in given_body.items() if value is not None and key not in NAMED_APART
        }
        assert {**outcome.fields, **outcome.extras} == kept
        assert not set(outcome.extras) & set(CONTRACT)


@given(
    body=st.binary(max_size=60)
    | st.text(alphabet='{}[]",:messages\\ud810e+-NaN ', max_size=60).map(str.encode)
)
def test_any_bytes_are_read_or_refused_with_one_of_two_codes(body: bytes) -> None:
    outcome = read(body)
    assert isinstance(outcome, ChatRequest) or outcome.code in ("bad_request", "validation_failed")
