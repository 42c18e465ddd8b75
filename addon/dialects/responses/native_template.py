"""The template of a delta: later ones with the same bytes around their text need no reading. Pure.

They go as they come. Beside the text only the number of the event may differ, and the padding that hides the text's
length.
"""

import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from addon.answers.chunk_template import TEXT
from addon.answers.stream_chunks import Event
from addon.text.json_edits import members

_PADDING: Final = re.compile(rb"[A-Za-z0-9+/=]*+")
_NUMBER: Final = re.compile(rb"(?:0|[1-9][0-9]{0,15}+)")

type Match = Callable[[bytes, int], re.Match[bytes] | None]

_MATCHES: Final[Mapping[str, Match]] = MappingProxyType(
    {"delta": TEXT.match, "obfuscation": _PADDING.match, "sequence_number": _NUMBER.match}
)
"""The members that may differ, each with the function that finds its value."""


class DeltaTemplate(Struct, frozen=True):
    """One delta without what may differ: the bytes before it, then what matches each of these, with the bytes after it.

    ``text_at`` is the place of the text among them. ``is_clear`` is as for ``chunk_template.Template.fill``.
    ``output_index`` is that of its item.
    """

    before: bytes
    slots: tuple[tuple[Match, bytes], ...]
    text_at: int
    output_index: int
    is_clear: Callable[[str], bool] | None

    def fill(self, events: bytes, start: int, max_bytes: int) -> tuple[int, int]:
        """Return where the events end that fit from ``start`` on, and the length of their texts."""
        before, slots, text_at, is_clear = self.before, self.slots, self.text_at, self.is_clear
        at, chars, startswith = start, 0, events.startswith
        while startswith(before, at):
            end, shown = at + len(before), b""
            for place, (match, after) in enumerate(slots):
                if (found := match(events, end)) is None:
                    return at, chars
                end = found.end()
                if place == text_at:
                    shown, end = found[1], end - 1
                if not startswith(after, end):
                    return at, chars
                end += len(after)
            try:
                text = str(json.loads(b'"' + shown + b'"')) if b"\\" in shown else shown.decode()
            except ValueError:  # The text is not UTF-8.
                break
            if end - at > max_bytes or not text or (is_clear and not is_clear(text)):
                break
            at, chars = end, chars + len(text)
        return at, chars


def delta_template(
    event: Event, output_index: int, is_clear: Callable[[str], bool] | None
) -> DeltaTemplate | None:
    """Return the template of a delta that was read whole, or None when it can have none."""
    if event.start < 0:
        return None
    listed = members(event.payload, event.payload.index(b"{"))
    found = [one for one in listed if one.key in _MATCHES]
    names = [one.key for one in found]
    if "delta" not in names or len(set(names)) < len(names):
        return None
    pieces: list[bytes] = []
    matches: list[Match] = []
    at, text = 0, event.text
    for one in found:
        start, end = event.start + one.start, event.start + one.end
        if one.key != "sequence_number":  # Without the quotes.
            start, end = start + 1, end - 1
        match = _MATCHES[one.key]
        if one.key != "delta" and ((filling := match(text, start)) is None or filling.end() != end):
            return None
        pieces.append(text[at:start])
        matches.append(match)
        at = end
    pieces.append(text[at:])
    slots = tuple(zip(matches, pieces[1:], strict=True))
    return DeltaTemplate(pieces[0], slots, names.index("delta"), output_index, is_clear)
