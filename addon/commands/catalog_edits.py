"""Edits of the text of models.toml: change a price, copy a table, add one. All other bytes stay. Pure."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from functools import lru_cache
from typing import Any, Final, NamedTuple

from addon.edits.toml_lines import split_lines
from addon.text.toml import TomlError, load_toml
from policies.price_times import WEEKDAYS
from policies.prices import PRICE_FIELDS, price_key

PRICE_KEYS: Final = tuple(map(price_key, PRICE_FIELDS))

CONTEXT_WINDOW: Final = "context_window"
"""The one key of a number. Prices are strings."""

_PLACE: Final = re.compile(r"\b(tiers|dated|hours)\[([^][]++)\]\.")
_BOUND: Final = re.compile(r"\s*(?:above_prompt_tokens|from_date)\s*=")
_VALUE: Final = re.compile(r"""\A(\s*)([A-Za-z0-9_]+)(\s*=\s*)("[^"\\]*"|'[^']*'|[0-9_]+)""")


def set_prices(text: str, changes: Mapping[str, Mapping[str, str]]) -> str:
    """Return the text of models.toml with these prices and windows, by slug and key. Raises ``ValueError``.

    The key of a tier's price is ``tiers[BOUND].KEY``, that of a day's ``dated[DAY].KEY``, that of hours
    ``hours[HOURS].KEY``, and so on inside of each other. A tier, or a day, that is not there yet is added.
    """
    lines = split_lines(text)
    expected = load_toml(text)
    for slug, prices in changes.items():
        for place, price in prices.items():
            table, key = expected[slug], place.rpartition("].")[2]
            start, end = _find_table(lines, slug)
            section = _Section((slug,), start, end, range(len(lines)))
            for name, label in _PLACE.findall(place):
                table, section = _enter(lines, section, table, name, label)
            _set_price(lines, section.start, section.end, key, price)
            table[key] = int(price) if key == CONTEXT_WINDOW else price
    return _check_meaning("".join(lines), expected)


class _Section(NamedTuple):
    """A table: the names in its header, the lines of the header and after its own keys, and where those in it are."""

    path: tuple[str, ...]
    start: int
    end: int
    inside: range


def _enter(
    lines: list[str], section: _Section, table: dict[str, Any], name: str, label: str
) -> tuple[dict[str, Any], _Section]:
    """Return an array's table inside of another, as a value and where it is. Add a tier, or a day, where missing."""
    entries: list[dict[str, Any]] = table.setdefault(name, [])
    path = (*section.path, name)
    headers = [at for at in section.inside if _names_of(lines[at]) == path]
    if len(headers) != len(entries):
        raise ValueError(f"can't be edited line by line: write each entry as [[{_format_path(path)}]]")
    labels = [_label(name, entry) for entry in entries]
    if label not in labels:
        made = _new_entry(name, label)
        index = sum(_order(name, entry) < _order(name, made) for entry in entries)
        before = _find_whole_end(lines, headers[index - 1]) if index else section.end
        headers.insert(index, _add_lines(lines, before, [f"[[{_format_path(path)}]]", *_format_lines(made)]))
        headers[index + 1 :] = [at + len(made) + 2 for at in headers[index + 1 :]]
        entries.insert(index, made)
        labels.insert(index, label)
    index = labels.index(label)
    start = headers[index]
    last = headers[index + 1] if index + 1 < len(headers) else min(section.inside.stop, len(lines))
    return entries[index], _Section(path, start, _find_end(lines, start), range(start + 1, last))


def _find_whole_end(lines: list[str], start: int) -> int:
    """Return the number of the first line after a table and those inside of it that follow it."""
    path, end = _names_of(lines[start]), _find_end(lines, start)
    while end < len(lines) and _names_of(lines[end])[:-1][: len(path)] == path:
        end = _find_end(lines, end)
    return end


def _label(name: str, entry: Mapping[str, Any]) -> str:
    if name != "hours":
        return str(_order(name, entry))
    days = [day for day in WEEKDAYS if day in entry.get("weekdays", ())]
    return " ".join([",".join(entry["utc"]), *([",".join(days)] if 0 < len(days) < len(WEEKDAYS) else [])])


def _order(name: str, entry: Mapping[str, Any]) -> Any:
    return entry["from_date" if name == "dated" else "above_prompt_tokens"]


def _new_entry(name: str, label: str) -> dict[str, Any]:
    if name == "hours":
        raise ValueError(f"has no prices of the hours {label}: add them by hand")
    return (
        {"from_date": date.fromisoformat(label)} if name == "dated" else {"above_prompt_tokens": int(label)}
    )


def _add_lines(lines: list[str], at: int, added: list[str]) -> int:
    """Add an empty line and these lines. Return the number of the first of these."""
    while not lines[at - 1].strip() or lines[at - 1].startswith("#"):
        at -= 1
    if not lines[at - 1].endswith("\n"):
        lines[at - 1] += "\n"
    line_end = "\r\n" if lines[at - 1].endswith("\r\n") else "\n"
    lines[at:at] = [line + line_end for line in ("", *added)]
    return at + 1


def copy_table(text: str, slug: str) -> str:
    """Return the lines of one model of models.toml, without what follows its last key. Raises ``ValueError``."""
    lines = split_lines(text)
    start, end = _find_table(lines, slug)
    while end < len(lines) and _names_of(lines[end])[:1] == (slug,):
        end = _find_end(lines, end)
    kept = [number for number in range(start, end) if "=" in lines[number] or _is_header(lines[number])]
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
    return str(value) if isinstance(value, date) else json.dumps(value, ensure_ascii=False)


def _find_table(lines: list[str], slug: str) -> tuple[int, int]:
    """Return the numbers of a table's header, and of the first line of the next table."""
    for start, line in enumerate(lines):
        if _names_of(line) == (slug,):
            return start, _find_end(lines, start)
    raise ValueError(f'can\'t be edited line by line: write the table of "{slug}" as ["{slug}"]')


def _find_end(lines: list[str], start: int) -> int:
    """Return the number of the next table's header."""
    return next((number for number in range(start + 1, len(lines)) if _is_header(lines[number])), len(lines))


def _is_header(line: str) -> bool:
    return line.lstrip(" \t").startswith("[")


@lru_cache(maxsize=4096)
def _names_of(line: str) -> tuple[str, ...]:
    """Return the names in a header, none where a line is no header."""
    names: list[str] = []
    with suppress(TomlError):
        value: Any = load_toml(line) if _is_header(line) else {}
        while value:
            [(name, value)] = value[0].items() if isinstance(value, list) else value.items()
            names.append(name)
            value = value[0] if isinstance(value, list) else value
    return tuple(names)


def _format_path(path: tuple[str, ...]) -> str:
    return ".".join([f'"{path[0]}"', *path[1:]])


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
