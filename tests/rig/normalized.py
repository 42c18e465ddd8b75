"""Normalizes single choices, messages and deltas of a family without think tags."""

import copy
from typing import Any

from addon.answers.normalize.choices import ChunkNormalizer, normalize_message_choices
from policies.family import Family

FAMILY = Family("plain")
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def delta_of(delta: Any) -> Any:
    """Return what becomes of a delta in the middle of a stream."""
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    return (ChunkNormalizer(FAMILY).normalize(chunk).choices or chunk["choices"])[0]["delta"]


def message_of(message: Any) -> Any:
    choices = [{"index": 0, "message": {"role": "assistant", **message}}]
    made = dict((normalize_message_choices(choices, FAMILY) or choices)[0]["message"])
    assert made.pop("role") == "assistant"
    return made


def relayed(chunks: list[list[Any]], n: int | None = None) -> list[list[Any]]:
    """Return the choices of each chunk as they are relayed, and those that are left at the end."""
    normalizer, out = ChunkNormalizer(FAMILY, n), []
    for choices in chunks:
        normal = normalizer.normalize({"id": "c", "choices": choices})
        out.append(choices if normal.choices is None else normal.choices)
    return [*out, last] if (last := normalizer.finish()) else out


def assert_delta(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """Assert what a delta becomes, in the same order too, and that it is not changed itself."""
    before = copy.deepcopy(given)
    assert list(delta_of(given).items()) == list(expected.items())
    assert given == before


def assert_message(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """Assert what a message becomes, and that it is not changed itself."""
    before = copy.deepcopy(given)
    assert message_of(given) == expected
    assert given == before
