"""``HiddenText``: the text of a file without its hashes and secrets, and the way back to the whole text. Pure.

Each hidden value has a number, as in ``hash = "sha256:(unchanged 1)"``. A person can move and remove such a line. The
value itself never leaves this machine, and can only be where it was: in the same key of a table.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from addon.text.masking import MASK, mask_credentials
from addon.text.toml import TomlError, load_toml

SECRET_KEYS: Final = ("hash", "previous_hash", "secret")
MULTI_LINE: Final = (
    "a hash or a secret in three quotes can't be hidden; write it in one line with a text editor first"
)

_WORD: Final = "unchanged"
_HEX: Final = re.compile(r"[0-9A-Fa-f]{32,}|(?<=sha256:)[0-9A-Fa-f]{4,}")
_SEALED: Final = re.compile(r"(?<=sealed:)[A-Za-z0-9_=-]+|gAAAAA[A-Za-z0-9_=-]{16,}")
_KEY: Final = rf"""(?<![\w-])["']?(?:{"|".join(SECRET_KEYS)})["']?[ \t]*=[ \t]*"""
_KEY_BEFORE: Final = re.compile(_KEY)
_STRING: Final = re.compile(r""""((?:[^"\\]|\\.)*)"|'([^']*)'""")
_THREE_QUOTES: Final = re.compile(rf"""{_KEY}(?:\"\"\"|''')""")
_SHOWN_PLACE: Final = re.compile(r"env:\w{1,128}|file:[\w./-]{1,512}")


class HiddenValueError(ValueError):
    """The reason why a typed text is refused. ``str`` has the number of the line and no value."""


@dataclass(frozen=True, slots=True)
class HiddenText:
    """A text whose hidden values are ``originals``, each by its number from 1 on, marked with ``word``."""

    text: str
    word: str
    originals: Sequence[str] = field(repr=False)

    def restore(self, typed: str) -> str:
        """Return a typed text with the hidden values in it. Raises HiddenValueError."""
        if quoted := _THREE_QUOTES.search(typed):
            begin = typed.count("\n", 0, quoted.start()) + 1
            raise HiddenValueError(
                f"line {begin} has a hash or a secret in three quotes; write it in one line"
            )
        marker = _marker(self.word)
        shown = set(self.text.split("\n"))
        used: set[int] = set()
        restored = []
        for number, line in enumerate(typed.split("\n"), 1):
            if line not in shown and _find_spans(line, marker):
                raise HiddenValueError(
                    f"line {number} has a hash or a secret; keys are made with the form of keys, and secrets are set"
                    " with the form of own keys"
                )
            for found in marker.finditer(line):
                place = int(found[1])
                if not 1 <= place <= len(self.originals):
                    raise HiddenValueError(f"line {number} has {found[0]}, and there is no such value")
                if place in used:
                    raise HiddenValueError(f"line {number} has {found[0]} a second time")
                used.add(place)
            restored.append(marker.sub(lambda found: self.originals[int(found[1]) - 1], line))
        text = "\n".join(restored)
        self._check_places(typed, text)
        return text

    def _check_places(self, typed: str, restored: str) -> None:
        """Raise HiddenValueError for a value in a key that pages show. A key that had it before may keep it."""
        marker, tables = _marker(self.word), _parse(typed)
        if tables is None:
            # A text that is not TOML is not saved. The quotes must not come with the value.
            if typed != self.text and _parse(restored) is not None:
                raise HiddenValueError("a hidden value must be in quotes of its own")
            return
        kept = set(_find_texts(_parse(self.text) or {}))
        for name, text in _find_texts(tables):
            if name not in SECRET_KEYS and marker.search(text) and (name, text) not in kept:
                raise HiddenValueError(
                    f"the key {name or 'with a name of its own'} can't have a hidden value"
                )


def hide_values(text: str) -> HiddenText:
    """Return a text without its hashes and secrets. Raises HiddenValueError when one can't be hidden."""
    if _THREE_QUOTES.search(text):
        raise HiddenValueError(MULTI_LINE)
    word = _WORD
    while f"({word} " in text:
        word += "-"
    originals: list[str] = []
    lines = []
    for line in text.split("\n"):
        shown, place = "", 0
        for begin, end in _find_spans(line, None):
            originals.append(line[begin:end])
            shown += f"{line[place:begin]}({word} {len(originals)})"
            place = end
        lines.append(shown + line[place:])
    return HiddenText("\n".join(lines), word, originals)


def mask_values(text: str) -> str:
    """Return a typed text that may be shown again: what looks like a hash or a secret is ``***``."""
    text = _mask_three_quoted(text)
    lines = []
    for line in text.split("\n"):
        for begin, end in reversed(_find_spans(line, _marker(f"{_WORD}-*"))):
            line = line[:begin] + MASK + line[end:]
        lines.append(line)
    return "\n".join(lines)


def _mask_three_quoted(text: str) -> str:
    """Return a text in which the hashes and secrets in three quotes are ``***``."""
    parts, place = [], 0
    while found := _THREE_QUOTES.search(text, place):
        parts += [text[place : found.end()], MASK]
        place = text.find(text[found.end() - 3 : found.end()], found.end())
        if place < 0:
            return "".join(parts)
        parts.append(text[place : place + 3])
        place += 3
    return "".join([*parts, text[place:]])


def _parse(text: str) -> Mapping[str, Any] | None:
    """Return the tables of a text, None when it is not TOML."""
    try:
        return load_toml(text)
    except TomlError:
        return None


def _find_texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text in a table, and each name of a key, with the name of its key."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, below in value.items():
            yield "", key
            yield from _find_texts(below, key)
    elif isinstance(value, list):
        for below in value:
            yield from _find_texts(below, name)


def _marker(word: str) -> re.Pattern[str]:
    return re.compile(rf"\({word} ([0-9]{{1,6}})\)")


def _find_spans(line: str, marker: re.Pattern[str] | None) -> list[tuple[int, int]]:
    """Return where a line has values to hide, in their order. A marked value is hidden already."""
    spans = []
    for value, start in _find_values(line):
        spans += _find_in_value(value, start, marker)
    for pattern in (_HEX, _SEALED):
        spans += [found.span() for found in pattern.finditer(line)]
    spans = _merge(spans)
    return _merge(spans + _find_credentials(line, spans))


def _find_values(line: str) -> Iterator[tuple[str, int]]:
    """Return the values of keys for secrets, without quotes, with their places. Without a closing quote: the rest."""
    end = 0
    while key := _KEY_BEFORE.search(line, end):
        if found := _STRING.match(line, key.end()):
            group = 1 if found[1] is not None else 2
            yield found[group], found.start(group)
            end = found.end()
            continue
        rest = line[key.end() :].partition("\r")[0]
        if rest and not rest[0].isspace():
            yield rest, key.end()
        return


def _find_in_value(value: str, start: int, marker: re.Pattern[str] | None) -> list[tuple[int, int]]:
    """Return the part to hide of the value of a key for secrets. ``env:NAME`` only says where one is: hide nothing."""
    scheme = next((one for one in ("sha256:", "sealed:") if value.startswith(one)), "")
    rest = value.removeprefix(scheme)
    if not rest or _SHOWN_PLACE.fullmatch(value) or (marker and marker.fullmatch(rest)):
        return []
    return [(start + len(scheme), start + len(value))]


def _find_credentials(line: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return one span around everything else that looks like a credential."""
    for begin, end in spans:
        line = line[:begin] + "." * (end - begin) + line[end:]
    masked = mask_credentials(line)
    if masked == line:
        return []
    shorter = min(len(line), len(masked))
    begin = next((at for at in range(shorter) if line[at] != masked[at]), shorter)
    rest = shorter - begin
    tail = next((at for at in range(rest) if line[-1 - at] != masked[-1 - at]), rest)
    return [(begin, len(line) - tail)]


def _merge(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in their order, those that overlap as one."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
