"""The upstream body: the client's fields as the family of the model accepts them. It interprets ``Family``.

Each difference between providers is a line in ``catalog_data/families.toml``. Messages, tools and the completion cap
are never dropped: without them the client would get, or pay for, something else.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from policies.family import RESERVED, Family
from policies.field_change import CHAT_BODY, MESSAGE_OBJECT, STREAMING_CHUNK, FieldChange, name_family_rule
from policies.messages import are_plain, check_roles, remove_cache_control, rewrite_messages
from policies.model import Model
from policies.refusal import Refusal
from policies.schema_prompt import add_schema

# Source: contract, "Chat request body". A family's own clamps have priority.
DEFAULT_CLAMPS: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {"temperature": (0, 2), "top_logprobs": (0, 20)}
    | dict.fromkeys(("presence_penalty", "frequency_penalty"), (-2, 2))
)
# Source: OpenAI, API reference, "Create chat completion" (n). No other vendor allows more.
DEFAULT_N_LIMIT: Final = 128

_OF_TOOLS: Final = frozenset({"tool_choice", "parallel_tool_calls"})
# Fields that depend on another one, or have a form that a family may refuse. The gateway sets the reserved ones itself.
_DEPENDENT: Final = _OF_TOOLS | RESERVED | {"tools", "top_logprobs", "response_format"}
_LIMITED: Final = frozenset({"n", "stop", *DEFAULT_CLAMPS})
_OFF_WORDS: Final = ("none", "auto", "disabled")
_OFF_TYPES: Final = ("disabled", "text")

type _Accepted = tuple[dict[str, Any], list[FieldChange]]


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
    changes = [_model_change(model)]
    agreed, disagreed = _resolve_conflicts(fields, family)
    _check_format(agreed, model)
    changes += disagreed
    for name, value in agreed.items():
        accepted, made = _SPECIAL.get(name, _sanitize_value)(name, value, model)
        body |= accepted
        changes += made
    if _wants_schema_in_prompt(agreed, family):
        role = family.roles.get("system", "system")
        body["messages"] = add_schema(body["messages"], agreed["response_format"], role)
        changes.append(_schema_in_prompt(family))
    own = _gateway_fields(family, cap, stream)
    changes += [_gateway_change(name, family) for name in own]
    body |= own
    return Sanitized(body, lambda: tuple(changes))


def _is_plain(fields: Mapping[str, Any], family: Family) -> bool:
    """Return whether no rule changes or refuses a field."""
    if not (_DEPENDENT.isdisjoint(fields) and family.changed_fields.isdisjoint(fields)):
        return False
    for name, value in fields.items():
        is_limited = name in _LIMITED or name in family.limited_fields
        if is_limited and _clamp_value(name, value, family) != value:
            return False
    return are_plain(fields.get("messages", ()), family)


def _list_changes(
    fields: Mapping[str, Any], model: Model, cap: int | None, stream: bool
) -> tuple[FieldChange, ...]:
    return sanitize_by_field(fields, model, cap, stream).changes


def count_choices(fields: Mapping[str, Any], family: Family) -> int:
    """Return how many choices the upstream is asked for: ``n`` as it is sent."""
    if "n" not in fields or "n" in family.drops:
        return 1
    return int(_clamp_value("n", fields["n"], family))


# --- fields that depend on each other ---------------------------------------------------------------------------


def _resolve_conflicts(fields: Mapping[str, Any], family: Family) -> tuple[dict[str, Any], list[FieldChange]]:
    """Return the fields that can be sent together, and the changes to the other ones."""
    agreed: dict[str, Any] = {}
    changes = []
    for name, value in fields.items():
        if needs := _without_use(name, value, fields):
            changes.append(FieldChange(name, "dropped", f"it has no effect without {needs}", CHAT_BODY))
        elif name in family.drops:
            reason = f"{family.name} does not take {name}"
            changes.append(FieldChange(name, "dropped", reason, name_family_rule(family, "drops")))
        elif name not in RESERVED:
            agreed[name] = value
    for cause, implied in family.implies.items():
        if _is_on(agreed.get(cause)):
            agreed |= implied
            reason, source = (
                f"{family.name} wants it so with {cause}",
                name_family_rule(family, "implies", cause),
            )
            changes += [FieldChange(name, "set", reason, source) for name in implied]
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


def _check_format(fields: Mapping[str, Any], model: Model) -> None:
    asked = fields.get("response_format") or {}
    refuses = model.family.response_formats.get("with_tools") == "refused"
    if refuses and fields.get("tools") and asked.get("type", "text") != "text":
        reason = f"response_format: {model.slug} does not take '{asked['type']}' together with tools."
        raise Refusal("validation_failed", reason, "response_format")


def _is_on(value: Any) -> bool:
    """Return whether a field is on. Any number is on, also zero."""
    if isinstance(value, Mapping):
        return bool(value) and value.get("type") not in _OFF_TYPES
    if isinstance(value, int | float) and not isinstance(value, bool):
        return True
    return bool(value) and value not in _OFF_WORDS


def _model_change(model: Model) -> FieldChange:
    """Return the change of ``model``. The name of a model outside the catalog contains the id."""
    source = f'models.toml ["{model.slug}"] upstream_model_id' if _is_listed(model) else CHAT_BODY
    return FieldChange("model", "set", f"{model.slug} is {model.upstream_model_id} upstream", source)


def _is_listed(model: Model) -> bool:
    return model.max_completion_tokens is not None


def _gateway_fields(family: Family, cap: int | None, stream: bool) -> dict[str, Any]:
    """Return the fields that the gateway itself sets."""
    own: dict[str, Any] = {} if cap is None else {family.cap_field: cap}
    if stream:
        own["stream"] = True
        if family.asks_stream_usage:
            own["stream_options"] = {"include_usage": True}
    return own


def _gateway_change(name: str, family: Family) -> FieldChange:
    """Return the change of a field of ``_gateway_fields``."""
    if name == "stream":
        return FieldChange(name, "set", "the client asked for a stream", CHAT_BODY)
    if name == "stream_options":
        return FieldChange(name, "set", "usage is asked for in every stream", STREAMING_CHUNK)
    return FieldChange(name, "set", "the effective completion cap", name_family_rule(family, "cap_field"))


# --- one field -------------------------------------------------------------------------------------------------


def _sanitize_value(name: str, value: Any, model: Model) -> _Accepted:
    """Return a field with its value limited, under the name that the family has for it."""
    family = model.family
    changes = []
    limited = _clamp_value(name, value, family)
    if limited != value and isinstance(value, str):
        source = name_family_rule(family, "values", f"{name}.{value}")
        changes.append(FieldChange(name, "renamed", f"{family.name} takes {limited} for {value}", source))
    elif limited != value:
        changes.append(_clamped(name, family))
    sent_as = family.renames.get(name, name)
    if sent_as != name:
        source = name_family_rule(family, "renames", name)
        changes.append(FieldChange(name, "renamed", f"{family.name} calls it {sent_as}", source))
    return {sent_as: limited}, changes or [_kept(name, family)]


def _sanitize_messages(name: str, value: Any, model: Model) -> _Accepted:
    if _is_listed(model):  # The roles of a model outside the catalog are unknown.
        check_roles(value, model.family)
    sent, changes = rewrite_messages(value, model.family)
    return {name: sent}, changes or [_kept(name, model.family)]


def _sanitize_tools(name: str, value: Any, model: Model) -> _Accepted:
    for index, tool in enumerate(value):
        if tool["type"] not in model.family.tool_types:
            field = f"{name}.{index}.type"
            taken = " or ".join(f"'{kind}'" for kind in model.family.tool_types)
            raise Refusal("validation_failed", f"{field}: {model.slug} takes tools of type {taken}.", field)
    sent = value if "cache_control" in model.family.message_extra else remove_cache_control(value)
    if sent is value:
        return {name: value}, [_kept(name, model.family)]
    reason, source = f"{model.family.name} does not take it", name_family_rule(model.family, "message_extra")
    return {name: sent}, [FieldChange(f"{name}.cache_control", "dropped", reason, source)]


def _sanitize_tool_choice(name: str, value: Any, model: Model) -> _Accepted:
    forms = model.family.tool_choices
    form = value if isinstance(value, str) else "named"
    sent = forms.get(form, form)
    if sent == "refused":
        taken = " or ".join(
            f"'{other}'" for other in ("auto", "none", "required") if forms.get(other) != "refused"
        )
        asked = f"'{form}'" if isinstance(value, str) else "a function's name"
        raise Refusal("validation_failed", f"{name}: {model.slug} does not take {asked}; use {taken}.", name)
    if sent == form:
        return {name: value}, [_kept(name, model.family)]
    source = name_family_rule(model.family, "tool_choices", form)
    return {name: sent}, [
        FieldChange(name, "renamed", f"{model.family.name} takes {sent} for {form}", source)
    ]


def _sanitize_response_format(name: str, value: Any, model: Model) -> _Accepted:
    form = value.get("type")
    sent = model.family.response_formats.get(form, form)
    if sent == "refused":
        raise Refusal("validation_failed", f"{name}: {model.slug} does not take '{form}'.", name)
    source = name_family_rule(model.family, "response_formats", form)
    if sent == "in_prompt":
        reason = f"{model.family.name} takes json_object, and gets the schema in the prompt"
        return {name: {"type": "json_object"}}, [FieldChange(name, "renamed", reason, source)]
    if sent == "dropped":
        return {}, [FieldChange(name, "dropped", f"{model.family.name} does not take {form}", source)]
    if sent == form:
        return {name: value}, [_kept(name, model.family)]
    reason = f"{model.family.name} takes {sent} for {form}"
    return {name: {"type": sent}}, [FieldChange(name, "renamed", reason, source)]


_SPECIAL: Final[Mapping[str, Callable[[str, Any, Model], _Accepted]]] = MappingProxyType(
    {
        "messages": _sanitize_messages,
        "tools": _sanitize_tools,
        "tool_choice": _sanitize_tool_choice,
        "response_format": _sanitize_response_format,
    }
)


def _kept(name: str, family: Family) -> FieldChange:
    source = MESSAGE_OBJECT if name == "messages" else CHAT_BODY
    if name in family.extra:
        source = name_family_rule(family, "extra")
    return FieldChange(name, "kept", f"{family.name} takes it as it is", source)


def _clamped(name: str, family: Family) -> FieldChange:
    """Return the change that ``_clamp_value`` makes."""
    if name == "stop":
        reason, source = f"takes {family.stop_limit} of them at most", name_family_rule(family, "stop_limit")
    elif name == "n":
        reason, source = f"takes {_n_limit(family)} at most", name_family_rule(family, "n_limit")
    else:
        lowest, highest = family.clamps.get(name) or DEFAULT_CLAMPS[name]
        source = name_family_rule(family, "clamps", name) if name in family.clamps else CHAT_BODY
        reason = f"takes {lowest:g} to {highest:g}"
    return FieldChange(name, "clamped", f"{family.name} {reason}", source)


def _clamp_value(name: str, value: Any, family: Family) -> Any:
    if name == "stop" and family.stop_limit is not None and isinstance(value, list):
        return value[: family.stop_limit]
    if name == "n":
        return min(value, _n_limit(family))
    if isinstance(value, str):
        return family.values.get(name, {}).get(value, value)
    clamp = family.clamps.get(name, DEFAULT_CLAMPS.get(name))
    # Fields beyond the contract are not validated. Only numbers can be clamped.
    return _clamp_number(value, *clamp) if clamp and isinstance(value, int | float) else value


def _n_limit(family: Family) -> int:
    return DEFAULT_N_LIMIT if family.n_limit is None else family.n_limit


def _clamp_number(value: float, lowest: float, highest: float) -> float:
    if lowest <= value <= highest:
        return value
    bound = lowest if value < lowest else highest
    # An integral bound becomes an int, because top_logprobs must be an integer upstream.
    return int(bound) if float(bound).is_integer() else bound
