"""Edits of the text of models.toml: change a price, copy a table, add one. All other bytes stay. Pure."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from addon.text.toml import TomlError, load_toml
from policies.prices import PRICE_FIELDS, price_key

PRICE_KEYS: Final = tuple(map(price_key, PRICE_FIELDS))

CONTEXT_WINDOW: Final = "context_window"
"""The one key of a number. Prices are strings."""

_HEADER: Final = re.compile(r"\s*\[")
_TIER: Final = re.compile(r"tiers\[([0-9]+)\]\.([a-z0-9_]+)")
_BOUND: Final = re.compile(r"\s*above_prompt_tokens\s*=\s*([0-9_]+)")
_VALUE: Final = re.compile(r"""\A(\s*)([A-Za-z0-9_]+)(\s*=\s*)("[^"\\]*"|'[^']*'|[0-9_]+)""")


def set_prices(text: str, changes: Mapping[str, Mapping[str, str]]) -> str:
    """Return the text of models.toml with these prices and windows, by slug and key. Raises ``ValueError``.

    The key of a tier's price is ``tiers[BOUND].KEY``. A tier that is not there yet is added.
    """
    lines = text.splitlines(keepends=True)
    expected = load_toml(text)
    for slug, prices in changes.items():
        for key, price in prices.items():
            if found := _TIER.fullmatch(key):
                bound, tier_key = int(found[1]), found[2]
                _set_price(lines, *_find_tier(lines, slug, bound), tier_key, price)
                _expect_tier(expected[slug], bound)[tier_key] = price
            else:
                _set_price(lines, *_find_table(lines, slug), key, price)
                expected[slug][key] = int(price) if key == CONTEXT_WINDOW else price
    return _check_meaning("".join(lines), expected)


def _expect_tier(table: dict[str, Any], bound: int) -> dict[str, Any]:
    """Return the tier with this bound, which is added where it is missing."""
    tiers: list[dict[str, Any]] = table.setdefault("tiers", [])
    if all(tier["above_prompt_tokens"] != bound for tier in tiers):
        tiers.append({"above_prompt_tokens": bound})
        tiers.sort(key=lambda tier: int(tier["above_prompt_tokens"]))
    return next(tier for tier in tiers if tier["above_prompt_tokens"] == bound)


def _find_tier(lines: list[str], slug: str, bound: int) -> tuple[int, int]:
    """Return the numbers of a tier's header and of the first line of the next table. Add the tier where missing."""
    start, end = _find_table(lines, slug)
    while end < len(lines) and _name_header(lines[end]) == f'[["{slug}".tiers]]':
        start, end = end, _find_end(lines, end)
        bounds = [int(found[1]) for line in lines[start:end] if (found := _BOUND.match(line))]
        if bounds == [bound]:
            return start, end
        if bounds and bounds[0] > bound:
            end = start
            break
    while not lines[end - 1].strip() or lines[end - 1].startswith("#"):
        end -= 1
    if not lines[end - 1].endswith("\n"):
        lines[end - 1] += "\n"
    line_end = "\r\n" if lines[end - 1].endswith("\r\n") else "\n"
    added = ("", f'[["{slug}".tiers]]', f"above_prompt_tokens = {bound}")
    lines[end:end] = [line + line_end for line in added]
    return end + 1, end + len(added)


def copy_table(text: str, slug: str) -> str:
    """Return the lines of one model of models.toml, without what follows its last key. Raises ``ValueError``."""
    lines = text.splitlines(keepends=True)
    start, end = _find_table(lines, slug)
    while end < len(lines) and _name_header(lines[end]).lstrip("[").startswith(f'"{slug}".'):
        end = _find_end(lines, end)
    kept = [number for number in range(start, end) if "=" in lines[number] or _HEADER.match(lines[number])]
    table = "".join(lines[start : kept[-1] + 1])
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
    """Return the text of a table. ``tiers`` in it are tables of their own."""
    header = f'["{slug}"]' + (f"  # {comment}" if comment else "")
    lines = [header, *_format_lines({key: value for key, value in values.items() if key != "tiers"})]
    for tier in values.get("tiers", ()):
        lines += ["", f'[["{slug}".tiers]]', *_format_lines(tier)]
    return "\n".join([*lines, ""])


def _format_lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_format_value(value)}" for key, value in values.items()]


def _format_value(value: Any) -> str:
    # JSON's texts, numbers and booleans are those of TOML.
    return json.dumps(value, ensure_ascii=False)


def _find_table(lines: list[str], slug: str) -> tuple[int, int]:
    """Return the numbers of a table's header, and of the first line of the next table."""
    headers = {f'["{slug}"]', f"['{slug}']", f"[{slug}]"}
    for start, line in enumerate(lines):
        if line.split("#")[0].strip() in headers:
            return start, _find_end(lines, start)
    raise ValueError(f'can\'t be edited line by line: write the table of "{slug}" as ["{slug}"]')


def _find_end(lines: list[str], start: int) -> int:
    """Return the number of the next table's header."""
    return next(
        (number for number in range(start + 1, len(lines)) if _HEADER.match(lines[number])), len(lines)
    )


def _name_header(line: str) -> str:
    return line.split("#")[0].strip()


def _set_price(lines: list[str], start: int, end: int, key: str, price: str) -> None:
    """Set a price, or the window, between two lines."""
    value = price if key == CONTEXT_WINDOW else f'"{price}"'
    last_price = start
    for number in range(start + 1, end):
        found = _VALUE.match(lines[number])
        if found and found[2] == key:
            lines[number] = f"{found[1]}{key}{found[3]}{value}{lines[number][found.end() :]}"
            return
        if (found and found[2] in PRICE_KEYS) or _BOUND.match(lines[number]):
            last_price = number
    if not lines[last_price].endswith("\n"):
        lines[last_price] += "\n"
    line_end = "\r\n" if lines[last_price].endswith("\r\n") else "\n"
    lines.insert(last_price + 1, f"{key} = {value}{line_end}")


def _check_meaning(text: str, expected: dict[str, Any]) -> str:
    """Return the text if it parses to ``expected``. Raises ``ValueError``.

    The edits go line by line, and so can't know whether a line is inside a string.
    """
    with suppress(TomlError):
        if load_toml(text) == expected:
            return text
    raise ValueError("can't be edited line by line; write one line a key")
