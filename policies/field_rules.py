"""The rules for one field of a request: its value, its name, and the forms that a family refuses.

They interpret ``Family``.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from policies.family import Family
from policies.field_change import CHAT_BODY, MESSAGE_OBJECT, FieldChange, name_family_rule
from policies.function_tools import fit_functions
from policies.messages import (
    are_plain,
    check_roles,
    order_tool_results,
    remove_cache_control,
    rewrite_messages,
)
from policies.model import Model
from policies.refusal import Refusal

# Source: contract, "Chat request body". A family's own clamps have priority.
DEFAULT_CLAMPS: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {"temperature": (0, 2), "top_logprobs": (0, 20)}
    | dict.fromkeys(("presence_penalty", "frequency_penalty"), (-2, 2))
)
# Source: OpenAI, API reference, "Create chat completion" (n). No other vendor allows more.
DEFAULT_N_LIMIT: Final = 128

LIMITED: Final = frozenset({"n", "stop", *DEFAULT_CLAMPS})
"""The fields whose values are limited for each family."""

type Accepted = tuple[dict[str, Any], list[FieldChange]]


def count_choices(fields: Mapping[str, Any], family: Family) -> int:
    """Return how many choices the upstream is asked for: ``n`` as it is sent."""
    if "n" not in fields or "n" in family.drops:
        return 1
    return int(clamp_value("n", fields["n"], family))


def is_listed(model: Model) -> bool:
    """Return whether a model is one of the catalog."""
    return model.max_completion_tokens is not None


def sanitize_field(name: str, value: Any, model: Model) -> Accepted:
    """Return what is sent for a field, by name, and the changes to it. Raises Refusal ``validation_failed``."""
    return _SPECIAL.get(name, _sanitize_value)(name, value, model)


def _sanitize_value(name: str, value: Any, model: Model) -> Accepted:
    """Return a field with its value limited, under the name that the family has for it."""
    family = model.family
    changes = []
    limited = clamp_value(name, value, family)
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


def _sanitize_messages(name: str, value: Any, model: Model) -> Accepted:
    if are_plain(value, model.family):
        return {name: value}, [_kept(name, model.family)]
    if is_listed(model):  # The roles of a model outside the catalog are unknown.
        check_roles(value, model.family)
    ordered = order_tool_results(value)
    sent, changes = rewrite_messages(ordered, model.family)
    if ordered is not value:
        reason = "the results of tools follow their calls, as strict servers want them"
        changes.append(FieldChange(name, "set", reason, MESSAGE_OBJECT))
    return {name: sent}, changes or [_kept(name, model.family)]


def _sanitize_tools(name: str, value: Any, model: Model) -> Accepted:
    for index, tool in enumerate(value):
        if tool["type"] not in model.family.tool_types:
            field = f"{name}.{index}.type"
            taken = " or ".join(f"'{kind}'" for kind in model.family.tool_types)
            raise Refusal("validation_failed", f"{field}: {model.slug} takes tools of type {taken}.", field)
    sent = value if "cache_control" in model.family.message_extra else remove_cache_control(value)
    changes = []
    if sent is not value:
        reason, source = (
            f"{model.family.name} does not take it",
            name_family_rule(model.family, "message_extra"),
        )
        changes.append(FieldChange(f"{name}.cache_control", "dropped", reason, source))
    sent, fitted = fit_functions(sent, model.family)
    return {name: sent}, [*changes, *fitted] or [_kept(name, model.family)]


def _sanitize_tool_choice(name: str, value: Any, model: Model) -> Accepted:
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


def _sanitize_response_format(name: str, value: Any, model: Model) -> Accepted:
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


_SPECIAL: Final[Mapping[str, Callable[[str, Any, Model], Accepted]]] = MappingProxyType(
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
    """Return the change that ``clamp_value`` makes."""
    if name == "stop":
        reason, source = f"takes {family.stop_limit} of them at most", name_family_rule(family, "stop_limit")
    elif name == "n":
        reason, source = f"takes {_n_limit(family)} at most", name_family_rule(family, "n_limit")
    else:
        lowest, highest = family.clamps.get(name) or DEFAULT_CLAMPS[name]
        source = name_family_rule(family, "clamps", name) if name in family.clamps else CHAT_BODY
        reason = f"takes {lowest:g} to {highest:g}"
    return FieldChange(name, "clamped", f"{family.name} {reason}", source)


def clamp_value(name: str, value: Any, family: Family) -> Any:
    """Return the value that a family takes for a field."""
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
