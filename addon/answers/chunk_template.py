"""Chunks of one stream differ in their text and in little else: what stands around it need be read only once. Pure.

A chunk whose bytes around the text are those of one that was read whole is the same JSON with another string in it, so
it says the same of model, usage, errors and ends.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple, Self

from addon.text.json_edits import Edit, apply_edits

_TEXT_MEMBER = re.compile(rb'"(?:content|reasoning_content|reasoning|arguments)":[ ]?"(?!")')
# A JSON string from behind its opening quote up to its closing one.
_TEXT = re.compile(rb'((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)"')


class Template(NamedTuple):
    """One chunk without its text. ``other_chars`` is the length of what else it shows."""

    before: bytes
    after: bytes
    relayed_before: bytes
    relayed_after: bytes
    other_chars: int

    @classmethod
    def of(cls, event: bytes, at: int, payload: bytes, edits: Sequence[Edit], text_chars: int) -> Self | None:
        """Return the template of an event that was read whole, or None where it has no text of its own.

        ``payload`` stands in the event from the byte ``at`` on, and ``edits`` are those that were made to it;
        ``text_chars`` is the length of all that it shows.
        """
        member = _TEXT_MEMBER.search(payload)
        found = _TEXT.match(payload, member.end()) if member else None
        if found is None:
            return None
        start, end = found.span(1)
        other_chars = text_chars - len(_decoded(found[1]))
        if other_chars < 0 or any(first < end and start < last for first, last, _ in edits):
            return None
        ahead = [edit for edit in edits if edit[1] <= start]
        behind = [(first - end, last - end, new) for first, last, new in edits if first >= end]
        relayed_before = b"data: " + apply_edits(payload[:start], ahead)
        relayed_after = apply_edits(payload[end:], behind) + b"\n\n"
        return cls(event[: at + start], event[at + end :], relayed_before, relayed_after, other_chars)

    def fill(self, event: bytes) -> tuple[bytes, str] | None:
        """Return ``event`` as it is relayed, and its text; None where it has another shape."""
        if not event.startswith(self.before) or not event.endswith(self.after):
            return None
        found = _TEXT.match(event, len(self.before))
        if found is None or found.end(1) + len(self.after) != len(event):
            return None
        try:
            text = _decoded(found[1])
        except ValueError:  # It is no UTF-8.
            return None
        return self.relayed_before + found[1] + self.relayed_after, text


def _decoded(text: bytes) -> str:
    return text.decode() if b"\\" not in text else str(json.loads(b'"' + text + b'"'))
