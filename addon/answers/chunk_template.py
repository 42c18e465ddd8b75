"""A fast path for chunks that differ only in their text. Pure.

The chunks of one stream differ in their text and in little else. The first one is read whole. A later chunk with the
same bytes around its text is the same JSON with another string in it. So it says the same about model, usage, errors
and ends, and only its text is read.

OpenAI pads its chunks: ``obfuscation`` has random letters, so that the size of a packet does not show its text. These
letters may differ too.
"""

import json
import re
from collections.abc import Callable, Sequence

import msgspec

from addon.text.json_edits import Edit, apply_edits, members

_TEXT_MEMBER = re.compile(rb'"(?:content|reasoning_content|reasoning|arguments)":[ ]?"(?!")')
TEXT = re.compile(rb'((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)"')
"""A JSON string from after its opening quote up to its closing one."""
MAX_MISSES = 8
"""After so many chunks in a row that fit no template, none is made: the provider pads its chunks."""
_PADDED = b'"obfuscation"'
_PADDING = re.compile(rb'[A-Za-z0-9]*+(?=")')


class Filled(msgspec.Struct, frozen=True, gc=False):
    """Events that fit a template: what is relayed for them, the length of all they show, and where they end."""

    relayed: bytes
    chars: int
    end: int


class Template(msgspec.Struct, frozen=True, gc=False):
    """One chunk without its text and its padding: the bytes before, between and after them, as they come and go.

    ``other_chars`` is the length of all else that it shows. A chunk without a text is its own template: all of it is in
    ``before``.
    """

    before: bytes
    between: bytes
    after: bytes
    relayed_before: bytes
    relayed_between: bytes
    relayed_after: bytes
    is_padded: bool
    other_chars: int
    has_text: bool = True

    def fill(
        self, events: bytes, start: int, max_bytes: int, is_clear: Callable[[str], bool] | None
    ) -> Filled:
        """Return the events of ``events`` from ``start`` on that fit the template, with their own texts.

        An event of more than ``max_bytes``, or with a text that is not ``is_clear``, does not fit.
        """
        if not self.has_text:
            return self._repeat(events, start, max_bytes)
        before, between, after = self.before, self.between, self.after
        relayed: list[bytes] = []
        padding, chars, at = b"", 0, start
        while events.startswith(before, at):
            found = TEXT.match(events, at + len(before))
            if found is None or not events.startswith(between, end := found.end(1)):
                break
            end += len(between)
            if self.is_padded and (filling := _PADDING.match(events, end)):
                padding, end = filling[0], filling.end()
            if not events.startswith(after, end):
                break
            end += len(after)
            try:
                text = _decoded(found[1]) if b"\\" in found[1] else found[1].decode()
            except ValueError:  # The text is not UTF-8.
                break
            if end - at > max_bytes or (is_clear and not is_clear(text)):
                break
            relayed += (self.relayed_before, found[1], self.relayed_between, padding, self.relayed_after)
            chars += self.other_chars + len(text)
            at = end
        return Filled(b"".join(relayed), chars, at)

    def _repeat(self, events: bytes, start: int, max_bytes: int) -> Filled:
        at, size = start, len(self.before)
        while size <= max_bytes and events.startswith(self.before, at):
            at += size
        return Filled(self.relayed_before * ((at - start) // size), 0, at)


def make_template(
    event: bytes, at: int, payload: bytes, edits: Sequence[Edit], text_chars: int
) -> Template | None:
    """Return the template of an event that was read whole, or None when it can have none.

    ``payload`` is in the event from byte ``at`` on. ``edits`` are the ones that were made to it. ``text_chars`` is the
    length of all that the event shows.
    """
    member = _TEXT_MEMBER.search(payload)
    found = TEXT.match(payload, member.end()) if member else None
    if found is None and not text_chars:
        whole = b"data: " + apply_edits(payload, edits) + b"\n\n"
        return Template(event, b"", b"", whole, b"", b"", is_padded=False, other_chars=0, has_text=False)
    if found is None:
        return None
    start, end = found.span(1)
    other_chars = text_chars - len(_decoded(found[1]))
    padding = _padding_place(payload, end)
    variable = [(start, end), padding] if padding else [(start, end)]
    if other_chars < 0 or _overlap(edits, variable):
        return None
    pad_start, pad_end = padding or (len(payload), len(payload))
    return Template(
        before=event[: at + start],
        between=event[at + end : at + pad_start],
        after=event[at + pad_end :],
        relayed_before=b"data: " + _edited(payload, 0, start, edits),
        relayed_between=_edited(payload, end, pad_start, edits),
        relayed_after=_edited(payload, pad_end, len(payload), edits) + b"\n\n",
        is_padded=padding is not None,
        other_chars=other_chars,
    )


def _padding_place(payload: bytes, start: int) -> tuple[int, int] | None:
    """Return the start and the end of the padding inside its quotes, if there is one after byte ``start``."""
    if payload.find(_PADDED, start) < 0:
        return None
    found = members(payload, payload.index(b"{"), "obfuscation")
    if len(found) != 1 or found[0].start < start or payload[found[0].start : found[0].start + 1] != b'"':
        return None
    padding = _PADDING.match(payload, found[0].start + 1)
    return padding.span() if padding and padding.end() == found[0].end - 1 else None


def _overlap(edits: Sequence[Edit], places: Sequence[tuple[int, int]]) -> bool:
    return any(begin < place[1] and place[0] < end for begin, end, _ in edits for place in places)


def _edited(payload: bytes, start: int, end: int, edits: Sequence[Edit]) -> bytes:
    """Return the bytes from ``start`` to ``end`` with the edits that are made to them."""
    inside = [
        (first - start, last - start, new) for first, last, new in edits if start <= first and last <= end
    ]
    return apply_edits(payload[start:end], inside)


def _decoded(text: bytes) -> str:
    return text.decode() if b"\\" not in text else str(json.loads(b'"' + text + b'"'))
