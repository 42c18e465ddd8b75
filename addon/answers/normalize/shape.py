"""The rule for wrong types: a choice whose members are not what the contract says is no answer. Pure.

Members that are missing, or have another place, are put right by the other rules. This one looks at their result.
Source: contract, "choices[] element".
"""

from collections.abc import Mapping
from typing import Any

_TEXT_OR_NONE = (str, type(None))


class NoChoiceError(ValueError):
    """An element of ``choices`` is not a choice."""


def check_choice(choice: object) -> None:
    """Raise NoChoiceError unless ``choice`` is an object."""
    if type(choice) is not dict:
        raise NoChoiceError("a choice is not an object")


def check_shown(shown: Mapping[str, Any], *, is_whole: bool) -> None:
    """Raise NoChoiceError for a normalized message, or for a delta, whose members have the wrong types."""
    content = shown.get("content")
    if type(content) is list:
        _require(all(type(part) is dict for part in content), "a part of the content is not an object")
    else:
        _require(type(content) in _TEXT_OR_NONE, "the content is neither text nor parts")
    for name in ("role", "reasoning_content"):
        _require(type(shown.get(name)) in _TEXT_OR_NONE, f"{name} is not text")
    calls = shown.get("tool_calls")
    if calls is not None:
        _require(type(calls) is list, "tool_calls is not a list")
        for call in calls:
            _check_call(call, is_whole=is_whole)


def _check_call(call: object, *, is_whole: bool) -> None:
    if type(call) is not dict:
        raise NoChoiceError("a tool call is not an object")
    if call.get("type", "function") != "function":
        return
    body = call.get("function")
    if body is None and not is_whole:
        return
    if type(body) is not dict:
        raise NoChoiceError("a tool call has no function")
    for name in ("name", "arguments"):
        _require(type(body.get(name)) in ((str,) if is_whole else _TEXT_OR_NONE), f"its {name} is not text")


def _require(is_right: bool, otherwise: str) -> None:
    if not is_right:
        raise NoChoiceError(otherwise)
