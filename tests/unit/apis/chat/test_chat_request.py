"""Chat requests: the contract's request and message tables, row by row."""

from typing import Any

import pytest
from msgspec import structs
from rig.chat_requests import CONTRACT, HELLO, NAMED_APART, encoded, refused

from addon.apis.chat.request import parse_chat_request

FUNCTION = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
NAMED = {"type": "function", "function": {"name": "weather"}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
CUSTOM_CALL = {"id": "call_2", "type": "custom", "custom": {"name": "grep", "input": "x"}}
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}


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
GOOD = [(field, value) for field, (good, _) in TABLE.items() for value in good]
BAD = [(field, value) for field, (_, bad) in TABLE.items() for value in bad]


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


METADATA: dict[str, list[Any]] = {
    "good": [{}, {"a": "b"}, {"n" * 64: "é" * 512}, {str(n): "" for n in range(16)}],
    "bad": [
        *([], "x", {"a": 1}, {"a": None}, {"a": {}}, {"n" * 65: ""}, {"a": "x" * 513}),
        *({"a": "😀" * 3_000}, {str(n): "" for n in range(17)}),
    ],
}


@pytest.mark.parametrize("value", METADATA["good"])
def test_metadata_is_no_field_of_the_contract_and_kept(value: Any) -> None:
    request = parse_chat_request(encoded(metadata=value))
    assert (request.metadata, request.extras) == (value, {"metadata": value})


@pytest.mark.parametrize("value", METADATA["bad"])
def test_bad_metadata_is_refused_without_its_texts(value: Any) -> None:
    refusal = refused(encoded(metadata=value, temperature="x"))
    assert refusal.code == "validation_failed"
    assert refusal.message.endswith(
        "metadata: Input should be an object of at most 16 strings, each of at most 512 characters,"
        " with names of at most 64"
    )
    assert refused(encoded(metadata=value)).param == "metadata"


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
