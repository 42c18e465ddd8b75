"""The template of a translated event: later ones with the same bytes around their text need no reading. Pure.

The event before such an event was equal but for its text, so it left the translator in the same state.
"""

import json
import re
from typing import Any

from addon.answers.chunk_template import TEXT, Template
from addon.answers.normalize.reasoning import repeats_reasoning
from addon.answers.sse import frame
from addon.answers.stream_chunks import Event
from addon.text.json_encode import encode_json

_READ_MEMBER = re.compile(rb'"(?:text|thinking|partial_json|input)":[ ]?"')
_MADE_MEMBER = re.compile(rb'"(?:content|reasoning_content|arguments|text)":[ ]?"')


def translated_template(event: Event, chunk: dict[str, Any], sent: bytes, text_chars: int) -> Template | None:
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
    end = event.start + len(event.payload)
    return Template(
        before=event.text[: event.start] + before,
        between=b"",
        after=after + event.text[end:],
        relayed_before=made[0],
        relayed_twin=made[2] if has_twin else b"",
        relayed_between=b"",
        relayed_after=made[-1],
        other_chars=text_chars - len(_decoded(text)),
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
