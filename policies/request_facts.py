"""The facts of a request that routing uses. A routing rule sees nothing else of it."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from msgspec import Struct

from policies.estimate import estimate_prompt_tokens
from policies.family import Estimator
from policies.large_text import first_chars
from policies.media import FILES, IMAGES, SOUNDS, is_image

_TEXT_PARTS: Final = frozenset({"text", "input_text"})
_JSON_FORMATS: Final = frozenset({"json_object", "json_schema"})
_MOST_CAUTIOUS: Final = Estimator()
MAX_RULE_CHARS: Final = 250_000
"""The most of a message that keyword rules read: some forty thousand words."""


class RequestFacts(Struct, frozen=True, dict=True):
    """One chat request as routing sees it. Each fact is read when a rule first asks for it.

    ``model`` is the name that the client gave. ``fields`` are those of the validated request that are set.
    """

    model: str | None
    fields: Mapping[str, Any]

    @cached_property
    def last_user_text(self) -> str:
        """The first ``MAX_RULE_CHARS`` characters of the last ``user`` message's text; "" without one."""
        for message in reversed(self.fields["messages"]):
            if message["role"] == "user":
                return text_of(message.get("content"), MAX_RULE_CHARS)
        return ""

    @cached_property
    def has_images(self) -> bool:
        """Whether any message has an image."""
        return any(is_image(part) for part in _parts(self.fields["messages"]))

    @cached_property
    def rare_kinds(self) -> frozenset[str]:
        """Those of ``RARE_KINDS`` that the prompt may have. A file may hold sound and pictures."""
        found: set[str] = set()
        for message in self.fields["messages"]:
            content = message.get("content")
            calls = message.get("tool_calls") or ()
            found |= _rare_kinds_of([message, *(content if isinstance(content, list) else ()), *calls])
        tools = self.fields.get("tools", ())
        if any(map(_is_kept_long, (self.fields, *tools, *(tool.get("function") for tool in tools)))):
            found.add("cache_write_1h")
        return frozenset(found)

    @property
    def has_tools(self) -> bool:
        """Whether the request has a tool."""
        return bool(self.fields.get("tools"))

    @property
    def wants_json(self) -> bool:
        """Whether the request asks for an answer in JSON."""
        return self.fields.get("response_format", {}).get("type") in _JSON_FORMATS

    @cached_property
    def prompt_tokens(self) -> int:
        """An estimate of the whole prompt, nearly always an upper bound.

        It uses the most cautious coefficients, because no model is chosen yet whose family has better ones.
        """
        return estimate_prompt_tokens(self.fields, _MOST_CAUTIOUS)


def find_native_rare_kinds(body: Mapping[str, Any]) -> frozenset[str]:
    """Return those of ``RARE_KINDS`` that the prompt of a Messages or Responses request may have."""
    waiting: list[object] = [
        body,
        body.get("tools"),
        body.get("system"),
        body.get("messages"),
        body.get("input"),
    ]
    holders: list[Mapping[str, Any]] = []
    for one in waiting:
        if isinstance(one, Mapping):
            holders.append(one)
            waiting += [one.get("content"), one.get("output"), one.get("source")]
        elif isinstance(one, list):
            waiting += one
    return frozenset(_rare_kinds_of(holders))


def _rare_kinds_of(parts: Sequence[Mapping[str, Any]]) -> set[str]:
    types = {kind for part in parts if isinstance(kind := part.get("type"), str)}
    found = {"audio_input", "cached_audio_input"} if types & (SOUNDS | FILES) else set()
    found |= {"image_input"} if types & (IMAGES | FILES) else set()
    return found | {"cache_write_1h"} if any(map(_is_kept_long, parts)) else found


def text_of(content: str | list[Mapping[str, Any]] | None, max_chars: int = sys.maxsize) -> str:
    """Return the first ``max_chars`` characters of a message's text, each part on a line of its own."""
    if content is None or isinstance(content, str):
        return first_chars(content or "", max_chars)
    found, left = [], max_chars
    for part in content:
        text = part.get("text") if part["type"] in _TEXT_PARTS else None
        if isinstance(text, str):
            found.append(first_chars(text, left))
            left -= len(found[-1]) + 1  # The next one begins on a line of its own.
        if left < 0:
            break
    return "\n".join(found)[:max_chars]


def _is_kept_long(part: object) -> bool:
    """Return whether the client asks for a cache of more than the usual five minutes at this part."""
    control = part.get("cache_control") if isinstance(part, Mapping) else None
    return isinstance(control, Mapping) and control.get("ttl", "5m") != "5m"


def _parts(messages: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        if isinstance(content := message.get("content"), list):
            yield from content
