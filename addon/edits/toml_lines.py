"""Edits of a TOML file's text: set, add and remove keys of one table. All other lines stay byte for byte. Pure.

A statement may have several lines. Each edit parses its result, which must have the meaning that is wanted.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Final

from addon.text.toml import TomlError, find_statements, load_toml

type Value = str | int | bool | datetime | Sequence[str] | Sequence[int]
"""A value of a table. A moment has a time zone."""
type Changes = Mapping[str, Value | None]
"""New values by key. None removes a key."""

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
NOT_LINES: Final = (
    "can't be edited line by line; write its keys as [[keys]] tables, its rules as [[rules]] tables, and each setting"
    " on lines of its own"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One header, or one key with its value: the lines from ``start`` up to ``end``, and what they parse to."""

    start: int
    end: int
    is_header: bool
    parsed: Mapping[str, Any]


def set_values(text: str, changes: Changes, array: str | None = None, index: int = 0) -> str:
    """Return the text with ``changes`` in its top level, or in table ``index`` of the array of tables ``array``.

    A changed value keeps its place and the comment after it. A new key goes below the last one of its table. Raises
    ``ValueError`` for a text that can't be edited in this way.
    """
    expected = load_toml(text)
    _apply(changes, expected if array is None else expected[array][index])
    header: Mapping[str, Any] | None = None if array is None else {array: [{}]}
    return check_meaning(_set_values(text, changes, header, index), expected)


def set_table_values(text: str, changes: Changes, *path: str) -> str:
    """Return the text with ``changes`` in the table of this dotted name. Else as ``set_values``."""
    expected = table = load_toml(text)
    for name in path:
        table = table[name]
    _apply(changes, table)
    return check_meaning(_set_values(text, changes, make_header(*path), 0), expected)


def make_header(*path: str) -> dict[str, Any]:
    """Return what the header of the table of a dotted name parses to."""
    header: dict[str, Any] = {}
    for name in reversed(path):
        header = {name: header}
    return header


def _set_values(text: str, changes: Changes, header: Mapping[str, Any] | None, index: int) -> str:
    """Return the text with ``changes`` in table ``index`` of those with this header, or in the top level."""
    lines = split_lines(text)
    for key, value in changes.items():
        table = find_table(read_statements(lines), header, index)
        found = next((one for one in table if not one.is_header and [*one.parsed] == [key]), None)
        if found is None:
            if value is not None:
                _insert(lines, table, f"{key} = {format_value(value)}", find_line_end(text))
        elif value is None:
            del lines[found.start : found.end]
        elif found.parsed[key] != _parse(value):
            lines[found.start : found.end] = [_replace_value(lines[found.start : found.end], value)]
    return "".join(lines)


def split_lines(text: str) -> list[str]:
    """Return the lines with their ends. Only a line feed ends a line in TOML, also after a carriage return."""
    *lines, rest = text.split("\n")
    return [f"{line}\n" for line in lines] + ([rest] if rest else [])


def add_table(text: str, array: str, values: Mapping[str, Value]) -> str:
    """Return the text with one more table of the array of tables ``array``. Raises ``ValueError``.

    The table goes to the end. There it can't separate a comment from the table below it, and TOML allows it anywhere.
    """
    expected = load_toml(text)
    expected[array] = [*expected.get(array, []), parse_values(values)]
    return check_meaning(_append_table(text, f"[[{array}]]", values), expected)


def add_named_table(text: str, values: Mapping[str, Value], *path: str) -> str:
    """Return the text with a table of this dotted name at its end. Raises ``ValueError``."""
    expected = table = load_toml(text)
    for name in path[:-1]:
        table = table.setdefault(name, {})
    if path[-1] in table:
        raise ValueError(NOT_LINES)
    table[path[-1]] = parse_values(values)
    names = (name if _BARE_KEY.fullmatch(name) else format_value(name) for name in path)
    return check_meaning(_append_table(text, f"[{'.'.join(names)}]", values), expected)


def _append_table(text: str, header: str, values: Mapping[str, Value]) -> str:
    end = find_line_end(text)
    return text.rstrip() + end + end.join(["", header, *format_lines(values), ""])


def format_lines(values: Mapping[str, Value]) -> list[str]:
    """Return the lines of a table below its header."""
    return [f"{key} = {format_value(value)}" for key, value in values.items()]


def parse_values(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return values as ``load_toml`` reads them."""
    return {key: _parse(value) for key, value in values.items()}


def describe_changes(changes: Changes) -> str:
    """Return what changes did, in the file's own keys: ``label, models set; expires_at removed``."""
    given = [key for key, value in changes.items() if value is not None]
    removed = [key for key, value in changes.items() if value is None]
    parts = [f"{', '.join(given)} set"] * bool(given) + [f"{', '.join(removed)} removed"] * bool(removed)
    return "; ".join(parts)


def format_value(value: Value) -> str:
    """Return a value in TOML. Moments are in UTC, in whole seconds."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    if isinstance(value, str):
        # TOML has the escapes of JSON, and wants one more character escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"[{', '.join(map(format_value, value))}]"


def _apply(changes: Changes, table: dict[str, Any]) -> None:
    for key, value in changes.items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = _parse(value)


def _parse(value: Value) -> Any:
    """Return a value as ``load_toml`` reads it."""
    return load_toml(f"x = {format_value(value)}")["x"]


def find_table(
    statements: Iterable[Statement], header: Mapping[str, Any] | None, index: int
) -> list[Statement]:
    """Return the statements of one table, its header included. Raises ``ValueError``."""
    table: list[Statement] = []
    count, is_inside = -1, header is None
    for statement in statements:
        if statement.is_header:
            is_inside = header is not None and statement.parsed == header
            count += is_inside
            is_inside = is_inside and count == index
        if is_inside:
            table.append(statement)
    if header is not None and not table:
        raise ValueError(NOT_LINES)
    return table


def read_statements(lines: Sequence[str]) -> Iterator[Statement]:
    """Yield the statements of a text that is TOML. Raises ``ValueError`` for two statements that share a line."""
    text = "".join(lines)
    starts = [0, *accumulate(map(len, lines))]
    for start, end in find_statements(text):
        first, after = bisect_right(starts, start) - 1, bisect_left(starts, end)
        try:
            parsed = load_toml("".join(lines[first:after]))
        except TomlError:
            raise ValueError(NOT_LINES) from None
        yield Statement(first, after, text.startswith("[", start), parsed)


def _insert(lines: list[str], table: Sequence[Statement], line: str, line_end: str) -> None:
    """Insert a line below the last key of a table, with the indentation of that key."""
    place = table[-1].end if table else 0
    indentation = ""
    if table and not table[-1].is_header:
        above = lines[table[-1].start]
        indentation = above[: len(above) - len(above.lstrip())]
    if place and not lines[place - 1].endswith("\n"):
        lines[place - 1] += line_end
    lines.insert(place, f"{indentation}{line}{line_end}")


def _replace_value(statement: Sequence[str], value: Value) -> str:
    """Return a statement with another value. The comment behind the old value stays."""
    text = "".join(statement)
    begin = text.index("=") + 1
    while text[begin : begin + 1] in (" ", "\t"):
        begin += 1
    _, end = next(find_statements(text))
    return text[:begin] + format_value(value) + text[end:]


def find_line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def check_meaning(text: str, expected: dict[str, Any]) -> str:
    with suppress(TomlError):
        if load_toml(text) == expected:
            return text
    raise ValueError(NOT_LINES)
