"""A fast path for chunks that differ only in their text. Pure.

The chunks of one stream differ in their text and in little else. The first one is read whole. A later chunk with the
same bytes around its text is the same JSON with another string in it. So it says the same about model, usage, errors
and ends, and only its text is read.
"""

import json
import re
from collections.abc import Callable, Sequence

import msgspec

from addon.text.json_edits import Edit, apply_edits

_TEXT_MEMBER = re.compile(rb'"(?:content|reasoning_content|reasoning|arguments)":[ ]?"(?!")')
# A JSON string from after its opening quote up to its closing one.
_TEXT = re.compile(rb'((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)"')


class Filled(msgspec.Struct, frozen=True, gc=False):
    """Events that fit a template: what is relayed for them, the length of all they show, and where they end."""

    relayed: bytes
    chars: int
    end: int


class Template(msgspec.Struct, frozen=True, gc=False):
    """One chunk without its text. ``other_chars`` is the length of all else that it shows."""

    before: bytes
    after: bytes
    relayed_before: bytes
    relayed_after: bytes
    other_chars: int

    def fill(
        self, events: bytes | bytearray, max_bytes: int, is_clear: Callable[[str], bool] | None
    ) -> Filled:
        """Return the events at the beginning of ``events`` that fit the template, with their own texts.

        An event of more than ``max_bytes``, or with a text that is not ``is_clear``, does not fit.
        """
        before, after = self.before, self.after
        relayed: list[bytes] = []
        chars = at = 0
        while events.startswith(before, at):
            found = _TEXT.match(events, at + len(before))
            if found is None or not events.startswith(after, end := found.end(1)):
                break
            end += len(after)
            try:
                text = _decoded(found[1]) if b"\\" in found[1] else found[1].decode()
            except ValueError:  # The text is not UTF-8.
                break
            if end - at > max_bytes or (is_clear and not is_clear(text)):
                break
            relayed += (self.relayed_before, found[1], self.relayed_after)
            chars += self.other_chars + len(text)
            at = end
        return Filled(b"".join(relayed), chars, at)


def make_template(
    event: bytes, at: int, payload: bytes, edits: Sequence[Edit], text_chars: int
) -> Template | None:
    """Return the template of an event that was read whole, or None when it has no text of its own.

    ``payload`` is in the event from byte ``at`` on. ``edits`` are the ones that were made to it. ``text_chars`` is the
    length of all that the event shows. An event that ends with \\r has no template: only the next byte shows its end.
    """
    member = _TEXT_MEMBER.search(payload)
    found = _TEXT.match(payload, member.end()) if member else None
    if found is None or not event.endswith(b"\n"):
        return None
    start, end = found.span(1)
    other_chars = text_chars - len(_decoded(found[1]))
    if other_chars < 0 or any(first < end and start < last for first, last, _ in edits):
        return None
    edits_before = [edit for edit in edits if edit[1] <= start]
    edits_after = [(first - end, last - end, new) for first, last, new in edits if first >= end]
    relayed_before = b"data: " + apply_edits(payload[:start], edits_before)
    relayed_after = apply_edits(payload[end:], edits_after) + b"\n\n"
    return Template(event[: at + start], event[at + end :], relayed_before, relayed_after, other_chars)


def _decoded(text: bytes) -> str:
    return text.decode() if b"\\" not in text else str(json.loads(b'"' + text + b'"'))
