"""Rules that hold for every dialect and shipped family, from the chat request to the native one and back."""

import json
from typing import Any

import pytest
from openai._models import construct_type
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from rig.sent import sent, shipped_families

from addon.answers.context import AnswerContext
from addon.dialects import DIALECTS
from policies.refusal import Refusal

USER = {"role": "user", "content": "x"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
SLUG = "house/slug"


def body_of(family: str, dialect: str, **fields: Any) -> dict[str, Any]:
    return sent({"messages": [USER]} | fields, shipped_families()[family], dialect)[0]


def called(call_id: str, arguments: str = "{}") -> list[dict[str, Any]]:
    call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}
    result = {"role": "tool", "tool_call_id": call_id, "content": "1"}
    return [USER, {"role": "assistant", "tool_calls": [call]}, result]


def joined_choice(dialect: str, family: str, *events: dict[str, Any]) -> Any:
    """Return the first choice of a stream as the official SDK joins it."""
    relay = DIALECTS[dialect].stream(AnswerContext(SLUG, shipped_families()[family], choices=1))
    out = relay.feed(b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in events)) + relay.finish()
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    for line in out.split(b"\n"):
        if line.startswith(b"data: {"):
            state.handle_chunk(construct_type(type_=ChatCompletionChunk, value=json.loads(line[6:])))
    return state.current_completion_snapshot.choices[0]


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": choices}


# Requests.


@pytest.mark.parametrize(
    ("dialect", "family"), [("openai", "vllm"), ("anthropic", "claude"), ("gemini", "gemini")]
)
@pytest.mark.parametrize("url", ["https://a.test/b.png", "data:image/png;base64,aGk="])
def test_a_picture_may_be_a_bare_url_in_every_dialect(dialect: str, family: str, url: str) -> None:
    bare, usual = (
        body_of(
            family,
            dialect,
            messages=[{"role": "user", "content": [{"type": "image_url", "image_url": image}]}],
        )
        for image in (url, {"url": url})
    )
    assert bare == usual


# Streams.


def test_a_repeated_role_is_sent_once() -> None:
    parts = [chunk({"role": "assistant", "content": text}) for text in "abc"]
    got = joined_choice("openai", "openrouter", *parts, chunk({"role": "assistant", "content": ""}, "stop"))
    assert (got.message.role, got.message.content) == ("assistant", "abc")


def test_named_calls_at_one_index_without_ids_stay_apart() -> None:
    calls = [
        {"index": 0, "id": "", "type": "function", "function": {"name": name, "arguments": arguments}}
        for name, arguments in (("weather", '{"a":1}'), ("time", '{"a":2}'), ("time", '{"a":3}'))
    ]
    first = chunk({"role": "assistant", "tool_calls": calls[:2]})
    got = joined_choice("openai", "vertex", first, chunk({"tool_calls": calls[2:]}), chunk({}, "stop"))
    called = [(call.function.name, call.function.arguments) for call in got.message.tool_calls]
    assert called == [("weather", '{"a":1}'), ("time", '{"a":2}'), ("time", '{"a":3}')]


def test_signatures_of_a_text_are_not_joined() -> None:
    def said(text: str, signature: str, **more: Any) -> dict[str, Any]:
        parts = [{"text": text, "thoughtSignature": signature}]
        return {"responseId": "r", "candidates": [{"index": 0, "content": {"parts": parts}, **more}]}

    got = joined_choice("gemini", "gemini", said("a", "QUFB"), said("b", "QkJC", finishReason="STOP"))
    assert got.message.model_dump()["extra_content"]["google"]["thought_signature"] == "QkJC"


@pytest.mark.parametrize(
    ("dialect", "family", "raw"),
    [
        (
            "gemini",
            "gemini",
            b'{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP","avgLogprobs":-1e999}]}',
        ),
        (
            "openai",
            "groq",
            b'{"id":"c","choices":[{"index":0,"message":{"role":"assistant","reasoning":"r","content":"a","x":1e999},'
            b'"finish_reason":"stop"}]}',
        ),
    ],
)
def test_a_number_too_large_for_a_float_gives_valid_json(dialect: str, family: str, raw: bytes) -> None:
    relay = DIALECTS[dialect].whole(AnswerContext(SLUG, shipped_families()[family]), 10**6)
    assert relay.feed(raw) + relay.finish() == b""
    assert relay.failure is not None
    assert relay.failure.code == "upstream_error"


# Requests.


@pytest.mark.parametrize(
    ("family", "tool"),
    [
        ("glm", {"type": "web_search", "web_search": {"enable": True}}),
        ("groq", {"type": "browser_search"}),
        ("openrouter", {"type": "openrouter:web_search"}),
        ("kimi", {"type": "builtin_function", "function": {"name": "$web_search"}}),
        ("grok", {"type": "live_search"}),
        ("claude", {"type": "web_search_20250305", "name": "web_search"}),
        ("gemini", {"type": "google_search"}),
    ],
)
def test_tools_that_the_provider_runs_are_refused_by_name(family: str, tool: dict[str, Any]) -> None:
    dialect = {"claude": "anthropic", "gemini": "gemini"}.get(family, "openai")
    with pytest.raises(Refusal, match=r"tools\.0\.type") as refused:
        body_of(family, dialect, tools=[tool])
    assert refused.value.param == "tools.0.type"


@pytest.mark.parametrize(
    "url",
    [
        "https://generativelanguage.googleapis.com/v1beta/files/abc-123",
        "https://STORAGE.googleapis.com./bucket/x.png",
        "gs://bucket/x.png",
        "https:///x.png",
    ],
)
def test_files_of_the_gateways_own_account_are_refused(url: str) -> None:
    part = {"type": "image_url", "image_url": {"url": url}}
    with pytest.raises(Refusal, match=r"messages\.0\.content\.0"):
        body_of("gemini", "gemini", messages=[{"role": "user", "content": [part]}])


def test_a_blank_last_message_is_refused() -> None:
    talk = [USER, {"role": "assistant", "content": "b"}, {"role": "user", "content": " "}]
    with pytest.raises(Refusal, match=r"messages\.2\.content"):
        body_of("claude", "anthropic", messages=talk)


def test_the_beginning_of_an_answer_has_no_white_space_at_its_end() -> None:
    talk = [USER, {"role": "assistant", "content": "Sure \n"}]
    made = body_of("claude-sampling", "anthropic", messages=talk)
    assert made["messages"][1]["content"] == [{"type": "text", "text": "Sure"}]


@pytest.mark.parametrize("user", ["jane@example.com", "+49 151 2345678", "u" * 300])
def test_claude_gets_a_hash_of_a_personal_user_id(user: str) -> None:
    made = body_of("claude", "anthropic", user=user)["metadata"]["user_id"]
    assert made != user
    assert len(made) == 64
    assert body_of("claude", "anthropic", user="customer-7")["metadata"] == {"user_id": "customer-7"}


@pytest.mark.parametrize("fields", [{"tool_choice": "none"}, {"tools": [], "tool_choice": "auto"}])
def test_a_tool_choice_without_tools_is_left_out(fields: dict[str, Any]) -> None:
    assert "toolConfig" not in body_of("gemini", "gemini", **fields)
    assert "tool_choice" not in body_of("claude", "anthropic", **fields)


@pytest.mark.parametrize("arguments", ['{"x":1e999}', '{"a":"\\ud800"}', '{"a":NaN}', '{"a":1,"a":2}'])
@pytest.mark.parametrize(("family", "dialect"), [("claude", "anthropic"), ("gemini", "gemini")])
def test_arguments_that_are_not_json_are_refused_by_name(family: str, dialect: str, arguments: str) -> None:
    with pytest.raises(Refusal, match=r"messages\.1\.tool_calls\.0\.function\.arguments"):
        body_of(family, dialect, messages=called("a", arguments))


def test_a_long_id_is_shortened_to_openais_forty_characters() -> None:
    made = body_of("openai-chat", "openai", messages=called("tool_0_structured_output_ULTxOlX9inE8oleZ6ois"))
    (call,) = made["messages"][1]["tool_calls"]
    assert len(call["id"]) <= 40
    assert made["messages"][2]["tool_call_id"] == call["id"]
    assert body_of("openai-chat", "openai", messages=called("call_1"))["messages"] == called("call_1")


def test_gemini_2_does_not_get_tools_with_json_mode() -> None:
    with pytest.raises(Refusal, match=r"response_format: .* together with tools"):
        body_of("gemini-2", "gemini", tools=TOOLS, response_format={"type": "json_object"})
    with pytest.raises(Refusal) as refused:
        body_of("gemini-2", "gemini", tools=TOOLS, response_format={"type": "a value of the client's"})
    assert "value" not in refused.value.message
    assert body_of("gemini-2", "gemini", tools=TOOLS, response_format={"type": "text"})["tools"]
