"""The message and the param of a provider's error are found in any body."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from rig.error_answers import assert_contract_shape

from addon.text.errors import (
    upstream_error,
    upstream_error_in_success,
)
from addon.text.provider_error import MAX_SENTENCE_CHARS

KEY = "sk-fake-0000000000000000"


OPENROUTER_RAW = json.dumps({"error": {"message": "Too hot.", "param": "temperature", "code": None}})
DEBUG = 'Not here. [google.rpc.error_details_ext] { message: "Not here." }'
WORDINGS: list[tuple[str, Any, str]] = [
    ("an object", {"error": {"message": "Too long.", "type": "x", "code": None}}, "Too long."),
    ("a string", {"error": "Too long."}, "Too long."),
    ("a code next to a string", {"code": "Client specified", "error": "Too long."}, "Too long."),
    ("a code as an integer", {"error": {"code": 400, "message": "Too long."}}, "Too long."),
    ("wrapped in an array", [{"error": {"code": 400, "message": "Too long."}}], "Too long."),
    ("flat", {"object": "error", "message": "Too long.", "type": "x", "code": "3051"}, "Too long."),
    ("a message alone", {"message": "Too long."}, "Too long."),
    ("a phrase and a message", {"error": "Bad Request", "message": "Too long."}, "Too long."),
    ("an error that is true", {"error": True, "message": "Too long."}, "Too long."),
    ("detail", {"detail": "Too long."}, "Too long."),
    ("detail in an object", {"detail": {"message": "Too long."}}, "Too long."),
    (
        "detail in a list",
        {
            "detail": [
                {"loc": ["body", "messages", 0], "msg": "Too long."},
                {"loc": ["n"], "msg": "Too big."},
            ]
        },
        "messages.0: Too long.; n: Too big.",
    ),
    (
        "a message in an object",
        {"object": "error", "message": {"detail": [{"loc": ["body", "n"], "msg": "Too big."}]}},
        "n: Too big.",
    ),
    ("fault", {"fault": {"faultstring": "Too long.", "detail": {"errorcode": "x"}}}, "Too long."),
    (
        "two messages in one fault",
        {"fault": {"detail": "policies.Quota", "faultstring": "Too long."}},
        "Too long.",
    ),
    ("errors in a list", {"errors": [{"message": "Too long.", "code": 3043}], "success": False}, "Too long."),
    ("strings in a list", {"errors": ["Too long.", "Too hot."]}, "Too long.; Too hot."),
    ("an OAuth description", {"error_description": "Too long."}, "Too long."),
    (
        "another provider behind it",
        {"error": {"message": "Provider returned error", "metadata": {"raw": OPENROUTER_RAW}}},
        "Too hot.",
    ),
    (
        "another provider behind it in plain words",
        {"error": {"message": "Provider returned error", "metadata": {"raw": "Too busy."}}},
        "Too busy.",
    ),
    (
        "another provider behind it says nothing",
        {"error": {"message": "Provider returned error", "metadata": {"raw": "{}"}}},
        "Provider returned error",
    ),
    ("JSON in the message", {"error": {"message": OPENROUTER_RAW}}, "Too hot."),
    ("JSON after other words", {"error": {"message": f"Error code: 400 - {OPENROUTER_RAW}"}}, "Too hot."),
    ("JSON in a string", OPENROUTER_RAW, "Too hot."),
    (
        "a template that was not filled in, before words for programmers",
        {"error": {"message": "$grpcMessage", "details": [{"detail": f"[ORIGINAL ERROR] generic::x: {DEBUG}"}]}},
        "Not here.",
    ),
    ("a string as the body", "Too long.", "Too long."),
    ("brackets that are words", {"error": {"message": "[json.exception] must be x"}}, "[json.exception] must be x"),
    ("a status in brackets", {"error": {"message": "[400] Too long."}}, "[400] Too long."),
    ("a number in brackets", {"message": "[12] Too long: [1, 2]"}, "[12] Too long: [1, 2]"),
    ("two brackets", {"error": {"message": "[[fail:9]] takes no value."}}, "[[fail:9]] takes no value."),
    ("brackets in a row", {"error": "[429] [rate] Too long."}, "[429] [rate] Too long."),
    ("JSON after brackets", {"error": {"message": f"[400] {OPENROUTER_RAW}"}}, "Too hot."),
    ("angles that are words", {"error": {"message": "<400> Bad.Parameter: no"}}, "<400> Bad.Parameter: no"),
    ("quotes that are words", {"error": {"message": '"gpt" is unknown'}}, '"gpt" is unknown'),
    ("white space", {"error": {"message": " Too\n\t long.\r\n * So\u2028there "}}, "Too long. * So there"),
    ("control characters", {"error": {"message": "Too\x00long\x1b[31m."}}, "Too long [31m."),
    ("half a character", {"error": {"message": "Too \ud83d long."}}, "Too ? long."),
    ("anything but ASCII", {"error": {"message": "参数错误 🎉"}}, "参数错误 🎉"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), [row[1:] for row in WORDINGS], ids=[row[0] for row in WORDINGS])
def test_the_message_is_found_in_a_body_and_in_a_payload(body: Any, message: str) -> None:
    assert upstream_error(400, json.dumps(body).encode()).message == message
    assert upstream_error_in_success(body).message == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"upstream connect error", "upstream connect error"),
        (b"\xef\xbb\xbf" + b'{"error":"Too long."}', "Too long."),
        (b"\xef\xbb\xbf" + b'{"message":"Too long."}', "Too long."),
        (b'\n\n  {"error":"Too long."}\n', "Too long."),
        (b'data: {"error": {"message": "Too long."}}\n\n', "Too long."),
        (b'event: error\ndata: {"type": "error", "error": {"message": "Too long."}}\n\n', "Too long."),
        (b'{"error":"First."}\n{"error":"Second."}', "First."),
        (b"<html><head><title>502 Bad Gateway</title></head><body>x</body></html>", "502 Bad Gateway"),
        (
            b'<!DOCTYPE html>\n<HTML><TITLE lang="en">\nNo &amp; never\n</TITLE><script>{"error":"x"}</script>',
            "No & never",
        ),
        (b'<?xml version="1.0"?><e><title>Gone</title></e>', "Gone"),
    ],
)
def test_the_message_is_found_in_bodies_that_are_not_quite_json(body: bytes, message: str) -> None:
    assert upstream_error(503, body).message == message


WITHOUT_MESSAGE: list[bytes] = [
    b"",
    b" \n",
    b"null",
    b"5",
    b"true",
    b"{}",
    b"[]",
    b'""',
    b"[1, 2",
    b"[400]",
    b'[400] {"a": "b',
    b'[[1, "a',
    b'{"error": {"mess',
    b'{"error": null}',
    b'{"error": {}}',
    b'{"error": {"message": ""}}',
    b'{"error": {"message": " \\n "}}',
    b'{"error": {"message": {"a": [1]}}}',
    b'{"error": {"code": 5, "type": "x"}}',
    b'{"error": "[object Object]"}',
    b'"[object Object]"',
    b'{"error": {"message": "$grpcMessage"}}',
    b'{"message": "${error}"}',
    b"{'error': {'message': 'Python, not JSON'}}",
    b"undefined",
    b"\xff\xfe\xfd\x00",
    b"Service ferm\xe9",
    b'{"error":"Service ferm\xe9"}',
    b"<html><body><h1>Oops</h1></body></html>",
    b"<html><title></title></html>",
    b"<html><title>cut",
    b"[" * 100_000,
    b'{"error":' * 50_000 + b'"x"' + b"}" * 50_000,
    b'{"error":' * 50_000,
    b'{"error": {"message": ' + b"9" * 5_000 + b"}}",
    b'{"error": "' + b"x" * (1 << 20) + b'"}',
]


@pytest.mark.parametrize("body", WITHOUT_MESSAGE, ids=lambda body: repr(body[:30]))
def test_without_a_message_a_general_one_names_the_status(body: bytes) -> None:
    answer = upstream_error(503, body)
    assert answer.message == "The provider reported an error (status 503) without a readable explanation."
    assert_contract_shape(answer)


@pytest.mark.parametrize("wrap", [lambda inner: {"error": inner}, lambda inner: [inner]])
def test_a_payload_too_deep_for_recursion_has_no_message(wrap: Callable[[Any], Any]) -> None:
    payload: Any = "at the bottom"
    for _ in range(100_000):
        payload = wrap(payload)
    assert upstream_error_in_success(payload).message.endswith("without a readable explanation.")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"error": {"message": "m", "param": "top_p"}}, "top_p"),
        ({"error": {"message": "m", "param": None}}, None),
        ({"error": {"message": "m", "param": 5}}, None),
        ({"error": {"message": "m", "param": ""}}, None),
        ({"error": {"message": "m", "param": ["top_p"]}}, None),
        ({"message": "m", "param": "top_p"}, "top_p"),
        ([{"error": {"message": "m", "param": "top_p"}}], "top_p"),
        ({"error": {"message": "x", "metadata": {"raw": OPENROUTER_RAW}}}, "temperature"),
        ({"error": {"message": "m", "param": "a\nb"}}, "a b"),
        ({"error": {"message": "m", "param": KEY}}, "***"),
        ({"error": {"message": "m", "param": "x" * 500}}, "x" * 199 + "…"),
    ],
)
def test_the_param_is_kept_when_it_is_a_string(body: Any, param: str | None) -> None:
    assert upstream_error(400, json.dumps(body).encode()).param == param


def test_text_beyond_the_bound_is_not_read() -> None:
    message = "No." + " " * MAX_SENTENCE_CHARS + "[google.rpc.error_details_ext] and more"
    assert upstream_error(400, json.dumps({"error": {"message": message}}).encode()).message == "No."


def test_a_character_reference_of_endless_digits_is_not_read() -> None:
    answer = upstream_error(502, b"<html><title>Busy &#" + b"9" * 9_000 + b";</title>")
    assert answer.code == "upstream_error"
