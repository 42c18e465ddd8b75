"""TOML files of plain values. tomlkit, which keeps a user's comments, needs some hundred times longer for them."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

_BARE_KEY = re.compile("[A-Za-z0-9_-]+")


def toml_text(table: Mapping[str, Any]) -> str:
    """Return a file with this table. A table in a list of tables is a ``[[table]]``; in another list it is inline."""
    return "".join(f"{line}\n" for line in _lines(table, "")).lstrip("\n")


def _lines(table: Mapping[str, Any], prefix: str) -> Iterator[str]:
    plain = {name: value for name, value in table.items() if not _tables(value)}
    yield from (f"{_key(name)} = {_value(value)}" for name, value in plain.items())
    for name, value in table.items():
        for one in _tables(value):
            path = f"{prefix}{_key(name)}"
            if isinstance(value, list | tuple):
                yield from ("", f"[[{path}]]")
            elif not one or not all(isinstance(inner, Mapping) for inner in one.values()):
                yield from ("", f"[{path}]")
            yield from _lines(one, f"{path}.")


def _tables(value: Any) -> list[Mapping[str, Any]]:
    """Return the tables that get a header of their own."""
    if isinstance(value, Mapping):
        return [value]
    if isinstance(value, list | tuple) and all(isinstance(one, Mapping) for one in value):
        return list(value)
    return []


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def _value(value: Any) -> str:
    match value:
        case str():
            return _string(value)
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case date():
            return value.isoformat().replace("+00:00", "Z")
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            return f"{{{', '.join(f'{_key(name)} = {_value(one)}' for name, one in value.items())}}}"
    raise TypeError(f"no value of the settings: {value!r}")


def _string(text: str) -> str:
    # TOML knows all of JSON's escapes, and wants one for U+007F, too.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
