"""The texts of a native stream without the secrets of its call, however they are cut into deltas. Pure.

See ``answers/streamed_secrets.py``. Each content block has one text.
"""

from collections.abc import Callable, Sequence
from typing import Any

from addon.answers.streamed_secrets import MAX_TEXTS, SecretFreeText
from addon.dialects.anthropic.native_events import HOLDERS, TEXTS, encode_event
from addon.text.masking import is_unmistakable


class BlockSecrets:
    """Masks secrets in the texts of all blocks of one stream."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = tuple(filter(is_unmistakable, secrets))
        self.is_needed = bool(self._secrets)
        self._texts: dict[int, tuple[SecretFreeText, str]] = {}
        """The text of each open block, and the type of its deltas."""

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
        known = self._texts.get(event["index"])
        return known[0].is_clear if known else None

    def end_all(self) -> bytes:
        """Return events with all text that is held."""
        return b"".join([self._end(index) for index in list(self._texts)]) if self._texts else b""

    def _mask_content(self, event: dict[str, Any], place: str) -> dict[str, Any] | None:
        holder = event[place]
        name = TEXTS.get(str(holder.get("type")), "")
        if not isinstance(piece := holder.get(name), str):
            return event
        shown = self._read(event["index"], holder["type"], piece)
        if shown == piece:
            return event
        return {**event, place: {**holder, name: shown}} if shown or place == "content_block" else None

    def _read(self, index: object, kind: str, piece: str) -> str:
        if type(index) is not int:
            raise ValueError("an index is not an integer")
        known = self._texts.get(index)
        if known is None and len(self._texts) < MAX_TEXTS:
            known = self._texts[index] = SecretFreeText(self._secrets), f"{kind.removesuffix('_delta')}_delta"
        return known[0].read(piece) if known else piece

    def _end(self, index: Any) -> bytes:
        """Forget the text of a block. Return an event with what was held of it."""
        known = self._texts.pop(index, None)
        if known is None or not (held := known[0].end()):
            return b""
        delta = {"type": known[1], TEXTS[known[1]]: held}
        return encode_event({"type": "content_block_delta", "index": index, "delta": delta})
