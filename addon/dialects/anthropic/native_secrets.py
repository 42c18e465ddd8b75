"""The texts of a native stream without the secrets of its call, however they are cut into deltas. Pure.

See ``answers/streamed_secrets.py``. A content block has one text for each type of its deltas.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from addon.answers.streamed_secrets import MAX_TEXTS, SecretFreeText
from addon.dialects.anthropic.native_events import HOLDERS, TEXTS, encode_event
from addon.text.masking import is_unmistakable

type Place = tuple[int, str, str]
"""The index of a block, the type of its deltas, and the name of their text."""


class BlockSecrets:
    """Masks secrets in the texts of all blocks of one stream."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = tuple(filter(is_unmistakable, secrets))
        self.is_needed = bool(self._secrets)
        self._texts: dict[Place, SecretFreeText] = {}
        """The texts of the open blocks."""

    def mask(self, event: dict[str, Any]) -> tuple[bytes, dict[str, Any] | None]:
        """Return the events that come first, with text that was held, and the event without secrets.

        It is the same object when nothing changes, and None when it has nothing to show. Raises ValueError for an
        index that is none.
        """
        kind = event["type"]
        if kind == "content_block_stop":
            return self._end(event["index"]), event
        if kind in ("message_delta", "message_stop"):
            return self.end_all(), event
        return b"", self._mask_content(event, HOLDERS[kind]) if kind in HOLDERS else event

    def follow(self, event: dict[str, Any]) -> Callable[[str], bool] | None:
        """Return the function that takes the next text of the block of a delta; see ``SecretFreeText.is_clear``."""
        index, delta = event["index"], event["delta"]
        name = _text_member(delta, "delta") if type(index) is int else ""
        known = self._texts.get((index, delta["type"], name)) if name else None
        return known.is_clear if known else None

    def end_all(self) -> bytes:
        """Return events with all text that is held."""
        return b"".join([self._end_text(place) for place in list(self._texts)]) if self._texts else b""

    def _mask_content(self, event: dict[str, Any], place: str) -> dict[str, Any] | None:
        holder = event[place]
        name = _text_member(holder, place)
        if not isinstance(piece := holder.get(name), str):
            return event
        kind = holder["type"] if place == "delta" else f"{holder['type']}_delta"
        shown = self._read(event["index"], kind, name, piece)
        if shown == piece:
            return event
        return {**event, place: {**holder, name: shown}} if shown or place == "content_block" else None

    def _read(self, index: object, kind: str, name: str, piece: str) -> str:
        if type(index) is not int:
            raise ValueError("an index is not an integer")
        known = self._texts.get((index, kind, name))
        if known is None and len(self._texts) < MAX_TEXTS:
            known = self._texts[index, kind, name] = SecretFreeText(self._secrets)
        return known.read(piece) if known else piece

    def _end(self, index: Any) -> bytes:
        """Forget the texts of a block. Return events with what was held of them."""
        return b"".join([self._end_text(place) for place in list(self._texts) if place[0] == index])

    def _end_text(self, place: Place) -> bytes:
        index, kind, name = place
        if not (held := self._texts.pop(place).end()):
            return b""
        delta = {"type": kind, name: held}
        return encode_event({"type": "content_block_delta", "index": index, "delta": delta})


def _text_member(holder: Mapping[str, Any], place: str) -> str:
    """Return the name of the text of a block or of a delta, "" where it has none.

    That of a delta of an unknown type is its only member that is a text: clients may join it, too.
    """
    kind = holder.get("type")
    if (known := TEXTS.get(kind if isinstance(kind, str) else "")) or place != "delta":
        return known or ""
    texts = [name for name, value in holder.items() if name != "type" and isinstance(value, str)]
    return texts[0] if len(texts) == 1 and isinstance(kind, str) else ""
