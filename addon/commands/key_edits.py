"""Edits of a workspace file's text: add a key, or turn one off. All other lines stay. Pure."""

import re
import tomllib
from contextlib import suppress
from typing import Any

_HEADER = re.compile(r"\s*\[")
_KEYS_HEADER = re.compile(r"\s*\[\[\s*keys\s*\]\]")
_ACTIVE = re.compile(r"\A(\s*active\s*=\s*)(true|false)")


def add_key(text: str, key_id: str, key_hash: str) -> str:
    """Return the text of a workspace file with one more active key. Raises ``ValueError``.

    The key goes to the end. There it can't separate a comment from the table below it, and TOML allows ``[[keys]]``
    anywhere.
    """
    end = _find_line_end(text)
    entry = {"id": key_id, "hash": f"sha256:{key_hash}", "active": True}
    lines = ["", "[[keys]]", f'id = "{key_id}"', f'hash = "{entry["hash"]}"', "active = true", ""]
    edited = text.rstrip() + end + end.join(lines)
    table = tomllib.loads(text)
    return _check_meaning(edited, table | {"keys": [*table.get("keys", []), entry]})


def turn_off_key(text: str, index: int) -> str:
    """Return the text of a workspace file with ``active = false`` in its key ``index``. Raises ``ValueError``."""
    lines = text.splitlines(keepends=True)
    headers = [number for number, line in enumerate(lines) if _KEYS_HEADER.match(line)]
    if index < len(headers):
        start = headers[index] + 1
        end = next((n for n in range(start, len(lines)) if _HEADER.match(lines[n])), len(lines))
        active = next((n for n in range(start, end) if _ACTIVE.match(lines[n])), None)
        if active is None:
            lines.insert(start, f"active = false{_find_line_end(text)}")
        else:
            lines[active] = _ACTIVE.sub(r"\1false", lines[active])
    table = tomllib.loads(text)
    table["keys"][index]["active"] = False
    return _check_meaning("".join(lines), table)


def _find_line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _check_meaning(text: str, expected: dict[str, Any]) -> str:
    """Return the text if it parses to ``expected``. Raises ``ValueError``.

    The edits go line by line, and so can't know whether a line is a table's header or inside a string.
    """
    with suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(text) == expected:
            return text
    raise ValueError("can't be edited line by line; write its keys as [[keys]] tables, one line a setting")
