"""Chat requests: the contract's request and message tables, row by row, and invalid bodies."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from addon.calls.chat_request import ChatRequest, check_content_type, parse_chat_request
from addon.calls.chat_schema import MAX_FOUND_FAILURES
from addon.text.json_decode import MAX_DEPTH
from policies.refusal import Refusal

HELLO = [{"role": "user", "content": "hello"}]
FUNCTION = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
NAMED = {"type": "function", "function": {"name": "weather"}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
CUSTOM_CALL = {"id": "call_2", "type": "custom", "custom": {"name": "grep", "input": "x"}}
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}
SECRET = "a-private-word"


def encoded(**fields: Any) -> bytes:
    return json.dumps({"messages": HELLO} | fields).encode()


def read(body: bytes) -> ChatRequest | Refusal:
    try:
        return parse_chat_request(body)
    except Refusal as refusal:
        return refusal


def refused(body: bytes) -> Refusal:
    outcome = read(body)
    assert isinstance(outcome, Refusal)
    return outcome


# --- the request table ---------------------------------------------------------------------------------------

ANY_NUMBER = ([0, 1, 0.7, -3.5, 99, 1e300], ["1", True, [], {}, [1]])
COUNT = ([1, 2, 10**30], [0, -1, 1.0, 1.5, "1", True, False, [], 10.0])
BOOLEAN = ([True, False], [0, 1, "true", [], {}])

# field: (good values, bad values)
TABLE: dict[str, tuple[list[Any], list[Any]]] = {
    "messages": ([HELLO, HELLO * 50], ["hello", {"role": "user"}, 5, True, ["hello"], [[]], [None], [5]]),
    "model": (["gpt-4o-mini", "vendor/model:free", "模型"], ["", 5, [], {}, True]),
    "temperature": ANY_NUMBER,
    "presence_penalty": ANY_NUMBER,
    "frequency_penalty": ANY_NUMBER,
    "top_p": ([0.0001, 0.5, 1, 1.0], [0, 0.0, -0.1, 1.0001, 2, "0.5", True, []]),
    "max_tokens": COUNT,
    "max_completion_tokens": COUNT,
    "n": COUNT,
    "seed": ([0, -1, 42, 10**30], [1.0, 1.5, "42", True, []]),
    "top_logprobs": ([0, 5, 20, 99, -1], [1.0, "5", True, []]),
    "stop": (["END", "", ["END", "\n"], []], [5, [5], ["a", None], {}, True, [["a"]]]),
    "logprobs": BOOLEAN,
    "parallel_tool_calls": BOOLEAN,
    "stream": BOOLEAN,
    "tools": (
        [[], [FUNCTION], [NAMED, FUNCTION], [{"type": "web_search"}], [{"type": "custom", "custom": {}}]],
        [
            {}, "weather", ["weather"], [[]], [{}], [{"type": 5}], [{"type": ""}], [{"type": "function"}],
            [{"type": "function", "function": {}}], [{"type": "function", "function": {"name": ""}}],
            [{"type": "function", "function": {"name": 5}}], [{"type": "function", "function": "weather"}],
            [{"function": {"name": "weather"}}],
        ],
    ),
    "tool_choice": (
        ["auto", "none", "required", NAMED],
        [
            "any", "", "AUTO", 5, True, [], ["auto"], {}, {"type": "function"}, {"type": "auto"},
            {"function": {"name": "weather"}}, {"type": "function", "function": {}},
            {"type": "function", "function": {"name": ""}}, {"type": "function", "name": "weather"},
        ],
    ),
    "response_format": (
        [{"type": "json_object"}, {"type": "text"}, {"type": "json_schema", "json_schema": {"name": "x"}}],
        ["json", "json_object", {}, {"type": 5}, {"type": None}, [], True],
    ),
    "logit_bias": ([{}, {"50256": -100, "1": 0.5}], [[], [1], "x", {"1": "5"}, {"1": True}, {"1": None}]),
    "user": (["customer-7", "", "x" * 65], [5, True, [], {}]),
}  # fmt: skip

# Every field of the contract's request table, in its order.
CONTRACT = [
    "messages", "model", "temperature", "top_p", "max_tokens", "max_completion_tokens", "n", "presence_penalty",
    "frequency_penalty", "seed", "stop", "logprobs", "top_logprobs", "tools", "tool_choice", "parallel_tool_calls",
    "response_format", "stream", "logit_bias", "user",
]  # fmt: skip
GOOD = [(field, value) for field, (good, _) in TABLE.items() for value in good]
BAD = [(field, value) for field, (_, bad) in TABLE.items() for value in bad]
NAMED_APART = {"model", "stream", "max_tokens", "max_completion_tokens"}


def test_the_table_below_covers_the_contracts() -> None:
    assert sorted(TABLE) == sorted(CONTRACT)


@pytest.mark.parametrize(("field", "value"), GOOD)
def test_a_good_value_is_kept_as_it_was_sent(field: str, value: Any) -> None:
    request = parse_chat_request(encoded(**{field: value}))
    expected = {"messages": HELLO} | ({} if field in NAMED_APART else {field: value})
    assert repr(dict(request.fields)) == repr(expected)
    assert dict(request.extras) == {}


@pytest.mark.parametrize(("field", "value"), BAD)
def test_a_bad_value_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    refusal = refused(encoded(**{field: value}))
    assert refusal.code == "validation_failed"
    assert refusal.message.startswith(field)
    assert refusal.param is None or refusal.param.split(".")[0] == field


@pytest.mark.parametrize("field", [field for field in CONTRACT if field != "messages"])
def test_a_null_is_an_absent_field(field: str) -> None:
    with_null, without = (parse_chat_request(body) for body in (encoded(**{field: None}), encoded()))
    assert structs.replace(with_null, body_bytes=without.body_bytes) == without


# --- messages ------------------------------------------------------------------------------------------------

MESSAGES: dict[str, tuple[list[Any], list[Any]]] = {
    "role": (["system", "user", "assistant", "tool", "developer", "function", "ipython"], ["", 5, None, [], {}]),
    "content": (
        ["", "hello", None, [], [PICTURE], [{"type": "text", "text": "x"}, PICTURE], [{"type": "thinking"}]],
        [5, True, {}, {"type": "text", "text": "x"}, ["x"], [5], [{}], [{"type": 5}], [{"text": "x"}], [None]],
    ),
    "name": (["Ada", "", None], [5, True, []]),
    "tool_calls": (
        [None, [], [CALL], [CALL, CUSTOM_CALL], [CALL | {"index": 0}], [CALL | {"function": {"name": "x"}}]],
        [
            {}, "x", ["x"], [{}], [CALL | {"id": 5}], [CALL | {"type": 5}], [CALL | {"function": {}}],
            [CALL | {"function": {"name": "x", "arguments": {}}}], [{"id": "x", "type": "function"}],
            [{"type": "function", "function": {"name": "x"}}],
        ],
    ),
    "tool_call_id": (["call_1", "", None], [5, [], {}]),
}  # fmt: skip


@pytest.mark.parametrize("field, value", [(f, v) for f, (good, _) in MESSAGES.items() for v in good])  # noqa: PT006
def test_a_good_message_is_kept_as_it_was_sent(field: str, value: Any) -> None:
    messages = [{"role": "assistant", "content": "x", field: value, "prefix": True}]
    assert parse_chat_request(encoded(messages=messages)).fields["messages"] == messages


@pytest.mark.parametrize("field, value", [(f, v) for f, (_, bad) in MESSAGES.items() for v in bad])  # noqa: PT006
def test_a_bad_message_is_refused_by_its_place(field: str, value: Any) -> None:
    refusal = refused(encoded(messages=[*HELLO, {"role": "assistant", "content": "x", field: value}]))
    assert refusal.code == "validation_failed"
    assert refusal.message.startswith(f"messages.1.{field}")


def test_a_message_needs_a_role_and_nothing_else() -> None:
    assert parse_chat_request(encoded(messages=[{"role": "assistant"}]))
    assert refused(encoded(messages=[{"content": "x"}])).message == "messages.0.role: Field required"


@pytest.mark.parametrize("body", [b"{}", b'{"messages":[]}', b'{"messages":null}', b'{"messages":[],"n":0}'])
def test_without_messages_it_is_a_bad_request(body: bytes) -> None:
    refusal = refused(body)
    assert (refusal.code, refusal.param) == ("bad_request", "messages")
    assert "messages" in refusal.message


# --- the result ------------------------------------------------------------------------------------------


def test_a_request_is_split_into_fields_for_the_gateway_and_fields_to_send() -> None:
    body = encoded(
        model="m", stream=True, max_tokens=9, max_completion_tokens=7, user="u", seed=1, top_k=5, thinking=None
    )  # fmt: skip
    request = parse_chat_request(body)
    assert (request.model, request.stream, request.requested_cap, request.end_user) == ("m", True, 7, "u")
    assert dict(request.fields) == {"messages": HELLO, "seed": 1, "user": "u"}
    assert dict(request.extras) == {"top_k": 5}


def test_fields_that_are_not_set_are_absent() -> None:
    request = parse_chat_request(encoded())
    assert (request.model, request.stream, request.requested_cap, request.end_user) == (
        None,
        False,
        None,
        None,
    )
    assert (dict(request.fields), dict(request.extras)) == ({"messages": HELLO}, {})


@pytest.mark.parametrize(
    ("caps", "requested"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 5),
        ({"max_tokens": 6, "max_completion_tokens": 5}, 5),
        ({"max_tokens": None, "max_completion_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": None}, 5),
        ({"max_tokens": None, "max_completion_tokens": None}, None),
    ],
)
def test_the_requested_cap_is_the_smaller_of_the_two(caps: dict[str, Any], requested: int | None) -> None:
    assert parse_chat_request(encoded(**caps)).requested_cap == requested


# --- messages about invalid fields --------------------------------------------------------------------------

MESSAGE_TEXTS: list[tuple[dict[str, Any], str, str | None]] = [
    ({"temperature": "hot"}, "temperature: Input should be a valid number", "temperature"),
    ({"n": 0}, "n: Input should be greater than 0", "n"),
    ({"top_p": 2}, "top_p: Input should be less than or equal to 1", "top_p"),
    ({"seed": 1.0}, "seed: Input should be a valid integer", "seed"),
    ({"stream": "yes"}, "stream: Input should be a valid boolean", "stream"),
    ({"model": ""}, "model: String should have at least 1 character", "model"),
    ({"stop": [5]}, "stop: Input should be a string or an array of strings", "stop"),
    ({"tools": {}}, "tools: Input should be an array", "tools"),
    ({"tools": [5]}, "tools.0: Input should be an object", "tools.0"),
    ({"tools": [{"type": "function"}]}, "tools.0.function: Field required", "tools.0.function"),
    ({"messages": ["x"]}, "messages.0: Input should be an object", "messages.0"),
    ({"tool_choice": "any"}, "tool_choice: Input should be 'auto', 'none' or 'required'", "tool_choice"),
    (
        {"tool_choice": 5},
        "tool_choice: Input should be 'auto', 'none', 'required' or an object that names a function",
        "tool_choice",
    ),
    (
        {"messages": [{"role": "user", "content": 5}]},
        "messages.0.content: Input should be a string or an array of parts",
        "messages.0.content",
    ),
    (
        {"messages": [*HELLO, {"content": [{"type": "text"}, {}]}], "n": 0, "response_format": "json"},
        "messages.1.role: Field required; messages.1.content.1.type: Field required; "
        "n: Input should be greater than 0; response_format: Input should be an object",
        None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "message", "param"), MESSAGE_TEXTS)
def test_the_message_names_every_failing_field(
    fields: dict[str, Any], message: str, param: str | None
) -> None:
    refusal = refused(encoded(**fields))
    assert (refusal.message, refusal.param) == (message, param)


def test_twenty_failures_are_explained_and_the_rest_named() -> None:
    refusal = refused(encoded(messages=[{}] * 23))
    assert refusal.message.count("Field required") == 20
    named = "also messages.20.role, messages.21.role, messages.22.role"
    assert refusal.message.endswith(f"messages.19.role: Field required; {named}")
    assert refused(encoded(messages=[{}] * 20)).message.endswith("messages.19.role: Field required")


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [5] * (MAX_FOUND_FAILURES + 1)},
        {"messages": [{"role": "user", "content": [5] * (MAX_FOUND_FAILURES + 1)}]},
        {"messages": [{"role": "user", "tool_calls": [5] * (MAX_FOUND_FAILURES + 1)}]},
        {"messages": [{"role": "user", "content": [5] * 10}] * (MAX_FOUND_FAILURES // 10 + 1)},
        {"tools": [5] * (MAX_FOUND_FAILURES + 1)},
    ],
)
def test_validation_stops_after_a_thousand_failures(body: dict[str, Any]) -> None:
    refusal = refused(encoded(**body))
    assert (refusal.code, refusal.message) == ("validation_failed", "More than 1000 fields are invalid.")


def test_a_thousand_failures_are_still_named() -> None:
    message = refused(encoded(messages=[5] * MAX_FOUND_FAILURES)).message
    assert all(f"messages.{index}" in message for index in range(MAX_FOUND_FAILURES))
    assert len(message.encode()) < 32 * MAX_FOUND_FAILURES


@pytest.mark.parametrize("field", [field for field in CONTRACT if field not in ("user", "model", "stop")])
@pytest.mark.parametrize("value", [{SECRET: [SECRET]}, {"type": {"x": SECRET}, "role": {"x": SECRET}}])
def test_a_value_is_never_repeated(field: str, value: Any) -> None:
    refusal = refused(encoded(**{field: [value] if field in ("messages", "tools") else value}))
    assert SECRET not in f"{refusal.message}{refusal.param}"


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


# --- headers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        'Application/JSON ;charset="UTF-8"',
        "application/json;charset=utf8; x=y",
        " application/json;",
    ],
)
@pytest.mark.parametrize("content_encoding", [None, "", "identity", " Identity "])
def test_json_in_utf8_is_the_one_content_type(content_type: str, content_encoding: str | None) -> None:
    check_content_type(content_type, content_encoding)


@pytest.mark.parametrize(
    ("content_type", "content_encoding"),
    [
        (None, None),
        ("", None),
        ("text/plain", None),
        ("application/x-www-form-urlencoded", None),
        ("application/jsonl", None),
        ("application/json, text/plain", None),
        ("text/plain; application/json", None),
        ("application/json; charset=utf-16", None),
        ("application/json; charset=latin-1", None),
        ("application/json; charset", None),
        ("application/json", "gzip"),
        ("application/json", "identity, gzip"),
        ("application/json", "br"),
    ],
)
def test_every_other_content_type_is_unsupported(
    content_type: str | None, content_encoding: str | None
) -> None:
    with pytest.raises(Refusal) as raised:
        check_content_type(content_type, content_encoding)
    assert raised.value.code == "unsupported_media_type"


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


@settings(max_examples=200, deadline=None)
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


@settings(max_examples=150, deadline=None)
@given(
    body=st.binary(max_size=60)
    | st.text(alphabet='{}[]",:messages\\ud810e+-NaN ', max_size=60).map(str.encode)
)
def test_any_bytes_are_read_or_refused_with_one_of_two_codes(body: bytes) -> None:
    outcome = read(body)
    assert isinstance(outcome, ChatRequest) or outcome.code in ("bad_request", "validation_failed")
