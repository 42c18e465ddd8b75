"""Chat requests: messages about invalid fields name every field and repeat no value."""

from typing import Any

import pytest
from rig.chat_requests import CONTRACT, HELLO, encoded, refused

from addon.apis.validation import MAX_FOUND_FAILURES

SECRET = "a-private-word"
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
