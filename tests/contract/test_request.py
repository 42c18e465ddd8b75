"""Contract, "Chat request body" and "Message object": the fields that a client may send and the upstream receives."""

from typing import Any

import pytest
from conftest import Chat
from rig.scripts import whole
from rig.upstream import Upstream

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "strict": True,
    },
}
NAMED_TOOL = {"type": "function", "function": {"name": "weather"}}
JSON_SCHEMA = {
    "type": "json_schema",
    "json_schema": {"name": "x", "schema": {"type": "object"}, "strict": True},
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}

FORWARDED: list[tuple[str, Any]] = [
    ("temperature", 0),
    ("temperature", 0.3),
    ("temperature", 2),
    ("top_p", 0.0001),
    ("top_p", 1),
    ("n", 1),
    ("n", 2),
    ("presence_penalty", -2.0),
    ("presence_penalty", 1.5),
    ("frequency_penalty", -2.0),
    ("frequency_penalty", 1.5),
    ("seed", 42),
    ("seed", -1),
    ("stop", "END"),
    ("stop", ["END", "\n\n"]),
    ("logprobs", True),
    ("logprobs", False),
    ("tools", [TOOL]),
    ("parallel_tool_calls", False),
    ("response_format", {"type": "json_object"}),
    ("response_format", JSON_SCHEMA),
    ("logit_bias", {"50256": -100}),
    ("user", "customer-7"),
]


@pytest.mark.parametrize(("field", "value"), FORWARDED)
def test_a_field_of_the_contract_reaches_the_upstream_as_it_was_sent(
    chat: Chat, upstream: Upstream, field: str, value: Any
) -> None:
    others = (
        {"tools": [TOOL]} if field == "parallel_tool_calls" else {}
    )  # The gateway drops it when there are no tools.
    assert chat(model="tester-large", **others, **{field: value}).status_code == 200
    assert upstream.last.json()[field] == value


@pytest.mark.parametrize("value", [0, 5, 20])
def test_top_logprobs_reach_the_upstream_with_logprobs(chat: Chat, upstream: Upstream, value: int) -> None:
    assert chat(logprobs=True, top_logprobs=value).status_code == 200
    assert upstream.last.json()["top_logprobs"] == value


@pytest.mark.parametrize("choice", ["auto", "none", "required", NAMED_TOOL])
def test_every_form_of_tool_choice_reaches_the_upstream(chat: Chat, upstream: Upstream, choice: Any) -> None:
    assert chat(tools=[TOOL], tool_choice=choice).status_code == 200
    assert upstream.last.json()["tool_choice"] == choice


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens", "stop", "logit_bias"])
def test_null_is_accepted_where_the_contract_says_so_and_means_unset(
    chat: Chat, upstream: Upstream, field: str
) -> None:
    assert chat(**{field: None}).status_code == 200
    assert field == "max_completion_tokens" or upstream.last.json().get(field) is None


def test_only_messages_is_required_and_omitted_fields_stay_unset(chat: Chat, upstream: Upstream) -> None:
    assert chat().status_code == 200
    sent = upstream.last.json()
    assert set(sent) - {"stream"} == {"model", "messages", "max_completion_tokens"}
    assert not sent.get("stream")


def test_unknown_keys_are_ignored_and_go_nowhere(chat: Chat, upstream: Upstream) -> None:
    unknown = {
        "colour": "red",
        "web_search_options": {},
        "api_key": "x",
        "stream_options": {"a": 1},
        "é": [None],
    }
    assert chat(**unknown).status_code == 200
    assert not set(upstream.last.json()) & set(unknown)


DROPPED = {
    "metadata": {"a": "b"},
    "store": True,
    "functions": [{"name": "f"}],
    "function_call": "auto",
    "logit_bias": None,
    "stream_options": {"include_usage": False},
    "two words": 1,
    "messages": [{"role": "user", "content": "Hi", "reaction": "+1", "refusal": None}],
}
NAMED = "function_call, functions, messages.reaction, metadata, store, +1"


@pytest.mark.parametrize("stream", [False, True])
def test_a_header_names_the_dropped_fields(chat: Chat, upstream: Upstream, stream: bool) -> None:
    answer = chat(**DROPPED, stream=stream)
    assert (answer.status_code, answer.headers["x-gateway-dropped"]) == (200, NAMED)
    upstream.behave(whole({"error": {"message": "no"}}, status=400))
    refused = chat(**DROPPED, stream=stream)
    assert (refused.status_code, refused.headers["x-gateway-dropped"]) == (400, NAMED)


@pytest.mark.parametrize(
    "body", [{}, {"stream": True, "max_tokens": 5, "seed": None}, {"metadata": {}, "temperature": "hot"}]
)
def test_the_header_is_absent_when_nothing_was_dropped_or_routed(chat: Chat, body: dict[str, Any]) -> None:
    assert "x-gateway-dropped" not in chat(**body).headers


# --- messages ------------------------------------------------------------------------------------------------

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}}
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "every role of the contract": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain"},
    ],
    "a provider's own role": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ],
    "a speaker's name": [{"role": "user", "name": "Ada", "content": "Hi"}],
    "content in parts": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, IMAGE]}],
    "text in parts": [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}],
    "text with a tool call": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL, CALL | {"id": "call_2"}]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "Rain"}]},
        {"role": "tool", "tool_call_id": "call_2", "content": ""},
    ],
    "any text": [{"role": "user", "content": '日本語 ✓ 🎉 \u2028 \x00 " \\ </script> data: [DONE]\n\n'}],
    "no text": [{"role": "user", "content": ""}],
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_messages_reach_the_upstream_as_they_were_sent(chat: Chat, upstream: Upstream, name: str) -> None:
    answer = chat(messages=CONVERSATIONS[name])
    assert answer.status_code == 200, answer.text
    assert upstream.last.json()["messages"] == CONVERSATIONS[name]


# --- ranges --------------------------------------------------------------------------------------------------

CLAMPED: list[tuple[str, float, float]] = [
    ("temperature", 9, 2),
    ("temperature", -1, 0),
    ("presence_penalty", 5, 2),
    ("presence_penalty", -5, -2),
    ("frequency_penalty", 2.01, 2),
    ("frequency_penalty", -100, -2),
]


@pytest.mark.parametrize(("field", "given", "sent"), CLAMPED)
def test_a_value_outside_the_contracts_range_is_clamped(
    chat: Chat, upstream: Upstream, field: str, given: float, sent: float
) -> None:
    assert chat(**{field: given}).status_code == 200
    assert upstream.last.json()[field] == sent


@pytest.mark.parametrize(("given", "sent"), [(99, 20), (-3, 0)])
def test_top_logprobs_outside_their_range_are_clamped(
    chat: Chat, upstream: Upstream, given: int, sent: int
) -> None:
    assert chat(logprobs=True, top_logprobs=given).status_code == 200
    assert upstream.last.json()["top_logprobs"] == sent


# --- the completion cap --------------------------------------------------------------------------------------

LARGE, SMALL = ("tester-large", "max_completion_tokens", 16384), ("tester-small", "max_tokens", 100)
CAPS: list[tuple[tuple[str, str, int], dict[str, Any], int | None]] = [
    (LARGE, {}, None),
    (LARGE, {"max_tokens": 50}, 50),
    (LARGE, {"max_completion_tokens": 50}, 50),
    (LARGE, {"max_tokens": 50, "max_completion_tokens": 70}, 50),
    (LARGE, {"max_tokens": 70, "max_completion_tokens": 50}, 50),
    (LARGE, {"max_tokens": None, "max_completion_tokens": 50}, 50),
    (LARGE, {"max_tokens": 50, "max_completion_tokens": None}, 50),
    (LARGE, {"max_tokens": 16384}, 16384),
    (LARGE, {"max_tokens": 16385}, None),
    (LARGE, {"max_completion_tokens": 10**15}, None),
    (SMALL, {}, None),
    (SMALL, {"max_tokens": 1}, 1),
    (SMALL, {"max_completion_tokens": 99}, 99),
    (SMALL, {"max_completion_tokens": 101}, None),
    (SMALL, {"max_tokens": 200, "max_completion_tokens": 99}, 99),
    (SMALL, {"max_tokens": None, "max_completion_tokens": None}, None),
]


@pytest.mark.parametrize(("model", "asked", "wins"), CAPS)
def test_the_smallest_cap_is_sent_in_the_field_of_the_family(
    chat: Chat, upstream: Upstream, model: tuple[str, str, int], asked: dict[str, Any], wins: int | None
) -> None:
    slug, field, hard_maximum = model
    assert chat(model=slug, **asked).status_code == 200
    sent = upstream.last.json()
    caps = {name: sent[name] for name in ("max_tokens", "max_completion_tokens") if name in sent}
    assert caps == {field: wins or hard_maximum}


# --- the model, and streams ----------------------------------------------------------------------------------


def test_a_pinned_slug_is_sent_as_the_vendors_model_id(chat: Chat, upstream: Upstream) -> None:
    assert chat(model="tester-small").json()["model"] == "tester-small"
    assert upstream.last.json()["model"] == "vendor-small"


@pytest.mark.parametrize("body", [{}, {"model": "some-model-of-yesterday"}])
def test_no_model_or_a_hint_is_served_by_the_workspaces_default_model(
    chat: Chat, upstream: Upstream, body: dict[str, Any]
) -> None:
    assert chat(**body).json()["model"] == "tester-large"
    assert upstream.last.json()["model"] == "vendor/large-2026"


def test_a_stream_asks_the_upstream_for_usage(chat: Chat, upstream: Upstream) -> None:
    assert chat(stream=True, stream_options={"include_usage": False}).status_code == 200
    sent = upstream.last.json()
    assert sent["stream"] is True
    assert sent["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("body", [{}, {"stream": False}])
def test_a_whole_answer_asks_for_no_stream_options(
    chat: Chat, upstream: Upstream, body: dict[str, Any]
) -> None:
    assert chat(**body).json()["object"] == "chat.completion"
    assert "stream_options" not in upstream.last.json()
