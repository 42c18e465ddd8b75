"""A plain value for a JSON schema: what the sandbox passes to tools, and answers where JSON is asked for. Pure.

Bounds, enums, formats and local references are kept to; ``pattern``, ``not`` and ``if`` are not looked at.
"""

import math
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 12
MAX_VALUES = 5_000
_ROOMY_DEPTH = MAX_DEPTH // 2
_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
}

type Schema = Mapping[str, Any]


def plain_value(schema: object) -> Any:
    """Return the plainest value that fits ``schema``, its optional properties filled in; None where it is no schema."""
    return _Writer(schema).value(schema, 0)


class _Writer:
    """Writes one value. A schema that refers to itself ends: optional parts stop halfway down, and all has a bound."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._left = MAX_VALUES

    def value(self, schema: object, depth: int) -> Any:
        self._left -= 1
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH or self._left < 0:
            return None
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        for key in ("enum", "examples"):
            if choices := _list(schema, key):
                return choices[0]
        if isinstance(schema.get("$ref"), str):
            return self.value(self._referred(schema["$ref"]), depth + 1)
        if choices := _list(schema, "anyOf") or _list(schema, "oneOf"):
            return self.value(_not_null(choices), depth + 1)
        if _list(schema, "allOf"):
            return self.value(self._merged(schema), depth + 1)
        return self._of_type(schema, depth)

    def _of_type(self, schema: Schema, depth: int) -> Any:
        match _type(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "string":
                return _string(schema)
            case "integer" | "number" as type_:
                return _number(schema, type_ == "integer")
            case "boolean":
                return True
        return None

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        properties, required = _mapping(schema, "properties"), _list(schema, "required")
        wanted = [name for name in properties if depth < _ROOMY_DEPTH or name in required]
        return {name: self.value(properties[name], depth + 1) for name in wanted}

    def _array(self, schema: Schema, depth: int) -> list[Any]:
        items = _list(schema, "prefixItems")[:]
        wish = min(1 if depth < _ROOMY_DEPTH else 0, _count(schema, "maxItems", 1))
        missing = max(_count(schema, "minItems", 0), wish) - len(items)
        items += [schema.get("items", {})] * min(missing, MAX_VALUES)
        return [self.value(item, depth + 1) for item in items]

    def _merged(self, schema: Schema) -> Schema:
        """Return ``schema`` with the parts of its ``allOf`` as its own; properties add up."""
        merged = {key: value for key, value in schema.items() if key != "allOf"}
        for part in _list(schema, "allOf"):
            if isinstance(part, Mapping) and isinstance(part.get("$ref"), str):
                part = self._referred(part["$ref"])
            if isinstance(part, Mapping):
                properties = {**_mapping(merged, "properties"), **_mapping(part, "properties")}
                required = _list(merged, "required") + _list(part, "required")
                merged |= {**part, "properties": properties, "required": required} if properties else part
        return merged

    def _referred(self, pointer: str) -> object:
        """Return what a local reference such as ``#/$defs/Name`` points to, or None."""
        found = self._root
        for step in pointer.removeprefix("#").split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        return found


def _type(schema: Schema) -> object:
    named = schema.get("type")
    if isinstance(named, list):
        return next((one for one in named if one != "null"), "null")
    return "object" if named is None and "properties" in schema else named


def _string(schema: Schema) -> str:
    text = _FORMATS.get(str(schema.get("format")), "example")
    text = text.ljust(min(_count(schema, "minLength", 0), 10_000), "x")
    return text[: _count(schema, "maxLength", len(text))]


def _number(schema: Schema, whole: bool) -> float:
    """Return the multiple of ``multipleOf`` (1 without it) within the bounds that is nearest above zero."""
    step = abs(_bound(schema, "multipleOf") or 1)
    lowest, highest = _lowest(schema, step), _highest(schema, step)
    value = max(step, lowest) if lowest is not None else step
    if highest is not None and value > highest:
        value = highest
        if not whole and lowest is not None and highest < lowest:
            # No whole number lies between the bounds, so a fraction must.
            value = _between(schema)
    return int(value) if value == int(value) else value


def _lowest(schema: Schema, step: float) -> float | None:
    above, at_least = _bound(schema, "exclusiveMinimum"), _bound(schema, "minimum")
    first = [] if above is None else [(math.floor(above / step) + 1) * step]
    first += [] if at_least is None else [math.ceil(at_least / step) * step]
    return max(first, default=None)


def _highest(schema: Schema, step: float) -> float | None:
    below, at_most = _bound(schema, "exclusiveMaximum"), _bound(schema, "maximum")
    last = [] if below is None else [(math.ceil(below / step) - 1) * step]
    last += [] if at_most is None else [math.floor(at_most / step) * step]
    return min(last, default=None)


def _between(schema: Schema) -> float:
    lower = [_bound(schema, key) for key in ("minimum", "exclusiveMinimum")]
    upper = [_bound(schema, key) for key in ("maximum", "exclusiveMaximum")]
    return (max(one for one in lower if one is not None) + min(one for one in upper if one is not None)) / 2


def _count(schema: Schema, key: str, default: int) -> int:
    value = schema.get(key)
    return value if type(value) is int and value >= 0 else default


def _bound(schema: Schema, key: str) -> float | None:
    value = schema.get(key)
    return value if isinstance(value, int | float) and abs(value) < 1e15 else None


def _list(schema: Schema, key: str) -> list[Any]:
    value = schema.get(key)
    return value if isinstance(value, list) else []


def _mapping(schema: Schema, key: str) -> Schema:
    value = schema.get(key)
    return value if isinstance(value, Mapping) else {}


def _not_null(schemas: list[Any]) -> object:
    return next(
        (one for one in schemas if isinstance(one, Mapping) and one.get("type") != "null"), schemas[0]
    )
