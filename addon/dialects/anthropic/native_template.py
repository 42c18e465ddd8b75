"""The template of a delta: later ones with the same bytes around their text need no reading. Pure.

They go as they come. Anthropic pads its events with blanks, so that the size of a packet does not show its text. These
may differ.
"""

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from addon.answers.chunk_template import TEXT
from addon.answers.stream_chunks import Event
from addon.dialects.anthropic.native_events import TEXTS

_MEMBER: Final = re.compile(rb'"(?:text|thinking|partial_json)":[ ]?"')


class NativeTemplate(Struct, frozen=True):
    """One delta without its text: the bytes before it, and the expression of the text and what follows.

    ``is_counted``: the text is the model's own. ``is_clear`` is as for ``chunk_template.Template.fill``.
    """

    before: bytes
    rest: re.Pattern[bytes]
    is_clear: Callable[[str], bool] | None
    is_counted: bool

    def match(self, events: bytes, start: int, max_bytes: int) -> tuple[int, int] | None:
        """Return where the events end that fit from ``start`` on, and the length of their texts; None for none."""
        at, chars, before, match, is_clear = start, 0, self.before, self.rest.match, self.is_clear
        while events.startswith(before, at) and (found := match(events, at + len(before))):
            shown = found[1]
            try:
                text = _decoded(shown) if b"\\" in shown else shown.decode()
            except ValueError:  # The text is not UTF-8.
                break
            end = found.end()
            if end - at > max_bytes or (is_clear and not is_clear(text)):
                break
            at, chars = end, chars + len(text)
        return None if at == start else (at, chars)


def native_template(
    event: Event, chunk: dict[str, Any], is_clear: Callable[[str], bool] | None, *, is_counted: bool
) -> NativeTemplate | None:
    """Return the template of ``event``, the JSON of which is ``chunk``, or None when it can have none."""
    delta, found = chunk["delta"], list(_MEMBER.finditer(event.text))
    text = TEXT.match(event.text, found[0].end()) if len(found) == 1 else None
    is_plain = event.start >= 0 and event.text.startswith(b"event:")
    if not is_plain or text is None or not text[1] or delta["type"] not in TEXTS:
        return None
    before, after = event.text[: text.start(1)], event.text[text.end() :]
    rest = _without_end(after)
    # A name with a backslash could be another name of the text.
    if rest is None or b"\\" in before or b"\\" in after or _decoded(text[1]) != delta[TEXTS[delta["type"]]]:
        return None
    return NativeTemplate(before, _rest(rest), is_clear, is_counted)


def _without_end(after: bytes) -> bytes | None:
    """Return ``after`` without the last brace of the event and the blanks around it, None for another end."""
    if not after.endswith(b"\n\n"):
        return None
    closed = after[:-2].rstrip(b" ")
    return closed[:-1].rstrip(b" ") if closed.endswith(b"}") else None


@lru_cache(maxsize=64)
def _rest(after: bytes) -> re.Pattern[bytes]:
    return re.compile(TEXT.pattern + re.escape(after) + rb"[ ]*+\}[ ]*+\n\n")


def _decoded(text: bytes) -> str:
    return text.decode() if b"\\" not in text else str(json.loads(b'"' + text + b'"'))
