"""The errors of one file in an operator's words: the path of each key, and what to change."""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from addon.settings.errors import (
    MAX_ERRORS,
    MORE_ERRORS,
    find_near_name,
    join_key_path,
    label_path,
    suggest_name,
)

_TOML_WORDS: Final = {
    "missing": "is required",
    "model_type": "must be a table",
    "dict_type": "must be a table",
    "tuple_type": "must be an array",
    "too_short": "must not be empty",
    "frozen_set_type": "must be an array of strings",
}
_UNKNOWN: Final = "extra_forbidden"

type _Path = tuple[str | int, ...]


class ErrorWriter:
    """Describes the errors of one file. ``schemas`` are the classes of its tables by the ``id`` of the table."""

    def __init__(self, table: dict[str, Any], schemas: Mapping[int, type[BaseModel]]) -> None:
        self._table = table
        self._schemas = schemas
        self._top = self._fields_of(())

    def describe(self, details: list[ErrorDetails]) -> Iterator[tuple[str, str]]:
        """Yield key and reason of each error, at most one for each key: unknown keys first, then the others.

        A required key that is missing because its name, or that of its table, is misspelled has no error of its own.
        After ``MAX_ERRORS``, the last one says that there are more.
        """
        described: set[str] = set()
        explained: set[_Path] = set()
        for detail in sorted(details, key=lambda one: one["type"] != _UNKNOWN)[:MAX_ERRORS]:
            path = _path_of(detail)
            if detail["type"] == _UNKNOWN:
                explained.update(self._explains(path))
            elif detail["type"] == "missing" and not explained.isdisjoint((path, path[:-1])):
                continue
            key = join_key_path(*label_path(self._table, path))
            if key not in described:
                described.add(key)
                yield key, self._reason(detail, path)
        if len(details) > MAX_ERRORS:
            yield "", MORE_ERRORS

    def _explains(self, path: _Path) -> Iterator[_Path]:
        """Yield what an unknown key explains: a missing key with nearly its name, or the lack of all keys."""
        *parents, name = path
        owner = self._value_at(parents)
        if all(isinstance(value, Mapping) for value in owner.values()):
            yield tuple(parents)
        if near := find_near_name(str(name), self._fields_of(parents)):
            yield (*parents, near)

    def _reason(self, detail: ErrorDetails, path: _Path) -> str:
        kind = detail["type"]
        if kind in (_UNKNOWN, "model_type") and self._belongs_to_the_top(path):
            return f'"{path[-1]}" belongs to the top of the file, above the first [table]'
        if kind == _UNKNOWN:
            return self._describe_unknown(path)
        field = self._fields_of(path[:-1]).get(str(path[-1]))
        if kind == "missing" and field and field.description:
            return f"is required: {field.description}"
        if kind == "value_error":
            return str(detail["ctx"]["error"])
        if kind == "too_long":
            return f"must have at most {detail['ctx']['max_length']:,} entries"
        return _TOML_WORDS.get(kind) or detail["msg"].replace("Input should be", "must be")

    def _belongs_to_the_top(self, path: _Path) -> bool:
        """Return whether a key of the file's top follows a table: TOML makes it a key of this table."""
        return len(path) > 1 and path[-1] in self._top and not _holds_tables(self._value_at(path))

    def _describe_unknown(self, path: _Path) -> str:
        *parents, name = path
        names = self._fields_of(parents)
        if find_near_name(str(name), names):
            return f"unknown key{suggest_name(str(name), names)}"
        if len(parents) == 1 and not self._top and isinstance(self._value_at(path), Mapping):
            return f'is read as a table inside a table; quote it: ["{self._dotted_name(path)}"]'
        if sections := [f"[{section}]" for section, field in self._top.items() if name in _names_in(field)]:
            return f"unknown key; it belongs to {' or '.join(sections)}"
        return f"unknown key{suggest_name(str(name), names)}"

    def _dotted_name(self, path: _Path) -> str:
        """Return the name that TOML has taken apart at its dots: ``[gpt-4.1]`` is the table "1" in "gpt-4"."""
        names, value = self._fields_of(path[:1]), self._value_at(path)
        while len(value) == 1 and isinstance(inner := next(iter(value.values())), Mapping):
            [name] = value
            if name in names:
                break
            path, value = (*path, name), inner
        return ".".join(str(part) for part in path)

    def _fields_of(self, path: Iterable[str | int]) -> Mapping[str, FieldInfo]:
        """Return the keys that the table at ``path`` may have; none where it has no schema."""
        schema = self._schemas.get(id(self._value_at(path)))
        return _keys_of(schema) if schema else {}

    def _value_at(self, path: Iterable[str | int]) -> Any:
        value: Any = self._table
        for part in path:
            try:
                value = value[part]
            except (LookupError, TypeError):
                return None
        return value


def _path_of(detail: ErrorDetails) -> _Path:
    place = [part for part in detail["loc"] if part != "[key]"]
    return (*place, *detail.get("ctx", {}).get("path", ()))


def _names_in(section: FieldInfo) -> Container[str | int]:
    schema = section.annotation
    return set(_keys_of(schema)) if isinstance(schema, type) and issubclass(schema, BaseModel) else ()


def _keys_of(schema: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """Return the fields of a schema by their names in files."""
    return {field.alias or name: field for name, field in schema.model_fields.items()}


def _holds_tables(value: object) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, Mapping)
