"""The texts of a native stream without the secrets of its call, however they are cut into deltas. Pure.

See ``answers/streamed_secrets.py``. An event whose text may begin a secret waits for the next one: so the numbers of
the events stay as they are. The texts at the end of a part, and in items, come whole: see ``answers/guarded_reader``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from addon.answers.stream_chunks import Event
from addon.answers.streamed_secrets import MAX_TEXTS, SecretFreeText
from addon.dialects.responses.native_events import whole_event, with_delta
from addon.text.masking import is_unmistakable

type Place = tuple[Any, ...]

_PLACE: Final = ("type", "output_index", "content_index", "summary_index", "command_index")


class DeltaSecrets:
    """Masks secrets in the texts of all items of one stream."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = tuple(filter(is_unmistakable, secrets))
        self.is_needed = bool(self._secrets)
        self._texts: dict[Place, SecretFreeText] = {}
        self._waiting: tuple[Event, str, Place] | None = None
        """An event, the part of its text that may be shown, and the place of that text."""

    @property
    def is_waiting(self) -> bool:
        """Whether an event waits."""
        return self._waiting is not None

    def read(self, event: Event, chunk: Mapping[str, Any]) -> bytes:
        """Return the events for a delta, without secrets: none while it waits."""
        place, piece = _place(chunk), chunk["delta"]
        before = b"" if self._waiting and self._waiting[2] == place else self.release()
        known = self._texts.get(place)
        if known is None:
            if len(self._texts) >= MAX_TEXTS:
                return before + whole_event(event)
            known = self._texts[place] = SecretFreeText(self._secrets)
        shown = known.read(piece)
        if self._waiting:
            before, self._waiting = with_delta(*self._waiting[:2]), None
        if known.held:
            self._waiting = (event, shown, place)
            return before
        return before + (whole_event(event) if shown == piece else with_delta(event, shown))

    def release(self) -> bytes:
        """Return the event that waits, because something else follows than the rest of its text."""
        if self._waiting is None:
            return b""
        event, shown, place = self._waiting
        self._waiting = None
        return with_delta(event, shown + self._texts[place].end())

    def follow(self, chunk: Mapping[str, Any]) -> Callable[[str], bool] | None:
        """Return the function that takes the next text of the place of a delta; see ``SecretFreeText.is_clear``."""
        known = self._texts.get(_place(chunk))
        return known.is_clear if known else None


def _place(chunk: Mapping[str, Any]) -> Place:
    """Return what is the same in all deltas of one text."""
    values = [chunk.get(name) for name in _PLACE]
    return tuple([value if type(value) in (int, str) else None for value in values])
