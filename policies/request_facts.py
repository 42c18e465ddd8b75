"""What routing may know of a request, and nothing else of it: a rule can't see what does not stand here."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from policies.estimate import estimate_prompt_tokens, is_image
from policies.family import Estimator
from policies.large_text import first_chars

_TEXT_PARTS: Final = frozenset({"text", "input_text"})
_JSON_FORMATS: Final = frozenset({"json_object", "json_schema"})
_MOST_CAUTIOUS: Final = Estimator()
MAX_RULE_CHARS: Final = 250_000
"""Keyword rules read no more of a message: some forty thousand words."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """One chat request as routing sees it.

    ``model`` is the name that the client gave; ``last_user_text`` the text of the last message whose role is ``user``,
    its parts on lines of their own, "" where it has none, and at most its first ``MAX_RULE_CHARS`` characters. Images
    count in any message. ``prompt_tokens`` estimates the whole prompt when it is first called: at most, nearly always,
    by the most cautious coefficients, because no model is chosen yet whose family could say better.
    """

    model: str | None
    last_user_text: str
    has_images: bool
    has_tools: bool
    wants_json: bool
    prompt_tokens: Callable[[], int]


def request_facts(model: str | None, fields: Mapping[str, Any]) -> RequestFacts:
    """Return the facts of a validated request. ``fields`` has ``messages``, and the contract's other fields if set."""
    messages = fields["messages"]
    users = (message.get("content") for message in reversed(messages) if message["role"] == "user")
    return RequestFacts(
        model=model,
        last_user_text=text_of(next(users, None), MAX_RULE_CHARS),
        has_images=any(is_image(part) for part in _parts(messages)),
        has_tools=bool(fields.get("tools")),
        wants_json=fields.get("response_format", {}).get("type") in _JSON_FORMATS,
        prompt_tokens=cache(partial(estimate_prompt_tokens, fields, _MOST_CAUTIOUS)),
    )


def text_of(content: str | list[Mapping[str, Any]] | None, max_chars: int = sys.maxsize) -> str:
    """Return the text of a message's content, its parts on lines of their own, at most the first ``max_chars``."""
    if content is None or isinstance(content, str):
        return first_chars(content or "", max_chars)
    texts = (part.get("text") for part in content if part["type"] in _TEXT_PARTS)
    return "\n".join(first_chars(text, max_chars) for text in texts if isinstance(text, str))[:max_chars]


def _parts(messages: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        if isinstance(content := message.get("content"), list):
            yield from content
