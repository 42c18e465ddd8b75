"""The simplest value for a JSON schema. It ignores ``pattern``, ``not`` and ``if``. Pure."""

import math
from typing import Any

MAX_DEPTH = 12
MAX_OPTIONAL_DEPTH = 5
MAX_VALUES = 5_000
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


def simplest_value(schema: object) -> Any:
    """Return the simplest value that fits ``schema``, with its optional properties; None if it is no schema."""
    return _Writer(schema).value(schema, 0)


class _Writer:
    """Writes one value. Its bounds end a schema that refers to itself."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._values_left = MAX_VALUES

    def value(self, schema: object, depth: int) -> Any:
        self._values_left -= 1
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self._values_left < 0:
            return None
        literals = [schema[key] for key in ("const", "default") if key in schema]
        if literals := literals or _get(schema, "enum", list) or _get(schema, "examples", list):
            return literals[0]
        if "$ref" in schema:
            return self.value(self._target(schema["$ref"]), depth + 1)
        if choices := _get(schema, "anyOf", list) or _get(schema, "oneOf", list):
            return self.value(next((one for one in choices if one != {"type": "null"}), None), depth + 1)
        if _get(schema, "allOf", list):
            return self.value(self._merged(schema), depth + 1)
        return self._of_type(schema, depth)

    def _of_type(self, schema: dict[str, Any], depth: int) -> Any:
        types = schema.get("type", "object" if "properties" in schema else None)
        has_optional = depth <= MAX_OPTIONAL_DEPTH
        match next((one for one in types if one != "null"), None) if isinstance(types, list) else types:
            case "object":
                required = _get(schema, "required", list)
                properties = _get(schema, "properties", dict)
                names = [name for name in properties if has_optional or name in required]
                return {name: self.value(properties[name], depth + 1) for name in names}
            case "array":
                items = _get(schema, "prefixItems", list)
                wanted = max(_get(schema, "minItems", int), int(has_optional and schema.get("maxItems") != 0))
                items = items + [schema.get("items", {})] * min(wanted - len(items), MAX_VALUES)
                return [self.value(item, depth + 1) for item in items]
            case "string":
                return _string(schema)
            case "integer" | "number":
                return _number(schema)
            case type_:
                return True if type_ == "boolean" else None

    def _merged(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return ``schema`` merged with the parts of its ``allOf``."""
        merged = {key: value for key, value in schema.items() if key != "allOf"}
        for part in _get(schema, "allOf", list):
            whole = self._target(part["$ref"]) if isinstance(part, dict) and "$ref" in part else part
            if isinstance(whole, dict):
                properties = _get(merged, "properties", dict) | _get(whole, "properties", dict)
                required = _get(merged, "required", list) + _get(whole, "required", list)
                merged |= whole | ({"properties": properties, "required": required} if properties else {})
        return merged

    def _target(self, pointer: object) -> object:
        """Return the target of a local reference such as ``#/$defs/Name``, or None."""
        target = self._root
        for step in str(pointer).removeprefix("#").split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            target = target.get(key) if isinstance(target, dict) else None
        return target


def _string(schema: dict[str, Any]) -> str:
    text = _FORMATS.get(_get(schema, "format", str), "example")
    text = text.ljust(min(_get(schema, "minLength", int), 10_000), "x")
    return text[: _get(schema, "maxLength", int)] if "maxLength" in schema else text


def _number(schema: dict[str, Any]) -> float:
    """Return ``multipleOf`` (or 1), a multiple of it next to a bound, or the middle: the first that fits."""
    step = abs(_bound(schema, "multipleOf", 1)) or 1
    least, above = _bound(schema, "minimum", -math.inf), _bound(schema, "exclusiveMinimum", -math.inf)
    most, below = _bound(schema, "maximum", math.inf), _bound(schema, "exclusiveMaximum", math.inf)
    bounds = [bound for bound in (max(least, above), min(most, below)) if math.isfinite(bound / step)]
    multiples = [(math.floor(bound / step) + near) * step for bound in bounds for near in (0, 1, -1)]
    candidates = [step, *multiples, sum(bounds) / 2]
    value = next((one for one in candidates if least <= one <= most and above < one < below), step)
    return int(value) if value == int(value) else value


def _bound(schema: dict[str, Any], key: str, default: float) -> float:
    value = schema.get(key)
    return value if isinstance(value, int | float) and abs(value) < 1e15 else default


def _get[T](schema: dict[str, Any], key: str, type_: type[T]) -> T:
    """Return the value of ``key``, or an empty one if it has another type."""
    value = schema.get(key)
    return value if type(value) is type_ else type_()
