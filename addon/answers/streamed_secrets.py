"""The texts of one stream without the secrets of its call, however the texts are cut into chunks. Pure.

Clients join the pieces of a text, so a key that comes in two pieces is a key. A text that may be the beginning of a
secret is held. It is sent when its next piece shows that it is harmless, or when its choice goes on with something
else. No other text waits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from addon.answers.normalize.edits import keep_if_same
from addon.text.masking import MASK, MIN_FRAGMENT_CHARS, is_unmistakable

MIN_BEGINNING_CHARS = 4
"""A shorter beginning of a secret is of no use to anyone, and many words end with one."""

MAX_TEXTS = 4_096
"""How many texts of one answer are followed. Each piece of any other text is read alone."""

MAX_FOLLOWED = 2
"""Some providers send reasoning under two names."""

type Path = tuple[str | int, ...]
"""The place of a text in a delta: names, and the ``index`` of an element of a list."""

_PLAIN = ("content", "reasoning_content", "reasoning", "refusal")
_IN_LISTS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "tool_calls": (("function", "arguments"), ("custom", "input")),
    "reasoning_details": (("text",), ("summary",), ("signature",), ("data",)),
}


class SecretFreeText:
    """One text that grows piece by piece."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self.held = ""
        self._secrets = secrets
        self._beginnings = tuple(secret[:MIN_BEGINNING_CHARS] for secret in secrets)
        self._shown = ""  # the end of the text that was let through

    def is_clear(self, piece: str) -> bool:
        """Take the next piece and return True, or return False and do nothing when it may touch a secret."""
        text = self._shown + piece
        if self.held:
            return False
        for beginning in self._beginnings:
            if beginning in text:
                return False
        self._shown = text[1 - MIN_FRAGMENT_CHARS :]
        return True

    @staticmethod
    def are_clear(texts: Sequence["SecretFreeText"], piece: str) -> bool:
        """Do as ``is_clear`` for all ``texts``, which get the same piece."""
        before = [text._shown for text in texts]
        if all([text.is_clear(piece) for text in texts]):  # noqa: C419  (a list costs no calls)
            return True
        for text, shown in zip(texts, before, strict=True):
            text._shown = shown
        return False

    def read(self, piece: str) -> str:
        """Take the next piece; return the text that may be shown now."""
        if self.is_clear(piece):
            return piece
        text, at, begin = self._shown + self.held + piece, len(self._shown), 0
        shown: list[str] = []
        for start, end in self._find_secrets(text):
            shown += (text[at:start], MASK)
            at = begin = end
        beginning = len(text) - self._beginning_chars(text[begin:])
        cut = max(at, beginning)
        self.held = text[cut:]
        self._shown = text[max(begin, min(beginning, cut + 1 - MIN_FRAGMENT_CHARS)) : cut]
        return "".join([*shown, text[at:cut]])

    def end(self) -> str:
        """Return the held text, because another text follows. More of this text may still come later."""
        held, self.held = self.held, ""
        begun = self._shown + held
        is_secret = self._beginning_chars(begun) >= MIN_FRAGMENT_CHARS
        self._shown = begun
        return MASK if is_secret and held else held

    def _find_secrets(self, text: str) -> Iterable[tuple[int, int]]:
        """Yield the start and end of each secret, from left to right; no two overlap."""
        at = 0
        while True:
            places = [(start, -len(one)) for one in self._secrets if (start := text.find(one, at)) >= 0]
            if not places:
                return
            start, length = min(places)
            at = start - length
            yield start, at

    def _beginning_chars(self, text: str) -> int:
        """Return how many characters at the end of ``text`` may be the beginning of a secret."""
        longest = 0
        for secret in self._secrets:
            lengths = range(min(len(text), len(secret) - 1), max(longest, MIN_BEGINNING_CHARS - 1), -1)
            longest = next((length for length in lengths if text.endswith(secret[:length])), longest)
        return longest


def clears(texts: Sequence[SecretFreeText]) -> Callable[[str], bool]:
    """Return the function ``is_clear`` of all ``texts``."""
    return texts[0].is_clear if len(texts) == 1 else partial(SecretFreeText.are_clear, texts)


class StreamedSecrets:
    """Masks secrets in the texts of all choices of one stream."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self.followed: tuple[SecretFreeText, ...] = ()
        """The texts of the chunk that was read last, if it had one or two and nothing is held."""
        self.is_textless = False
        """The chunk that was read last had no text, and nothing is held."""
        self._secrets = tuple(filter(is_unmistakable, secrets))
        self.is_needed = bool(self._secrets)
        self._texts: dict[Path, SecretFreeText] = {}
        self._holding: set[Path] = set()

    def mask(self, choices: list[Any]) -> list[Any]:
        """Return the choices of the next chunk without secrets: the same list when nothing changes."""
        self.followed, self.is_textless = (), False
        if not self._secrets or self._is_clear(choices):
            return choices
        read: list[Path] = []
        made = [self._choice(choice, read) for choice in choices]
        if 1 <= len(read) <= MAX_FOLLOWED and not self._holding:
            found = [self._texts[place] for place in read if place in self._texts]
            self.followed = tuple(found) if len(found) == len(read) else ()  # One is beyond ``MAX_TEXTS``.
        return keep_if_same(choices, made)

    def finish(self) -> list[dict[str, Any]]:
        """Return choices with the texts that are still held at the end of the stream."""
        indexes = sorted({index for index, *_ in self._holding if isinstance(index, int)})
        return [
            {"index": index, "delta": self._end_texts({}, index), "finish_reason": None} for index in indexes
        ]

    def _is_clear(self, choices: list[Any]) -> bool:
        """Take a chunk of no text, or of one that touches no secret, and return True. Nearly every chunk is one."""
        if len(choices) != 1 or self._holding or type(choices[0]) is not dict:
            return False
        delta, place, piece = choices[0].get("delta"), None, ""
        for name, value in delta.items() if type(delta) is dict else ():
            if value and name != "role":
                if place or name not in _PLAIN or type(value) is not str:
                    return False
                place, piece = (choices[0].get("index", 0), name), value
        if place is None:
            self.is_textless = True
            return True
        text = self._texts.get(place)
        if text is None or not text.is_clear(piece):
            return False
        self.followed = (text,)
        return True

    def _choice(self, choice: dict[str, Any], read: list[Path]) -> dict[str, Any]:
        index, delta = choice.get("index", 0), choice.get("delta")
        if not isinstance(delta, dict):
            return choice
        made, begun = delta, len(read)
        for path, text in _texts_of(delta):
            place = (index, *path)
            read.append(place)
            if (shown := self._read(place, text)) != text:
                made = _with_text(made, path, shown)
        ends = choice.get("finish_reason") is not None
        if self._holding:
            made = self._end_texts(made, index, frozenset() if ends else frozenset(read[begun:]))
        return choice if made is delta else {**choice, "delta": made}

    def _read(self, place: Path, text: str) -> str:
        known = self._texts.get(place)
        if known is None and len(self._texts) >= MAX_TEXTS:
            return text
        if known is None:
            known = self._texts[place] = SecretFreeText(self._secrets)
        shown = known.read(text)
        if known.held:
            self._holding.add(place)
        else:
            self._holding.discard(place)
        return shown

    def _end_texts(
        self, delta: dict[str, Any], index: int, but: frozenset[Path] = frozenset()
    ) -> dict[str, Any]:
        """Return ``delta`` with the held texts of this choice, except those at ``but``."""
        for place in sorted(self._holding - but, key=str):
            if place[0] == index:
                self._holding.discard(place)
                before = dict(_texts_of(delta)).get(place[1:], "")
                delta = _with_text(delta, place[1:], before + self._texts[place].end())
        return delta


def _texts_of(delta: Mapping[str, Any]) -> Iterable[tuple[Path, str]]:
    """Yield the texts of a delta that clients join with those of other deltas, and their places."""
    for name in _PLAIN:
        if (text := delta.get(name)) and isinstance(text, str):
            yield (name,), text
    for name, inside in _IN_LISTS.items():
        elements = delta.get(name)
        for element in elements if isinstance(elements, list) else ():
            if not isinstance(element, dict) or type(element.get("index")) is not int:
                continue
            for path in inside:
                holder = element if len(path) == 1 else element.get(path[0])
                text = holder.get(path[-1]) if isinstance(holder, dict) else None
                if text and isinstance(text, str):
                    yield (name, element["index"], *path), text


def _with_text(value: dict[str, Any], path: Path, text: str) -> dict[str, Any]:
    """Return ``value`` with ``text`` at ``path``. Objects and elements on the path are made when they are missing."""
    name, *rest = path
    if not rest:
        return {**value, str(name): text}
    inner = value.get(str(name))
    if not isinstance(rest[0], int):
        return {**value, str(name): _with_text(inner if isinstance(inner, dict) else {}, tuple(rest), text)}
    number, *deeper = rest
    elements = inner if isinstance(inner, list) else []
    at = [place for place, one in enumerate(elements) if isinstance(one, dict) and one.get("index") == number]
    element = elements[at[-1]] if at else {"index": number}
    made = _with_text(element, tuple(deeper), text)
    changed = (
        [made if place == at[-1] else one for place, one in enumerate(elements)] if at else [made, *elements]
    )
    return {**value, str(name): changed}
