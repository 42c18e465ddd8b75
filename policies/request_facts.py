"""The facts of a request that routing uses. A routing rule sees nothing else of it."""

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
"""The most of a message that keyword rules read: some forty thousand words."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """One chat request as routing sees it.

    | field | is |
    |---|---|
    | ``model`` | the name that the client gave |
    | ``last_user_text`` | the text of the last ``user`` message, its first ``MAX_RULE_CHARS`` characters; "" without |
    | ``has_images`` | whether any message has an image |
    | ``prompt_tokens`` | a function that estimates the whole prompt, when it is first called |

    The estimate is nearly always an upper bound. It uses the most cautious coefficients, because no model is chosen yet
    whose family has better ones.
    """

    model: str | None
    last_user_text: str
    has_images: bool
    has_tools: bool
    wants_json: bool
    prompt_tokens: Callable[[], int]


def read_request_facts(model: str | None, fields: Mapping[str, Any]) -> RequestFacts:
    """Return the facts of a validated request. ``fields`` are the fields of the contract that are set."""
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
    """Return the first ``max_chars`` characters of a message's text, each part on a line of its own."""
    if content is None or isinstance(content, str):
        return first_chars(content or "", max_chars)
    texts = (part.get("text") for part in content if part["type"] in _TEXT_PARTS)
    return "\n".join(first_chars(text, max_chars) for text in texts if isinstance(text, str))[:max_chars]


def _parts(messages: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        if isinstance(content := message.get("content"), list):
            yield from content
