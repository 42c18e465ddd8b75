"""The template of a translated event: later ones with the same bytes around their text need no reading. Pure.

The event before such an event was equal but for its text, so it left the translator in the same state.
"""

import json
import re
from typing import Any

from addon.answers.chunk_template import TEXT, Template
from addon.answers.sse import frame
from addon.answers.stream_chunks import Event
from addon.text.json_encode import encode_json

_READ_MEMBER = re.compile(rb'"(?:text|partial_json)":[ ]?"')
_MADE_MEMBER = re.compile(rb'"(?:content|reasoning_content|arguments|text)":[ ]?"')


def translated_template(event: Event, chunk: dict[str, Any], sent: bytes, text_chars: int) -> Template | None:
    """Return the template of ``event``, which became ``chunk`` and was sent as it is, or None when it can have none.

    The one text of the event must be the one member of the delta. ``text_chars`` is the length of all that was sent.
    """
    if sum(len(choice["delta"]) for choice in chunk["choices"]) != 1 or sent != frame(encode_json(chunk)):
        return None
    read, made = _only_text(event.payload, _READ_MEMBER), _only_text(sent, _MADE_MEMBER)
    if event.start < 0 or read is None or made is None:
        return None
    before, text, after = read
    shown_before, shown, shown_after = made
    if not text or b"\\" in before or b"\\" in after or _decoded(text) != _decoded(shown):
        return None  # A name with a backslash could be another name of the text.
    end = event.start + len(event.payload)
    return Template(
        before=event.text[: event.start] + before,
        between=b"",
        after=after + event.text[end:],
        relayed_before=shown_before,
        relayed_between=b"",
        relayed_after=shown_after,
        is_padded=False,
        other_chars=text_chars - len(_decoded(text)),
    )


def _only_text(payload: bytes, name: re.Pattern[bytes]) -> tuple[bytes, bytes, bytes] | None:
    """Return what is before the only text of such a name, the text as it is written, and what is after it."""
    places = list(name.finditer(payload))
    found = TEXT.match(payload, places[0].end()) if len(places) == 1 else None
    return (payload[: found.start(1)], found[1], payload[found.end(1) :]) if found else None


def _decoded(text: bytes) -> str:
    return str(json.loads(b'"' + text + b'"'))
