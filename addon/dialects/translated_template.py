"""The template of a translated event: later ones with the same bytes around their text need no reading. Pure.

The event before such an event was equal but for its text, so it left the translator in the same state. In the Responses
API, events also differ in their number and their padding, which no translator reads. Anthropic pads with blanks before
the last bracket.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from addon.answers.chunk_template import TEXT, Filled, Template
from addon.answers.normalize.reasoning import repeats_reasoning
from addon.answers.sse import frame
from addon.answers.stream_chunks import Event
from addon.text.json_encode import encode_json

_READ_MEMBER = re.compile(rb'"(?:text|thinking|partial_json|input|delta)":[ ]?"')
_MADE_MEMBER = re.compile(rb'"(?:content|reasoning_content|arguments|text)":[ ]?"')
_SLOT = re.compile(rb'"obfuscation":[ ]?"|"sequence_number":[ ]?')
_PADDING = re.compile(rb"[A-Za-z0-9]*+")
_NUMBER = re.compile(rb"[0-9]++")
_BLANKS = re.compile(rb"[ ]*+")

type Slots = tuple[tuple[re.Pattern[bytes], bytes], ...]
"""What may differ, each with the bytes after it."""


class SlottedTemplate(msgspec.Struct, frozen=True, gc=False):
    """One event without its text, its number and its padding: the bytes before the first of these, and the others.

    ``slots`` has what may differ before the text, and ``after`` follows the text, with ``slots_after``.
    """

    before: bytes
    slots: Slots
    after: bytes
    slots_after: Slots
    relayed_before: bytes
    relayed_after: bytes
    other_chars: int
    relayed_twin: bytes = b""

    def fill(
        self, events: bytes, start: int, max_bytes: int, is_clear: Callable[[str], bool] | None
    ) -> Filled:
        """Return the events that fit; see ``Template.fill``."""
        relayed: list[bytes] = []
        chars, at = 0, start
        while events.startswith(self.before, at):
            begin = at + len(self.before)
            if self.slots:
                begin = _match(events, begin, self.slots)
            if begin < 0 or (found := TEXT.match(events, begin)) is None:
                break
            shown, end = found[1], -1
            if events.startswith(self.after, found.end(1)):
                end = _match(events, found.end(1) + len(self.after), self.slots_after)
            try:
                text = _decoded(shown) if b"\\" in shown else shown.decode()
            except ValueError:  # The text is not UTF-8.
                break
            if end < 0 or end - at > max_bytes or (is_clear and not is_clear(text)):
                break
            relayed += (self.relayed_before, shown)
            if self.relayed_twin:
                relayed += (self.relayed_twin, shown)
            relayed.append(self.relayed_after)
            chars, at = chars + self.other_chars + len(text), end
        return Filled(b"".join(relayed), chars, at)


def _match(events: bytes, at: int, slots: Slots) -> int:
    """Return the end of ``slots`` from ``at`` on, or -1 where they do not fit."""
    for filling, after in slots:
        if (found := filling.match(events, at)) is None or not events.startswith(after, found.end()):
            return -1
        at = found.end() + len(after)
    return at


def _slotted(text: bytes) -> tuple[bytes, Slots]:
    """Return the bytes of ``text`` up to the first slot, and the slots."""
    pieces, fillings, at = [], [], 0
    places = [(slot.end(), _PADDING if slot[0].endswith(b'"') else _NUMBER) for slot in _SLOT.finditer(text)]
    if (blanks_at := _find_blanks(text)) is not None:
        places.append((blanks_at, _BLANKS))
    for begin, filling in places:
        if found := filling.match(text, begin):
            pieces.append(text[at:begin])
            fillings.append(filling)
            at = found.end()
    first, *others = [*pieces, text[at:]]
    return first, tuple(zip(fillings, others, strict=True))


def _find_blanks(text: bytes) -> int | None:
    """Return where blanks begin between the last two brackets of an event, None where there are none."""
    if not text.endswith(b" }\n\n"):
        return None
    closed = text[:-3].rstrip(b" ")
    return len(closed) if closed.endswith(b"}") else None


def translated_template(
    event: Event, chunk: dict[str, Any], sent: bytes, text_chars: int
) -> Template | SlottedTemplate | None:
    """Return the template of ``event``, which became ``chunk`` and was sent as it is, or None when it can have none.

    The one text of the event must be the one member of the delta, or its reasoning, which is sent under two names.
    ``text_chars`` is the length of all that was sent.
    """
    deltas = [choice["delta"] for choice in chunk["choices"]]
    has_twin = len(deltas) == 1 and repeats_reasoning(deltas[0])
    if not (has_twin or sum(map(len, deltas)) == 1) or sent != frame(encode_json(chunk)):
        return None
    read, made = _split(event.payload, _READ_MEMBER, 1), _split(sent, _MADE_MEMBER, 1 + has_twin)
    if event.start < 0 or read is None or made is None:
        return None
    before, text, after = read
    shown = made[1]
    if not text or b"\\" in before or b"\\" in after or _decoded(text) != _decoded(shown):
        return None  # A name with a backslash could be another name of the text.
    before, after = event.text[: event.start] + before, after + event.text[event.start + len(event.payload) :]
    other_chars = text_chars - len(_decoded(text))
    (first, slots), (second, slots_after) = _slotted(before), _slotted(after)
    twin = made[2] if has_twin else b""
    if slots or slots_after:
        return SlottedTemplate(first, slots, second, slots_after, made[0], made[-1], other_chars, twin)
    return Template(
        before=before,
        between=b"",
        after=after,
        relayed_before=made[0],
        relayed_twin=twin,
        relayed_between=b"",
        relayed_after=made[-1],
        other_chars=other_chars,
    )


def _split(payload: bytes, name: re.Pattern[bytes], count: int) -> list[bytes] | None:
    """Return the pieces around the only texts of such a name, of which there are ``count``, each with the next text.

    Return None when they are not the same text, as it is written.
    """
    found = [TEXT.match(payload, place.end()) for place in name.finditer(payload)]
    texts = [text for text in found if text]
    if len(found) != count or len(texts) != count or any(text[1] != texts[0][1] for text in texts):
        return None
    pieces, at = [], 0
    for text in texts:
        pieces += [payload[at : text.start(1)], text[1]]
        at = text.end(1)
    return [*pieces, payload[at:]]


def _decoded(text: bytes) -> str:
    return str(json.loads(b'"' + text + b'"'))
