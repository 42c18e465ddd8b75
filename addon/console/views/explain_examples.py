"""Examples of requests for ``/explain``."""

import json
from typing import Any, Final, NamedTuple


class Example(NamedTuple):
    """A request with its name in the URL, and its name for people."""

    name: str
    words: str
    body: str


def _make(name: str, words: str, **fields: Any) -> Example:
    return Example(name, words, json.dumps(fields, indent=2))


_HELLO: Final = [{"role": "user", "content": "Say hello in five words."}]
_WEATHER: Final = {
    "type": "function",
    "function": {
        "name": "find_weather",
        "description": "Find the weather of a town.",
        "parameters": {
            "type": "object",
            "properties": {"town": {"type": "string"}},
            "required": ["town"],
        },
    },
}
_ANSWER: Final = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "schema": {
            "type": "object",
            "properties": {"words": {"type": "integer"}},
            "required": ["words"],
        },
    },
}

EXAMPLES: Final = (
    _make("plain", "No model: the rules or the default decide", messages=_HELLO),
    _make(
        "capped",
        "A stream with a cap",
        messages=_HELLO,
        stream=True,
        max_tokens=4000,
        temperature=1.5,
        stop=[";"],
    ),
    _make(
        "tools",
        "Tools",
        messages=[{"role": "user", "content": "How is the weather in Lisbon?"}],
        tools=[_WEATHER],
        tool_choice="required",
    ),
    _make("json", "An answer in JSON", messages=_HELLO, response_format=_ANSWER, seed=7),
    _make("unknown", "A model that the catalog does not have", model="no-such-model", messages=_HELLO),
    _make("invalid", "A request that is not valid", messages="hello", temperature=9),
)
