"""The upstream body: the client's fields as the family of the model accepts them. It interprets ``Family``.

Each difference between providers is a line in ``catalog_data/families.toml``. Messages, tools and the completion cap
are never dropped: without them the client would get, or pay for, something else.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct

from policies.completion_cap import needs_stream
from policies.family import EFFORT, RESERVED, Family
from policies.field_change import CHAT_BODY, STREAMING_CHUNK, FieldChange, name_family_rule
from policies.field_rules import LIMITED, clamp_value, is_listed, sanitize_field
from policies.messages import are_plain
from policies.model import Model
from policies.model_lacks import check_lacks
from policies.refusal import Refusal
from policies.schema_prompt import add_schema

_OF_TOOLS: Final = frozenset({"tool_choice", "parallel_tool_calls"})
# Fields that depend on another one, or have a form that a family may refuse. The gateway sets the reserved ones itself.
_DEPENDENT: Final = _OF_TOOLS | RESERVED | {"tools", "top_logprobs", "response_format"}
_OFF_WORDS: Final = ("none", "auto", "disabled")
_OFF_TYPES: Final = ("disabled", "text")


class Sanitized(Struct, frozen=True):
    """``body`` goes upstream. ``list_changes`` returns at least one entry for each field.

    ``is_plain``: no field of the client's was changed. The changes are listed only where they are needed.
    """

    body: dict[str, Any]
    list_changes: Callable[[], tuple[FieldChange, ...]]
    is_plain: bool = False

    @property
    def changes(self) -> tuple[FieldChange, ...]:
        """The changes of ``list_changes``."""
        return self.list_changes()


def sanitize(fields: Mapping[str, Any], model: Model, cap: int | None, stream: bool) -> Sanitized:
    """Return the upstream body for a client's validated, known, non-null fields (and the family's extra ones).

    ``cap``, in tokens, is sent in the one field that the family wants. A cap, model or stream in ``fields`` is ignored.
    ``stream``: the client asked for one. Where the cap needs one, the body asks for one too.
    ``fields`` and its values are never changed. Raises Refusal ``validation_failed``, naming the field, for a form that
    the family refuses. Source: contract, "Chat request body".
    """
    if _is_plain(fields, model.family):
        own = _gateway_fields(model.family, cap, stream)
        body = {"model": model.upstream_model_id, **fields, **own}
        return Sanitized(body, partial(_list_changes, fields, model, cap, stream), is_plain=True)
    return sanitize_by_field(fields, model, cap, stream)


def sanitize_by_field(fields: Mapping[str, Any], model: Model, cap: int | None, stream: bool) -> Sanitized:
    """As ``sanitize``, with all rules for each field."""
    family = model.family
    body: dict[str, Any] = {"model": model.upstream_model_id}
    changes = [name_model_change(model)]
    check_lacks(fields, model, stream=stream)
    agreed, disagreed = _resolve_conflicts(fields, family)
    _check_values(agreed, model)
    _check_format(agreed, model)
    changes += disagreed
    for name, value in agreed.items():
        accepted, made = sanitize_field(name, value, model)
        body |= accepted
        changes += made
    if _wants_schema_in_prompt(agreed, family):
        role = family.roles.get("system", "system")
        body["messages"] = add_schema(body["messages"], agreed["response_format"], role)
        changes.append(_schema_in_prompt(family))
    own = _gateway_fields(family, cap, stream)
    changes += [_gateway_change(name, family, stream) for name in own]
    body |= own
    return Sanitized(body, lambda: tuple(changes))


def _is_plain(fields: Mapping[str, Any], family: Family) -> bool:
    """Return whether no rule changes or refuses a field."""
    if not (_DEPENDENT.isdisjoint(fields) and family.changed_fields.isdisjoint(fields)):
        return False
    for cause, excluded in family.conflicts.items():
        if cause in fields and not excluded.isdisjoint(fields):
            return False
    for name, value in fields.items():
        is_limited = name in LIMITED or name in family.limited_fields
        if is_limited and clamp_value(name, value, family) != value:
            return False
    return are_plain(fields.get("messages", ()), family)


def _list_changes(
    fields: Mapping[str, Any], model: Model, cap: int | None, stream: bool
) -> tuple[FieldChange, ...]:
    return sanitize_by_field(fields, model, cap, stream).changes


# --- fields that depend on each other ---------------------------------------------------------------------------


def _resolve_conflicts(fields: Mapping[str, Any], family: Family) -> tuple[dict[str, Any], list[FieldChange]]:
    """Return the fields that can be sent together, and the changes to the other ones."""
    agreed: dict[str, Any] = {}
    changes = []
    for name, value in fields.items():
        if name in _DEPENDENT and (needs := _without_use(name, value, fields)):
            changes.append(FieldChange(name, "dropped", f"it has no effect without {needs}", CHAT_BODY))
        elif name in family.drops:
            reason = f"{family.name} does not take {name}"
            changes.append(FieldChange(name, "dropped", reason, name_family_rule(family, "drops")))
        elif name not in RESERVED:
            agreed[name] = value
    if family.effort_off and agreed.get(EFFORT) == "none":
        reason, source = f"{family.name} turns reasoning off so", name_family_rule(family, "effort_off")
        changes.append(FieldChange(EFFORT, "renamed", reason, source))
        agreed = {name: value for name, value in agreed.items() if name != EFFORT}
        agreed |= family.effort_off
    for cause, implied in family.implies.items():
        if _is_on(agreed.get(cause)):
            reason = f"{family.name} wants it so with {cause}"
            source = name_family_rule(family, "implies", cause)
            for name, value in implied.items():
                is_replaced = agreed.get(name, value) != value
                changes.append(FieldChange(name, "replaced" if is_replaced else "set", reason, source))
            agreed |= implied
    for cause, excluded in family.conflicts.items():
        if _is_on(agreed.get(cause)):
            lost = agreed.keys() & excluded
            agreed = {name: value for name, value in agreed.items() if name not in lost}
            reason = f"{family.name} does not take it with {cause}"
            source = name_family_rule(family, "conflicts", cause)
            changes += [FieldChange(name, "dropped", reason, source) for name in sorted(lost)]
    return agreed, changes


def _without_use(name: str, value: Any, fields: Mapping[str, Any]) -> str | None:
    """Return the field that is missing for another one to have an effect.

    Vendors refuse the field then, but some clients always send it.
    """
    if name == "tools":
        return None if value else "a tool"
    if name in _OF_TOOLS:
        return None if fields.get("tools") else "tools"
    return "logprobs" if name == "top_logprobs" and not fields.get("logprobs") else None


def _wants_schema_in_prompt(fields: Mapping[str, Any], family: Family) -> bool:
    asked = fields.get("response_format") or {}
    return asked.get("type") == "json_schema" and family.response_formats.get("json_schema") == "in_prompt"


def _schema_in_prompt(family: Family) -> FieldChange:
    source = name_family_rule(family, "response_formats", "json_schema")
    return FieldChange("messages", "set", f"{family.name} gets the JSON schema in its system message", source)


def _check_values(fields: Mapping[str, Any], model: Model) -> None:
    for place, refused in model.family.refused_values.items():
        value: Any = fields
        for name in place.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, str) and value in refused:
            raise Refusal("validation_failed", f"{place}: {model.slug} does not take '{value}'.", place)


def _check_format(fields: Mapping[str, Any], model: Model) -> None:
    asked = fields.get("response_format") or {}
    refuses = model.family.response_formats.get("with_tools") == "refused"
    if refuses and fields.get("tools") and asked.get("type", "text") != "text":
        reason = f"response_format: {model.slug} takes only 'text' together with tools."
        raise Refusal("validation_failed", reason, "response_format")


def _is_on(value: Any) -> bool:
    """Return whether a field is on. Any number is on, also zero."""
    if isinstance(value, dict):
        return bool(value) and value.get("type") not in _OFF_TYPES
    if isinstance(value, int | float) and not isinstance(value, bool):
        return True
    return bool(value) and value not in _OFF_WORDS


def name_model_change(model: Model) -> FieldChange:
    """Return the change of ``model``. The name of a model outside the catalog contains the id."""
    source = f'models.toml ["{model.slug}"] upstream_model_id' if is_listed(model) else CHAT_BODY
    return FieldChange("model", "set", f"{model.slug} is {model.upstream_model_id} upstream", source)


def _gateway_fields(family: Family, cap: int | None, stream: bool) -> dict[str, Any]:
    """Return the fields that the gateway itself sets."""
    own: dict[str, Any] = {} if cap is None else {family.cap_field: cap}
    if stream or (family.max_whole_completion_tokens is not None and needs_stream(family, cap)):
        own["stream"] = True
        if family.asks_stream_usage:
            own["stream_options"] = {"include_usage": True}
    return own


def _gateway_change(name: str, family: Family, stream: bool) -> FieldChange:
    """Return the change of a field of ``_gateway_fields``."""
    if name == "stream" and not stream:
        reason = "a completion of that size is answered as a stream only; the gateway puts it together"
        return FieldChange(name, "set", reason, name_family_rule(family, "max_whole_completion_tokens"))
    if name == "stream":
        return FieldChange(name, "set", "the client asked for a stream", CHAT_BODY)
    if name == "stream_options":
        return FieldChange(name, "set", "usage is asked for in every stream", STREAMING_CHUNK)
    return FieldChange(name, "set", "the effective completion cap", name_family_rule(family, "cap_field"))
