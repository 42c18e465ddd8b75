"""Whether the bytes that a client gets are an answer of the contract: strict JSON, with members of the right types."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

DONE = "data: [DONE]"


def assert_completion(text: bytes, slug: str) -> None:
    """Assert that ``text`` is a whole answer. Source: contract, "Chat completion response"."""
    made = strict_json(text)
    _assert_head(made, slug, "chat.completion")
    assert made["choices"]
    for choice in made["choices"]:
        assert type(choice["index"]) is int
        assert type(choice["finish_reason"]) is str
        message = choice["message"]
        assert type(message["role"]) is str
        _assert_shown(message)
        for call in _calls(message):
            assert type(call["id"]) is type(call["type"]) is str
            if call["type"] == "function":
                assert type(call["function"]["name"]) is type(call["function"]["arguments"]) is str


def assert_stream(text: bytes, slug: str, *, is_whole: bool, include_usage: bool) -> None:
    """Assert that ``text`` is a stream, or the beginning of one. Source: contract, "Streaming chunk".

    With ``include_usage``, a chunk with the usage may have no choice.
    """
    events = [event for event in text.decode().split("\n\n") if event]
    if is_whole:
        assert events.pop() == DONE
    for event in events:
        assert event.startswith("data: ")
        made = strict_json(event.removeprefix("data: ").encode())
        _assert_head(made, slug, "chat.completion.chunk")
        assert made["choices"] or (include_usage and made["usage"] is not None)
        for choice in made["choices"]:
            assert type(choice["index"]) is int
            assert type(choice.get("finish_reason")) in (str, type(None))
            _assert_delta(choice["delta"])


def strict_json(text: bytes | str) -> Any:
    """Return JSON text as a value. NaN and Infinity fail: JSON does not have them."""
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _assert_head(made: Mapping[str, Any], slug: str, kind: str) -> None:
    assert type(made["id"]) is str
    assert made["id"]
    assert int(made["created"]) == made["created"]
    assert type(made["created"]) in (int, float)
    assert (made["object"], made["model"]) == (kind, slug)
    assert type(made["choices"]) is list


def _assert_shown(shown: Mapping[str, Any]) -> None:
    content = shown.get("content")
    assert type(content) in (str, list, type(None))
    assert all(type(part) is dict for part in content or () if type(content) is list)
    assert type(shown.get("reasoning_content")) in (str, type(None))


def _assert_delta(delta: Mapping[str, Any]) -> None:
    _assert_shown(delta)
    assert type(delta.get("role")) in (str, type(None))
    for call in _calls(delta):
        assert type(call["index"]) is int
        body = call.get("function") or {}
        assert all(type(one) in (str, type(None)) for one in (call.get("id"), body.get("name")))
        assert type(body.get("arguments")) in (str, type(None))


def _calls(shown: Mapping[str, Any]) -> list[dict[str, Any]]:
    calls = shown.get("tool_calls") or []
    assert type(calls) is list
    return calls
