"""The difference of two texts of a workspace file, as people see it: without secrets and hashes of keys. Pure."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, override

from addon.text.masking import MASK, mask_credentials
from addon.text.sequence_diff import Edit, compare
from addon.text.unprintable import escape_unprintable

type Kind = Literal["added", "removed", "same", "place"]

NO_KEY_YET: Final = "0" * 64
"""The hash in a plan that is only shown. A key is made when the plan is applied."""
MAX_LINES: Final = 2000
"""The most lines of a difference that are shown."""
MAX_LINE_CHARS: Final = 500

_SIGNS: Final[dict[str, Kind]] = {"+": "added", "-": "removed", " ": "same"}
_PREFIXES: Final[dict[Kind, str]] = {"added": "+", "removed": "-", "same": " ", "place": ""}
# Also in an inline table and with a quoted name. The value of such a key may be in any notation of TOML.
_HIDDEN: Final = re.compile(r"""((?<![\w-])["']?(hash|previous_hash|secret)["']?\s*+=\s*+)(.*)""")
_REFERENCE: Final = re.compile(
    r"""\"(?:env:\w{1,128}|file:[\w./-]{1,512})\"|'(?:env:\w{1,128}|file:[\w./-]{1,512})'"""
)
_LONG_HEX: Final = re.compile(r"[0-9A-Fa-f]{32,}")
_NEW_HASH: Final = "(the hash of the new key, which is made when you confirm)"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line. ``place`` says where in the file the next lines are."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return _PREFIXES[self.kind] + self.text


def make_diff(before: str, after: str, context: int = 3) -> tuple[DiffLine, ...]:
    """Return the lines that differ, with some equal ones around them."""
    return tuple(_bound(list(_compare(before, after, context))))


def read_diff(text: str) -> tuple[DiffLine, ...]:
    """Return the lines that ``str`` of each ``DiffLine`` has made, one a line."""
    lines = ((_SIGNS.get(line[:1], "place"), line) for line in text.split("\n") if line)
    return tuple(DiffLine(kind, line if kind == "place" else line[1:]) for kind, line in lines)


class _Matcher(difflib.SequenceMatcher[str]):
    """A matcher whose time is bounded."""

    def __init__(self, before: list[str], after: list[str]) -> None:
        super().__init__()
        self._edits = compare(before, after)

    @override
    def get_opcodes(self) -> list[Edit]:
        return self._edits


def _compare(before: str, after: str, context: int) -> Iterator[DiffLine]:
    old, new = _split(before), _split(after)
    for edits in _Matcher(old, new).get_grouped_opcodes(context):
        (_, start, _, new_start, _), (_, _, end, _, new_end) = edits[0], edits[-1]
        yield DiffLine("place", f"@@ -{_name_range(start, end)} +{_name_range(new_start, new_end)} @@")
        for kind, first, last, new_first, new_last in edits:
            if kind == "equal":
                yield from (DiffLine("same", _mask(line)) for line in old[first:last])
                continue
            yield from (DiffLine("removed", _mask(line)) for line in old[first:last])
            yield from (DiffLine("added", _mask(line)) for line in new[new_first:new_last])


def _name_range(start: int, end: int) -> str:
    """Return lines as the header of a unified difference has them."""
    if end - start == 1:
        return str(start + 1)
    return f"{start + (end > start)},{end - start}"


def _split(text: str) -> list[str]:
    """Return the lines. A line feed at the end begins no further one."""
    return text.removesuffix("\n").split("\n") if text else []


def _bound(lines: Sequence[DiffLine]) -> Sequence[DiffLine]:
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[:MAX_LINES], DiffLine("place", f"… {len(lines) - MAX_LINES} more lines")]


def _mask(line: str) -> str:
    if NO_KEY_YET in line:
        return _HIDDEN.sub(rf"\g<1>{_NEW_HASH}", line)
    line = _HIDDEN.sub(_hide, line)
    shown = escape_unprintable(mask_credentials(_LONG_HEX.sub(MASK, line)).rstrip("\r"))
    return shown if len(shown) <= MAX_LINE_CHARS else f"{shown[:MAX_LINE_CHARS]}…"


def _hide(found: re.Match[str]) -> str:
    """Hide the value, and what follows it in the line. Show where a secret is (``env:NAME``): that is not secret."""
    name, value = found[2], found[3]
    reference = _REFERENCE.match(value) if name == "secret" else None
    return f"{found[1]}{reference[0]}" if reference else f"{found[1]}{MASK}"
