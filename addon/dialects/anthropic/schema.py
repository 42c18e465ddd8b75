"""A JSON schema for Anthropic's structured outputs: keywords that they can't enforce become words for the model.

The API answers 400 to keywords outside its subset, so these move into the description of their own schema.
Source: Anthropic, "Structured outputs", "JSON Schema limitations"; recorded 400 "property 'minimum' is not
supported"; ``transform_schema`` of its Python SDK 2.12. Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from addon.text.json_encode import encode_json

_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_KEPT: Final = frozenset({"type", "enum", "const", "$ref", "title", "description", "required", "default"})
_NAMED: Final = ("$defs", "definitions", "properties")
_LISTED: Final = ("anyOf", "allOf")


def supported_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``schema`` with unsupported keywords as words in its description. The API reports all other faults.

    An object without ``additionalProperties`` allows none, and ``oneOf`` becomes ``anyOf``.
    """
    made: dict[str, Any] = {}
    unsupported: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "oneOf" and "anyOf" not in schema:
            made["anyOf"] = _supported("anyOf", value)
        elif _is_supported(name, value):
            made[name] = _supported(name, value)
        elif name != "$schema":
            unsupported[name] = value
    if _is_object(schema):
        made.setdefault("additionalProperties", False)
    if unsupported:
        words = f"{{{', '.join(f'{name}: {_words(value)}' for name, value in unsupported.items())}}}"
        made["description"] = f"{made['description']}\n\n{words}" if made.get("description") else words
    return made


def _is_supported(name: str, value: object) -> bool:
    match name:
        case "format":
            return isinstance(value, str) and value in _FORMATS
        case "minItems":
            return value in (0, 1)
        case "items" | "additionalProperties":
            return True
    return name in _KEPT or name in _NAMED or name in _LISTED


def _supported(name: str, value: Any) -> Any:
    if name in _NAMED and isinstance(value, dict):
        return {key: _deeper(inner) for key, inner in value.items()}
    if name in _LISTED and isinstance(value, list):
        return [_deeper(inner) for inner in value]
    return _deeper(value) if name == "items" else value


def _deeper(value: Any) -> Any:
    return supported_schema(value) if isinstance(value, dict) else value


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _words(value: object) -> str:
    return value if isinstance(value, str) else encode_json(value).decode()
