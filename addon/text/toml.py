"""TOML texts in bounded time: ``load_toml``, and ``find_statements`` for edits of single lines. Pure.

``tomllib`` takes time in the square of the parts of a key: a key of 50,000 parts keeps it busy for minutes. So each
text is checked first, in linear time. No other module may import ``tomllib``.
"""

import re
import tomllib
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final

MAX_KEY_PARTS: Final = 16
"""The most parts of a dotted key, also in a header. The settings need four."""
MAX_DEPTH: Final = 64
"""How deep arrays and tables may be nested in each other. The settings need four."""
MAX_INTEGER: Final = 2**63 - 1
"""The largest integer of TOML. The smallest is one less than its negative."""
MAX_REASON_CHARS: Final = 300

_TOKEN: Final = re.compile(
    r"""
    (?P<comment> \#[^\n]*+ )
    | (?P<string>
        \"\"\" (?: [^"\\]++ | \\. | "(?!"") )*+ (?: "{3,5} | \\?\Z )
        | ''' (?: [^']++ | '(?!'') )*+ (?: '{3,5} | \Z )
        | " (?: [^"\\\n]++ | \\[^\n] )*+ "?
        | ' [^'\n]*+ '?
      )
    | (?P<sign> [\n\[\]{}.] )
    | (?P<space> [ \t\r]++ )
    | (?P<word> [A-Za-z0-9_-]++ )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)


class TomlError(ValueError):
    """The reason why a text can't be read, with the number of its line. ``str`` is one short line."""


_KEY_PARTS: Final = re.compile(r"""["']([^"']*)["']|([A-Za-z0-9_-]+)|\[([0-9]+)\]""")


def load_toml(text: str) -> dict[str, Any]:
    """Return the tables of a text, as ``tomllib.loads`` does, in linear time. Raises TomlError."""
    # Most texts have no line with so many dots.
    has_many = any(line.count(".") >= MAX_KEY_PARTS for line in text.split("\n"))
    if has_many and (line := _find_long_key(text)):
        raise TomlError(f"a key has more than {MAX_KEY_PARTS} parts (at line {line})")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlError(_shorten(str(error))) from None
    except ValueError:
        # Python refuses to read an integer of more than 4,300 digits.
        raise TomlError(f"an integer has more than 64 bits{_name_line(_find_long_word(text))}") from None
    except RecursionError:
        raise _too_deep(text) from None
    _check_values(table, text)
    return table


def find_statements(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each statement of a text begins and ends: a header, or a key with its value. In linear time.

    The end is that of the header or value: without a comment, blanks and the end of the line. The text is one that
    ``load_toml`` accepts.
    """
    start = end = -1
    depth = 0
    for found in _read_tokens(text):
        if found[0] == "\n" and depth == 0:
            if start >= 0:
                yield start, end
            start = -1
        elif found.lastgroup not in ("space", "comment") and found[0] != "\n":
            depth = max(0, depth + _step(found[0]))
            start, end = found.start() if start < 0 else start, found.end()
    if start >= 0:
        yield start, end


def find_line(text: str, name: str) -> int | None:
    """Return the number of the line with the first key or header ``name``, None where it is written in another way.

    The text is one that ``load_toml`` accepts.
    """
    for start, end in find_statements(text):
        statement = text[start:end].lstrip("[ \t")
        for written in (name, f'"{name}"', f"'{name}'"):
            if statement.startswith(written) and statement[len(written) :].lstrip(" \t")[:1] in (
                "=",
                ".",
                "]",
            ):
                return _line_of(text, start)
    return None


def find_key_line(text: str, key: str) -> int | None:
    """Return the number of the line of a key path such as ``"gpt-5.4".tiers[1].input_price_per_m``.

    Where it is not there, return that of the nearest table around it, and None where there is none. A key inside of
    another one's value has the line of that key. The text is one that ``load_toml`` accepts.
    """
    wanted = [quoted or bare or int(index) for quoted, bare, index in _KEY_PARTS.findall(key)]
    here: list[str | int] = []
    arrays: dict[tuple[str | int, ...], int] = {}
    deepest, nearest = 0, None
    for start, end in find_statements(text):
        statement = text[start:end]
        if statement.startswith("["):
            here = _read_header(statement, arrays)
            depth = _count_equal(here, wanted)
        elif here == wanted[: len(here)]:
            depth = len(here) + _count_found(load_toml(statement), wanted[len(here) :])
        else:
            continue
        if depth > deepest:
            deepest, nearest = depth, _line_of(text, start)
    return nearest


def _read_header(statement: str, arrays: dict[tuple[str | int, ...], int]) -> list[str | int]:
    """Return the path of a header. ``arrays`` has the place of the last table of each array of tables."""
    here: list[str | int] = []
    value: Any = load_toml(statement)
    while value:
        [(name, value)] = value.items()
        here.append(name)
        if isinstance(value, list):
            arrays[*here] = arrays.get((*here,), -1) + 1
            value = {}
        if (*here,) in arrays:
            here.append(arrays[*here])
    return here


def _count_equal(path: list[str | int], wanted: list[str | int]) -> int:
    """Return with how many equal parts both begin."""
    pairs = zip(path, wanted, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _count_found(value: Any, path: list[str | int]) -> int:
    """Return how many parts of a path a value has."""
    for depth, part in enumerate(path):
        has_part = (
            part in value
            if isinstance(value, dict)
            else isinstance(value, list) and part in range(len(value))
        )
        if not has_part:
            return depth
        value = value[part]
    return len(path)


def _read_tokens(text: str) -> Iterator[re.Match[str]]:
    """Yield the tokens of any text, each as the match of the group that names its kind."""
    place = 0
    while found := _TOKEN.match(text, place):
        yield found
        place = found.end()


def _step(token: str) -> int:
    return 1 if token in ("[", "{") else -1 if token in ("]", "}") else 0


def _find_long_key(text: str) -> int | None:
    """Return the number of the first line with a key of too many parts."""
    dots = 0
    for found in _read_tokens(text):
        if found[0] == ".":
            dots += 1
            if dots >= MAX_KEY_PARTS:
                return _line_of(text, found.start())
        elif found.lastgroup in ("sign", "comment", "other"):
            dots = 0
    return None


def _find_long_word(text: str) -> int | None:
    """Return the number of the first line with an integer of too many digits."""
    long = (one for one in _read_tokens(text) if one.lastgroup == "word" and one.end() - one.start() > 4000)
    return next((_line_of(text, one.start()) for one in long), None)


def _too_deep(text: str) -> TomlError:
    """Return the error of a text, with the line of the innermost bracket."""
    depth = deepest = place = 0
    for found in _read_tokens(text):
        depth = max(0, depth + _step(found[0]))
        if depth > deepest:
            deepest, place = depth, found.start()
    return TomlError(f"nested too deeply (at line {_line_of(text, place)})")


def _check_values(table: dict[str, Any], text: str) -> None:
    """Raise TomlError for nesting that is too deep, and for an integer that TOML can't have."""
    level: list[Any] = [table]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for one in level:
            for value in one.values() if isinstance(one, dict) else one:
                if isinstance(value, dict | list):
                    below.append(value)
                elif isinstance(value, int) and not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
                    raise TomlError(f"an integer has more than 64 bits{_name_line(_find_integer(text))}")
        level = below
        if not level:
            return
    raise _too_deep(text)


def _find_integer(text: str) -> int | None:
    """Return the number of the first line with an integer of more than 64 bits."""
    for found in _read_tokens(text):
        if found.lastgroup == "word" and len(found[0]) > 16:
            try:
                value = int(found[0], 0)
            except ValueError:
                continue
            if not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
                return _line_of(text, found.start())
    return None


def _line_of(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _name_line(line: int | None) -> str:
    return "" if line is None else f" (at line {line})"


def _shorten(reason: str) -> str:
    """Return a reason that may quote a key, with its end, which has the line."""
    half = MAX_REASON_CHARS // 2
    return reason if len(reason) <= MAX_REASON_CHARS else f"{reason[:half]}…{reason[-half:]}"
