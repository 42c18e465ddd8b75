"""Edits of the text of models.toml: change a price, copy a table, add one. All other bytes stay. Pure."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from addon.text.toml import TomlError, load_toml

PRICE_KEYS: Final = (
    "input_price_per_m",
    "output_price_per_m",
    "cached_input_price_per_m",
    "cache_write_price_per_m",
)

_HEADER: Final = re.compile(r"\s*\[")
_VALUE: Final = re.compile(r"""\A(\s*)([A-Za-z_]+)(\s*=\s*)("[^"\\]*"|'[^']*')""")


def set_prices(text: str, changes: Mapping[str, Mapping[str, str]]) -> str:
    """Return the text of models.toml with these prices, by slug and key. Raises ``ValueError``."""
    lines = text.splitlines(keepends=True)
    expected = load_toml(text)
    for slug, prices in changes.items():
        start, end = _find_table(lines, slug)
        for key, price in prices.items():
            end += _set_price(lines, start, end, key, price)
            expected[slug][key] = price
    return _check_meaning("".join(lines), expected)


def copy_table(text: str, slug: str) -> str:
    """Return the lines of one table of models.toml, without what follows its last key. Raises ``ValueError``."""
    lines = text.splitlines(keepends=True)
    start, end = _find_table(lines, slug)
    last = max(number for number in range(start, end) if _VALUE.match(lines[number]) or "=" in lines[number])
    table = "".join(lines[start : last + 1])
    return _check_meaning(table, {slug: load_toml(text)[slug]})


def add_table(text: str, table: str) -> str:
    """Return the text of models.toml with one more table at its end. Raises ``ValueError``."""
    present, added = load_toml(text), load_toml(table)
    if repeated := present.keys() & added.keys():
        raise ValueError(f'has a table "{repeated.pop()}" already')
    expected = present | added
    before = f"{text.rstrip()}\n\n" if text.strip() else ""
    return _check_meaning(f"{before}{table.rstrip()}\n", expected)


def format_model_table(slug: str, values: Mapping[str, Any], comment: str = "") -> str:
    """Return the text of a table."""
    header = f'["{slug}"]' + (f"  # {comment}" if comment else "")
    return "\n".join([header, *(f"{key} = {_format_value(value)}" for key, value in values.items()), ""])


def _format_value(value: Any) -> str:
    # JSON's texts, numbers and booleans are those of TOML.
    return json.dumps(value, ensure_ascii=False)


def _find_table(lines: list[str], slug: str) -> tuple[int, int]:
    """Return the numbers of a table's header, and of the first line of the next table."""
    headers = {f'["{slug}"]', f"['{slug}']", f"[{slug}]"}
    for start, line in enumerate(lines):
        if line.split("#")[0].strip() in headers:
            end = next((n for n in range(start + 1, len(lines)) if _HEADER.match(lines[n])), len(lines))
            return start, end
    raise ValueError(f'can\'t be edited line by line: write the table of "{slug}" as ["{slug}"]')


def _set_price(lines: list[str], start: int, end: int, key: str, price: str) -> int:
    """Set a price between two lines. Return how many lines were added."""
    last_price = start
    for number in range(start + 1, end):
        found = _VALUE.match(lines[number])
        if found and found[2] == key:
            lines[number] = f'{found[1]}{key}{found[3]}"{price}"{lines[number][found.end() :]}'
            return 0
        if found and found[2] in PRICE_KEYS:
            last_price = number
    if not lines[last_price].endswith("\n"):
        lines[last_price] += "\n"
    line_end = "\r\n" if lines[last_price].endswith("\r\n") else "\n"
    lines.insert(last_price + 1, f'{key} = "{price}"{line_end}')
    return 1


def _check_meaning(text: str, expected: dict[str, Any]) -> str:
    """Return the text if it parses to ``expected``. Raises ``ValueError``.

    The edits go line by line, and so can't know whether a line is inside a string.
    """
    with suppress(TomlError):
        if load_toml(text) == expected:
            return text
    raise ValueError("can't be edited line by line; write one line a key")
