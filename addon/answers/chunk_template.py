"""A fast path for chunks that differ only in their text. Pure.

The chunks of one stream differ in their text and in little else. The first one is read whole. A later chunk with the
same bytes around its text is the same JSON with another string in it. So it says the same about model, usage, errors
and ends, and only its text is read.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple, Self

from addon.text.json_edits import Edit, apply_edits

_TEXT_MEMBER = re.compile(rb'"(?:content|reasoning_content|reasoning|arguments)":[ ]?"(?!")')
# A JSON string from after its opening quote up to its closing one.
_TEXT = re.compile(rb'((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)"')


class Template(NamedTuple):
    """One chunk without its text. ``other_chars`` is the length of all else that it shows."""

    before: bytes
    after: bytes
    relayed_before: bytes
    relayed_after: bytes
    other_chars: int

    @classmethod
    def of(cls, event: bytes, at: int, payload: bytes, edits: Sequence[Edit], text_chars: int) -> Self | None:
        """Return the template of an event that was read whole, or None when it has no text of its own.

        ``payload`` is in the event from byte ``at`` on. ``edits`` are the ones that were made to it. ``text_chars`` is
        the length of all that the event shows.
        """
        member = _TEXT_MEMBER.search(payload)
        found = _TEXT.match(payload, member.end()) if member else None
        if found is None:
            return None
        start, end = found.span(1)
        other_chars = text_chars - len(_decoded(found[1]))
        if other_chars < 0 or any(first < end and start < last for first, last, _ in edits):
            return None
        edits_before = [edit for edit in edits if edit[1] <= start]
        edits_after = [(first - end, last - end, new) for first, last, new in edits if first >= end]
        relayed_before = b"data: " + apply_edits(payload[:start], edits_before)
        relayed_after = apply_edits(payload[end:], edits_after) + b"\n\n"
        return cls(event[: at + start], event[at + end :], relayed_before, relayed_after, other_chars)

    def fill(self, event: bytes) -> tuple[bytes, str] | None:
        """Return ``event`` as it is relayed, and its text. Return None when it does not fit the template."""
        if not event.startswith(self.before) or not event.endswith(self.after):
            return None
        found = _TEXT.match(event, len(self.before))
        if found is None or found.end(1) + len(self.after) != len(event):
            return None
        try:
            text = _decoded(found[1])
        except ValueError:  # The text is not UTF-8.
            return None
        return self.relayed_before + found[1] + self.relayed_after, text


def _decoded(text: bytes) -> str:
    return text.decode() if b"\\" not in text else str(json.loads(b'"' + text + b'"'))
