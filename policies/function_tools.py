"""The functions of ``tools`` as the models of a family accept them. A function that must differ is copied."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from policies.family import Family
from policies.field_change import CHAT_BODY, FieldChange, name_family_rule
from policies.refusal import Refusal

type Tool = Mapping[str, Any]

NO_PARAMETERS: Final[Mapping[str, Any]] = MappingProxyType({"type": "object", "properties": {}})
"""The schema of a function that takes nothing. Every vendor accepts it; some refuse a function without a schema."""

_COMBINED: Final = frozenset({"anyOf", "oneOf", "allOf", "$ref"})
_NOTES: Final = frozenset(
    {
        "additionalProperties",
        "$schema",
        "$id",
        "$comment",
        "title",
        "description",
        "default",
        "examples",
        "strict",
    }
)
"""Keys at the top of a schema that can be left out: a call that fits the schema with them fits it without them.

``strict`` is no key of JSON Schema. Clients that mean the function's put it there, and Nova accepts it (recorded).
"""


def fit_functions(tools: Sequence[Tool], family: Family) -> tuple[Sequence[Tool], list[FieldChange]]:
    """Return the tools that go upstream, and the changes; the same tools where nothing changes.

    Raises Refusal ``validation_failed``, naming the place, for a schema that the family can't take.
    """
    changes: dict[str, FieldChange] = {}
    drops_strict = _drops_strict(tools, family)
    fitted = [_fit(tool, index, family, changes, drops_strict) for index, tool in enumerate(tools)]
    return (fitted, list(changes.values())) if changes else (tools, [])


def _drops_strict(tools: Sequence[Tool], family: Family) -> bool:
    wanted = [bool(tool["function"].get("strict")) for tool in tools if "function" in tool]
    is_mixed = any(wanted) and not all(wanted)
    return family.strict_tools == "none" or (family.strict_tools == "all" and is_mixed)


def _fit(tool: Tool, index: int, family: Family, changes: dict[str, FieldChange], drops_strict: bool) -> Tool:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return tool
    fitted = dict(function)
    if (schema := _whole_schema(function.get("parameters"))) is not function.get("parameters"):
        fitted["parameters"] = schema
        changes["parameters"] = FieldChange(
            "tools.parameters", "set", "vendors want a schema of type object", CHAT_BODY
        )
    if drops_strict and "strict" in fitted:
        del fitted["strict"]
        _note(changes, "strict", family, "strict_tools")
    if family.tool_schema_keys and isinstance(schema, Mapping):
        place = f"tools.{index}.function.parameters"
        if kept := _known_keys(schema, family.tool_schema_keys, place):
            fitted["parameters"] = kept
            _note(changes, "parameters", family, "tool_schema_keys")
    return tool if fitted == function else {**tool, "function": fitted}


def _whole_schema(schema: Any) -> Any:
    """Return a schema with its type; the same object where it has one, or says it in another way."""
    if schema is None or schema == {}:
        return dict(NO_PARAMETERS)
    if not isinstance(schema, Mapping) or "type" in schema or not _COMBINED.isdisjoint(schema):
        return schema
    return {"type": "object", **schema}


def _known_keys(schema: Mapping[str, Any], known: tuple[str, ...], place: str) -> dict[str, Any] | None:
    """Return a schema with only the known keys at its top, None where it has no other."""
    unknown = schema.keys() - known
    if wrong := sorted(unknown - _NOTES):
        raise Refusal("validation_failed", f"{place}: The model does not take {wrong[0]} there.", place)
    return {key: schema[key] for key in known if key in schema} if unknown else None


def _note(changes: dict[str, FieldChange], name: str, family: Family, key: str) -> None:
    reason = f"{family.name} does not take it"
    changes[name] = FieldChange(f"tools.{name}", "dropped", reason, name_family_rule(family, key))
