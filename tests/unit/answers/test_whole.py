"""A whole answer keeps every byte except its model, and explains why an empty answer is billed."""

import json
from decimal import Decimal

import pytest
from rig.answer_shape import strict_json
from rig.relayed_streams import DONE, relay

from addon.answers.context import AnswerContext
from addon.answers.whole import BILLING_NOTE, rewrite_answer
from addon.dialects import openai
from addon.text.errors import ErrorAnswer
from policies.family import Family
from policies.usage import Usage

SLUG = "house/slug"
SOURCE = AnswerContext(SLUG, Family("plain"), {"up": SLUG})
NOTE = json.dumps(BILLING_NOTE).encode()


def answer(message: str, usage: str = '{"prompt_tokens":1,"completion_tokens":10,"cost":1.50e-3}') -> bytes:
    return (
        f'{{"id":"x","object":"chat.completion","created":1,"model":"up","usage":{usage},\n '
        f'"choices":[{{"index":0,"message":{message},"finish_reason":"length"}}]}}'
    ).encode()


def with_role(message: str) -> str:
    """Return the message as providers send it; the cases leave out the role."""
    return (
        message
        if '"role"' in message
        else message.replace("{", '{"role":"assistant",', 1).replace(", }", "}")
    )


CHOICE = b'{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"model":"up",%b}', b'{"model":"house/slug",%b}'),
        (b'\n   \n\n{%b, "model":"up"}\n', b'\n   \n\n{%b, "model":"house/slug"}\n'),
        (b'\xef\xbb\xbf{"model":"up",%b}', b'\xef\xbb\xbf{"model":"house/slug",%b}'),
        (b"{%b}", b'{"model":"house/slug",%b}'),
        (b'{"model":null,%b,"error":null}', b'{"model":"house/slug",%b,"error":null}'),
    ],
)
def test_only_the_model_changes(before: bytes, after: bytes) -> None:
    rest = b'"id":"x","object":"chat.completion","created":1,"choices":[%b]' % CHOICE
    result = rewrite_answer(before % rest, SOURCE)
    assert result.body == after % rest
    assert result.failure is None


@pytest.mark.parametrize(
    "body", [b'{"model":"up","choices":[]}', b'{"choices":[],"usage":{"total_tokens":3}}']
)
def test_an_answer_without_a_choice_is_not_a_completion(body: bytes) -> None:
    result = rewrite_answer(body, SOURCE)
    assert result.failure
    assert (result.failure.status, result.body, result.usage) == (502, b"", None)


def test_only_choices_that_need_a_change_do() -> None:
    before = (
        b'{"id":"x","created":1,"object":"text_completion","model":"up","choices":[{"text":"hi","finish_reason":"eos"}],'
        b'"usage":{"prompt_tokens":1,"completion_tokens":1.0e0}}'
    )
    after = rewrite_answer(before, SOURCE).body
    assert after.startswith(
        b'{"id":"x","created":1,"object":"chat.completion","model":"house/slug","choices":['
    )
    assert after.endswith(b'],"usage":{"prompt_tokens":1,"completion_tokens":1.0e0}}')
    (choice,) = json.loads(after)["choices"]
    assert (choice["message"], choice["finish_reason"]) == ({"role": "assistant", "content": "hi"}, "stop")


@pytest.mark.parametrize(
    "head", [{}, {"id": None, "created": None, "object": None}, {"id": "", "object": ""}]
)
def test_missing_members_of_the_head_are_added(head: dict[str, object]) -> None:
    body = json.dumps(head | {"choices": [{"message": {"tool_calls": [{"function": {"name": "f"}}]}}]})
    sources = [
        AnswerContext(SLUG, Family("plain"), created_s=17, answer_id=f"chatcmpl-{call}") for call in "ab"
    ]
    first, second = (json.loads(rewrite_answer(body.encode(), source).body) for source in sources)
    assert (first["id"], first["object"], first["created"]) == ("chatcmpl-a", "chat.completion", 17)
    assert second["id"] == "chatcmpl-b"
    ids = [made["choices"][0]["message"]["tool_calls"][0]["id"] for made in (first, second)]
    assert ids[0] != ids[1], "an id of a call is made, and no other answer has the same"


def test_the_facts_of_an_answer_are_read() -> None:
    result = rewrite_answer(answer('{"role":"assistant","content":"hi"}'), SOURCE)
    assert (result.usage, result.finish_reason, result.text_chars) == (
        Usage(1, 10, reported_nanousd=1_500_000),
        "length",
        2,
    )
    assert (
        rewrite_answer(b'{"choices":[{"text":"abc"},{"message":{"reasoning":"d"}}]}', SOURCE).text_chars == 4
    )
    assert rewrite_answer(b'{"choices":[{"finish_reason":7}]}', SOURCE).finish_reason == "7"
    assert rewrite_answer(b'{"choices":[{"finish_reason":""}]}', SOURCE).finish_reason is None
    assert rewrite_answer(b'{"choices":[]}', SOURCE).usage is None


@pytest.mark.parametrize(
    ("message", "noted"),
    [
        ('{"role":"assistant","content":""}', '{"reasoning_content":%s,"role":"assistant","content":""}'),
        ('{"content":null, "reasoning_content":null}', '{"content":null, "reasoning_content":%s}'),
        ('{"content":null,"reasoning_content": "" }', '{"content":null,"reasoning_content": %s }'),
        ("{ }", '{"reasoning_content":%s }'),
        ('{"content":[]}', '{"reasoning_content":%s,"content":""}'),
        (
            '{"content":[{"type":"text","text":""}],"tool_calls":[],"audio":null}',
            '{"reasoning_content":%s,"content":"","audio":null}',
        ),
        (
            '{"content":"","x":{"reasoning_content":"deeper"}}',
            '{"reasoning_content":%s,"content":"","x":{"reasoning_content":"deeper"}}',
        ),
    ],
)
def test_an_empty_answer_that_used_tokens_gets_a_note(message: str, noted: str) -> None:
    result = rewrite_answer(answer(with_role(message)), SOURCE)
    expected = answer(with_role(noted % NOTE.decode())).replace(b'"up"', b'"house/slug"')
    assert json.loads(result.body) == json.loads(expected)
    before_choices = expected.index(b'"choices"')
    assert result.body[:before_choices] == expected[:before_choices], (
        "what is outside choices keeps its bytes"
    )
    assert BILLING_NOTE in json.dumps(json.loads(result.body))


@pytest.mark.parametrize(
    "message",
    [
        '{"content":"x"}',
        '{"content":" "}',
        '{"content":"","reasoning_content":"x"}',
        '{"content":"","reasoning":"x"}',
        '{"content":"","reasoning_details":[{"type":"reasoning.text","text":"x"}]}',
        '{"content":"","refusal":"x"}',
        '{"content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":""}}]}',
        '{"content":null,"function_call":{"name":"f","arguments":""}}',
        '{"content":null,"audio":{"id":"a"}}',
        '{"content":"","images":[{"type":"image_url"}]}',
        '{"content":{"name":"Emily"}}',
        '{"content":[{"type":"image_url","image_url":{"url":"x"}}]}',
        '{"content":[{"type":"thinking","thinking":[{"type":"text","text":"x"}]}]}',
    ],
)
def test_an_answer_that_shows_something_gets_no_note(message: str) -> None:
    assert BILLING_NOTE.encode() not in rewrite_answer(answer(with_role(message)), SOURCE).body


@pytest.mark.parametrize("usage", ["null", "{}", '{"completion_tokens":0}', '{"prompt_tokens":5}'])
def test_an_empty_answer_without_tokens_gets_no_note(usage: str) -> None:
    body = answer(with_role('{"content":""}'), usage)
    assert rewrite_answer(body, SOURCE).body == body.replace(b'"up"', b'"house/slug"')


def test_only_the_empty_choices_get_the_note() -> None:
    body = (
        b'{"model":"up","usage":{"completion_tokens":3},"choices":['
        b'{"message":{"content":"hi"}}, {"message":{"content":""}} ,{"message":{}}]}'
    )
    choices = json.loads(rewrite_answer(body, SOURCE).body)["choices"]
    notes = [choice["message"].get("reasoning_content") for choice in choices]
    assert notes == [None, BILLING_NOTE, BILLING_NOTE]


def test_the_last_of_repeated_members_gets_the_note() -> None:
    body = (
        b'{"model":"up","usage":{"completion_tokens":3},"choices":[{"message":{"content":"old"}}],'
        b'"choices":[{"message":{"content":"older"},"message":{"content":""}}]}'
    )
    message = json.loads(rewrite_answer(body, SOURCE).body)["choices"][0]["message"]
    assert message == {"role": "assistant", "reasoning_content": BILLING_NOTE, "content": ""}


def test_the_note_leaves_the_digits_of_usage() -> None:
    result = rewrite_answer(answer('{"content":""}'), SOURCE)
    assert json.loads(result.body, parse_float=Decimal)["usage"]["cost"].as_tuple() == (0, (1, 5, 0), -5)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  \n ",
        b"<!doctype html><title>secret detail</title>",
        b'{"choices":[',
        b'{"choices":[]} trailing',
        b'{"choices":[],"a":"\xff"}',
        b"[" * 100_000,
        b'"secret detail"',
        b"null",
        b"[]",
        b"{}",
        b'{"id":"x","model":"up"}',
        b'{"choices":null}',
        b'{"status":"OK","data":{"choices":[]}}',
    ],
)
def test_a_body_that_is_not_a_completion_becomes_an_upstream_error(body: bytes) -> None:
    result = rewrite_answer(body, SOURCE)
    assert result.failure is not None
    assert (result.failure.status, result.failure.code) == (502, "upstream_error")
    assert result.body == b""
    assert "secret" not in result.failure.message


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"model up is busy","code":502}}',
        b'\n \n{"error":{"message":"model up is busy"}}',
        b'[{"error":{"message":"model up is busy"}}]',
        b'{"code":"x","error":"model up is busy"}',
        b'{"error":{"message":"model up is busy"},"choices":[]}',
    ],
)
def test_an_error_under_a_200_is_normalized_without_the_upstream_name(body: bytes) -> None:
    result = rewrite_answer(body, SOURCE)
    assert result.failure is not None
    assert result.failure.status >= 400
    assert result.failure.message == "model house/slug is busy"
    assert result.body == b""


@pytest.mark.parametrize("escape", [r"\ud800", r"\ud83d\ude00", r"\u00e9"])
def test_a_long_answer_is_read_like_a_short_one(escape: str) -> None:
    long = '{"role":"assistant","content":"%s"}' % (escape + "a" * 100_000)
    body = answer(long)
    made = rewrite_answer(body, SOURCE)
    assert made.failure is None
    assert escape.encode() in made.body
    assert made.text_chars == len(json.loads(f'"{escape}"')) + 100_000


@pytest.mark.parametrize(
    "choices",
    [
        '["x"]',
        "[null]",
        "[5]",
        "[[]]",
        '[{"message":{"content":5}}]',
        '[{"message":{"content":true}}]',
        '[{"message":{"content":[5]}}]',
        '[{"message":{"content":"a","role":5}}]',
        '[{"message":{"tool_calls":[5]}}]',
        '[{"message":{"tool_calls":{"a":1}}}]',
        '[{"message":{"tool_calls":[{"id":"a","function":{"name":5}}]}}]',
        '[{"message":{"content":"a"}}, null]',
        '[{"message":{"content":"a"},"logprobs":{"content":[{"logprob":NaN}]}}]',
        '[{"message":{"content":"a"},"x":-Infinity}]',
        '[{"message":{"tool_calls":[{"id":1e999,"function":{"name":"f"}}]}}]',
        '[{"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"a":1e999}}}]}}]',
    ],
)
def test_choices_of_wrong_types_are_no_answer(choices: str) -> None:
    whole = rewrite_answer(b'{"choices":%b}' % choices.encode(), SOURCE)
    assert whole.failure
    assert (whole.failure.status, whole.failure.code, whole.body) == (502, "upstream_error", b"")
    streamed = relay(b'data: {"choices":%b}\n\n' % choices.replace("message", "delta").encode(), DONE)
    assert isinstance(streamed.failure, ErrorAnswer)
    assert (streamed.failure.status, streamed.failure.code) == (502, "upstream_error")


def test_a_log_probability_of_minus_infinity_is_openais_own_value() -> None:
    token = b'"token":"\\"logprob\\":-Infinity","logprob": -Infinity,"top_logprobs":[{"logprob":-Infinity}]'
    logprobs = b'{"content":[{%b}]}' % token
    reader = openai.whole(SOURCE, 10_000)
    reader.feed(
        b'{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"logprobs":%b}]}' % logprobs
    )
    whole = strict_json(reader.finish())
    streamed = relay(
        b'data: {"choices":[{"index":0,"delta":{"content":"a"},"logprobs":%b,"finish_reason":"stop"}]}\n\n'
        % logprobs,
        DONE,
    )
    chunk, *_ = streamed.out.split(b"\n\n")
    for made in (whole, strict_json(chunk.removeprefix(b"data: "))):
        assert made["choices"][0]["logprobs"]["content"][0] == {
            "token": '"logprob":-Infinity',
            "logprob": -9999.0,
            "top_logprobs": [{"logprob": -9999.0}],
        }
