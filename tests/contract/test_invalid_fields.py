"""Contract, "Chat request body": a field with a wrong type, or without its value, is refused by its name."""

from typing import Any

import httpx
import pytest
from conftest import Chat
from rig.upstream import Upstream

NOT_INTEGERS_ABOVE_ZERO = [0, -1, 1.5, "5", True, []]
WRONG: list[tuple[str, Any]] = [
    ("messages", "hello"),
    ("messages", {"role": "user", "content": "hello"}),
    ("messages", ["hello"]),
    ("messages", [{"content": "no role"}]),
    ("messages", [{"role": 5, "content": "x"}]),
    ("messages", [{"role": "user", "content": 5}]),
    ("messages", [{"role": "user", "content": {"type": "text", "text": "x"}}]),
    ("messages", [{"role": "user", "content": ["x"]}]),
    ("messages", [{"role": "user", "content": "x", "name": 5}]),
    ("messages", [{"role": "assistant", "content": "x", "tool_calls": {}}]),
    ("messages", [{"role": "tool", "content": "x", "tool_call_id": 5}]),
    ("model", ""),
    ("model", 5),
    ("temperature", "hot"),
    ("temperature", [1]),
    ("temperature", True),
    *(("top_p", value) for value in (0, -0.1, 1.01, "0.5")),
    *(("max_tokens", value) for value in NOT_INTEGERS_ABOVE_ZERO),
    *(("max_completion_tokens", value) for value in NOT_INTEGERS_ABOVE_ZERO),
    *(("n", value) for value in NOT_INTEGERS_ABOVE_ZERO),
    ("presence_penalty", "x"),
    ("frequency_penalty", {}),
    ("seed", 1.5),
    ("seed", "42"),
    ("stop", 5),
    ("stop", [5]),
    ("stop", {}),
    ("logprobs", "yes"),
    ("logprobs", 1),
    ("top_logprobs", "5"),
    ("top_logprobs", 1.5),
    ("tools", {}),
    ("tools", ["weather"]),
    ("tool_choice", 5),
    ("tool_choice", "sometimes"),
    ("tool_choice", {"type": "function"}),
    ("parallel_tool_calls", "yes"),
    ("response_format", "json"),
    ("stream", "yes"),
    ("stream", 1),
    ("logit_bias", [1]),
    ("metadata", {"a": 1}),
    ("user", 5),
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_the_error_of_a_wrong_type_or_range_names_the_field(
    chat: Chat, upstream: Upstream, field: str, value: Any
) -> None:
    answer = chat(**{field: value})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (
        400,
        "validation_failed",
        "invalid_request_error",
    )
    assert field in error["message"]
    assert str(error["param"]).startswith(field)
    assert upstream.requests == []


def test_all_failing_fields_are_listed_in_one_message(chat: Chat) -> None:
    answer = chat(temperature="hot", n=0, stop=5, user=7)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "validation_failed", None)
    assert all(field in error["message"] for field in ("temperature", "n", "stop", "user"))


@pytest.mark.parametrize("body", [{}, {"messages": []}, {"messages": None}, {"model": "tester-large"}])
def test_missing_or_empty_messages_are_a_bad_request(client: httpx.Client, body: dict[str, Any]) -> None:
    answer = client.post("/v1/chat/completions", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "bad_request", "messages")
    assert error["type"] == "invalid_request_error"


def test_a_refusal_never_repeats_what_the_client_wrote(chat: Chat) -> None:
    answer = chat(
        temperature="a-private-word", messages=[{"role": "user", "content": {"x": "a-private-word"}}]
    )
    assert answer.status_code == 400
    assert "a-private-word" not in answer.text
