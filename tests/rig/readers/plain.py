"""Finds recordings of the chat shape that are in standard form: only their model may change."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rig.readers import STANDARD

type Payload = Mapping[str, Any]

OTHER_PLACES = ("reasoning", "reasoning_details")


def is_plain(payloads: Iterable[Payload], *, stream: bool, think_tags: bool) -> bool:
    """Return whether all members of these payloads have the place and form of the chat API."""
    listed = list(payloads)
    choices = [choice for payload in listed for choice in payload.get("choices") or ()]
    reasons = [
        (choice.get("index"), choice["finish_reason"]) for choice in choices if choice.get("finish_reason")
    ]
    return (
        all(map(_plain_top, listed))
        and all(_plain_choice(choice, stream) for choice in choices)
        and all(count == 1 for count in Counter(index for index, _ in reasons).values())
        and all(reason in STANDARD for _, reason in reasons)
        and not (
            "stop" in dict(reasons).values() and any(_made(choice).get("tool_calls") for choice in choices)
        )
        and not (think_tags and _may_think(choices))
        and (not stream or (_calls_are_numbered(choices) and _roles_come_once(choices)))
    )


def _plain_top(payload: Payload) -> bool:
    return bool(payload.get("id")) and payload.get("object") in ("chat.completion", "chat.completion.chunk")


def _made(choice: Payload) -> Payload:
    return choice.get("delta") or choice.get("message") or {}


def _plain_choice(choice: Payload, stream: bool) -> bool:
    made = choice.get("delta" if stream else "message")
    return (
        isinstance(made, dict)
        and not ("delta" in choice and "message" in choice)
        and "text" not in choice
        and isinstance(made.get("content"), str | None)
        and not any(name in made for name in OTHER_PLACES)
        and choice.get("finish_reason") != ""
        and (stream or choice.get("finish_reason") is not None)
        and ("tool_calls" not in made or bool(made["tool_calls"]))
        and all(_plain_call(call, stream) for call in made.get("tool_calls") or ())
    )


def _plain_call(call: Payload, stream: bool) -> bool:
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return False
    if not stream:
        return isinstance(call.get("id"), str) and bool(call["id"]) and call.get("type") == "function"
    begins = isinstance(call.get("id"), str) and bool(call["id"])
    present = [call.get("id") is not None, call.get("type") is not None, function.get("name") is not None]
    right = all(present) and call.get("type") == "function" if begins else not any(present)
    return isinstance(call.get("index"), int) and right


def _may_think(choices: list[Payload]) -> bool:
    """Return whether a text may be held: it may turn out to begin with a think tag."""
    text = "".join(_made(choice).get("content") or "" for choice in choices)
    return text.lstrip().startswith("<") or "think>" in text or "reasoning>" in text


def _roles_come_once(choices: list[Payload]) -> bool:
    roles = Counter(choice.get("index") for choice in choices if _made(choice).get("role"))
    return all(count == 1 for count in roles.values())


def _calls_are_numbered(choices: list[Payload]) -> bool:
    """Return whether calls are numbered from 0 in each choice, with one id each."""
    begun: dict[Any, list[Any]] = {}
    for choice in choices:
        calls = [call for call in _made(choice).get("tool_calls") or () if call.get("id")]
        begun.setdefault(choice.get("index"), []).extend(call.get("index") for call in calls)
    return all(indexes == list(range(len(indexes))) for indexes in begun.values())
