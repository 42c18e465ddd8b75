"""The rule for the role of a streamed message: it is sent once, because clients that join deltas would repeat it. Pure.

Source: OpenAI's Python SDK, ``lib/streaming/_deltas.py``; recordings of OpenRouter, Z.ai, Ollama, Databricks.
"""

import re
from typing import Any

from addon.answers.normalize.edits import without
from addon.text.json_edits import Edit

_KEY = b'"role"'
_MEMBER = rb'"role"\s*:\s*"[^"\\]*"'
_SPANS = tuple(map(re.compile, (_MEMBER + rb"\s*,\s*", rb",\s*" + _MEMBER, _MEMBER)))
_ESCAPED_LETTER = re.compile(rb"\\u00[67]")  # a letter of the key would be escaped so


class Role:
    """The role of one choice."""

    def __init__(self) -> None:
        self.is_sent = False

    def drop_repeated(self, delta: dict[str, Any]) -> dict[str, Any]:
        """Return ``delta`` without a role that was sent before."""
        if not delta.get("role"):
            return delta
        if self.is_sent:
            return without(delta, "role")
        self.is_sent = True
        return delta


def role_edits(payload: bytes) -> list[Edit] | None:
    """Return the edit that removes the role from the one delta of the JSON ``payload``, or None when it isn't plain."""
    if payload.count(_KEY) != 1 or _ESCAPED_LETTER.search(payload):
        return None
    for span in _SPANS:
        if found := span.search(payload):
            return [(found.start(), found.end(), b"")]
    return None
