"""Edits of whole tables of a TOML file's text: insert, remove and order them. All other lines stay. Pure.

A table has the comments directly above its header, and those directly below its last key if a blank line follows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from addon.edits.toml_lines import (
    NOT_LINES,
    Value,
    add_table,
    check_meaning,
    find_line_end,
    format_lines,
    make_header,
    parse_values,
    read_statements,
    split_lines,
)
from addon.text.toml import load_toml


@dataclass(frozen=True, slots=True)
class _Block:
    """The lines of one table, from ``start`` up to ``end``."""

    start: int
    end: int


def insert_table(text: str, array: str, values: Mapping[str, Value], index: int) -> str:
    """Return the text with one more table at ``index`` of the array of tables ``array``. Raises ``ValueError``.

    A table that becomes the last one goes below the one before it; the first of all goes to the end of the file.
    """
    expected = load_toml(text)
    lines, end = _split(text), find_line_end(text)
    blocks = _find_array(lines, expected, array)
    if not blocks:
        return add_table(text, array, values)
    expected[array].insert(index, parse_values(values))
    added = [f"{line}{end}" for line in (f"[[{array}]]", *format_lines(values))]
    if index < len(blocks):
        place = blocks[index].start
        lines[place:place] = [*added, end]
        return check_meaning(_join(text, lines), expected)
    place = blocks[-1].end
    is_close = bool(lines[place:] and lines[place].strip())
    lines[place:place] = [end, *added, *([end] if is_close else [])]
    return check_meaning("".join(lines), expected)


def remove_table(text: str, array: str, index: int) -> str:
    """Return the text without table ``index`` of the array of tables ``array``. Raises ``ValueError``."""
    expected = load_toml(text)
    lines = _split(text)
    block = _find_array(lines, expected, array)[index]
    del expected[array][index]
    if not expected[array]:
        del expected[array]
    return check_meaning(_remove(text, lines, block), expected)


def remove_named_table(text: str, *path: str) -> str:
    """Return the text without the table of this dotted name. Raises ``ValueError``."""
    expected = table = load_toml(text)
    for name in path[:-1]:
        table = table[name]
    del table[path[-1]]
    if not table:
        # Without a header of its own, the table above is gone, too.
        del expected[path[0]]
    lines = _split(text)
    blocks = _find_blocks(lines, make_header(*path))
    if len(blocks) != 1:
        raise ValueError(NOT_LINES)
    return check_meaning(_remove(text, lines, blocks[0]), expected)


def order_tables(text: str, array: str, order: Sequence[int]) -> str:
    """Return the text with the tables of the array of tables ``array`` in this order of their indexes.

    The lines between them stay where they are. Raises ``ValueError``.
    """
    expected = load_toml(text)
    lines = _split(text)
    blocks = _find_array(lines, expected, array)
    if not blocks:
        return text
    expected[array] = [expected[array][index] for index in order]
    ordered: list[str] = []
    place = 0
    for block, chosen in zip(blocks, (blocks[index] for index in order), strict=True):
        ordered += lines[place : block.start] + lines[chosen.start : chosen.end]
        place = block.end
    return check_meaning(_join(text, ordered + lines[place:]), expected)


def _split(text: str) -> list[str]:
    """Return the lines, all of them with their ends."""
    lines = split_lines(text)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += find_line_end(text)
    return lines


def _join(text: str, lines: Sequence[str]) -> str:
    """Return the lines as a text that ends as ``text`` does."""
    joined = "".join(lines)
    return joined if text.endswith("\n") else joined.removesuffix(find_line_end(text))


def _remove(text: str, lines: list[str], block: _Block) -> str:
    """Return the text without a block. Between two blank lines, remove one of them as well."""
    above = lines[block.start - 1] if block.start else ""
    below = lines[block.end] if block.end < len(lines) else ""
    del lines[block.start : block.end]
    if not above.strip() and not below.strip():
        if below:
            del lines[block.start]
        elif above:
            del lines[block.start - 1]
    return _join(text, lines)


def _find_array(lines: Sequence[str], parsed: Mapping[str, Any], array: str) -> list[_Block]:
    """Return the blocks of an array of tables. Raises ``ValueError`` where it is written in another way."""
    blocks = _find_blocks(lines, {array: [{}]})
    if len(blocks) != len(parsed.get(array, ())):
        raise ValueError(NOT_LINES)
    return blocks


def _find_blocks(lines: Sequence[str], header: Mapping[str, Any]) -> list[_Block]:
    blocks: list[_Block] = []
    is_inside, end = False, 0
    for statement in read_statements(lines):
        if statement.is_header:
            if is_inside:
                blocks[-1] = _extend(lines, blocks[-1], statement.start)
            is_inside = statement.parsed == header
            if is_inside:
                blocks.append(_Block(_find_start(lines, statement.start, end), statement.end))
        elif is_inside:
            blocks[-1] = _Block(blocks[-1].start, statement.end)
        end = statement.end
    if is_inside:
        blocks[-1] = _extend(lines, blocks[-1], len(lines))
    return blocks


def _find_start(lines: Sequence[str], header: int, end: int) -> int:
    """Return where the comments directly above a header begin. ``end`` is the end of the statement before it."""
    while header > end and lines[header - 1].lstrip().startswith("#"):
        header -= 1
    return header


def _extend(lines: Sequence[str], block: _Block, limit: int) -> _Block:
    """Return the block with the comments directly below it, unless they are directly above the next header."""
    end = block.end
    while end < limit and lines[end].lstrip().startswith("#"):
        end += 1
    return block if end == limit and limit < len(lines) else _Block(block.start, end)
