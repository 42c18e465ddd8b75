"""What goes upstream is what the model's family accepts: one small interpreter of ``Family``, no other rule.

A difference between providers is a line in ``catalog_data/families.toml``. Messages, tools and the token cap
always go upstream: to drop them in silence would change what the client asked, or what it pays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from policies.facts import Family, Model

Action = Literal["kept", "clamped", "dropped", "renamed", "set"]

# Source: contract, "Chat request body". A family's own clamps stand before these.
DEFAULT_CLAMPS: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {
        "temperature": (0, 2),
        "presence_penalty": (-2, 2),
        "frequency_penalty": (-2, 2),
        "top_logprobs": (0, 20),
    }
)
# Source: OpenAI, API reference, "Create chat completion" (n), which no other vendor exceeds.
DEFAULT_N_LIMIT: Final = 128
NEVER_DROPPED: Final = frozenset({"messages", "tools", "tool_choice"})
# Source: contract, "Message object".
MESSAGE_FIELDS: Final = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
# Ours alone: whatever a client said about them was decided before, and reaches this module as an argument.
RESERVED: Final = frozenset({"model", "max_tokens", "max_completion_tokens", "stream", "stream_options"})


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one field of the client's, or which field of ours was added."""

    field: str
    action: Action
    reason: str


@dataclass(frozen=True, slots=True)
class Sanitized:
    """``body`` goes upstream; ``changes`` says how it came about, at least one entry a field."""

    body: dict[str, Any]
    changes: tuple[Change, ...]


def sanitize(fields: Mapping[str, Any], model: Model, cap: int, stream: bool) -> Sanitized:
    """Return the upstream body for a client's validated, known, non-null fields (and the family's extra ones).

    ``cap`` in tokens is sent in the one field that the family wants; a cap, model or stream in ``fields`` is
    passed over. Neither ``fields`` nor what is in it is changed. Source: contract, "Chat request body".
    """
    body: dict[str, Any] = {"model": model.upstream_model_id}
    changes = [Change("model", "set", f"{model.slug} is {model.upstream_model_id} upstream")]
    for name, value in fields.items():
        if name not in RESERVED:
            accepted, made = _accept(name, value, model.family)
            body |= accepted
            changes += made
    ours = _ours(model.family, cap, stream)
    changes += [Change(name, "set", reason) for name, (_, reason) in ours.items()]
    body |= {name: value for name, (value, _) in ours.items()}
    return Sanitized(body, tuple(changes))


def choices_sent(fields: Mapping[str, Any], family: Family) -> int:
    """Return how many choices are asked of the upstream: ``n`` as it is sent."""
    asked, _ = _accept("n", fields.get("n", 1), family)
    return int(asked.get("n", 1))


def check_family(family: Family) -> None:
    """Raise ValueError, naming the fields, for a family that touches what no family may."""
    touched = family.drops | family.clamps.keys() | family.renames.keys() | set(family.renames.values())
    renamed = family.renames.keys() | set(family.renames.values())
    # What is held for a call is counted by ``n``, so ``n`` must be what it is called.
    if wrong := sorted((touched | family.extra) & (NEVER_DROPPED | RESERVED) | renamed & {"n"}):
        raise ValueError(f"family {family.name} may not drop, clamp, rename or add {', '.join(wrong)}")
    dropped = family.message_drops | {name for names in family.conflicts.values() for name in names}
    held = NEVER_DROPPED | RESERVED | {"n", *MESSAGE_FIELDS}
    if wrong := sorted(dropped & held - {"name"}):
        raise ValueError(f"family {family.name} may not drop {', '.join(wrong)}")
    if wrong := sorted(family.message_extra & MESSAGE_FIELDS):
        raise ValueError(
            f"family {family.name} may not add {', '.join(wrong)} to messages: it is there already"
        )


def _ours(family: Family, cap: int, stream: bool) -> dict[str, tuple[Any, str]]:
    ours: dict[str, tuple[Any, str]] = {family.cap_field: (cap, "the effective completion cap")}
    if stream:
        ours["stream"] = (True, "the client asked for a stream")
        if family.asks_stream_usage:
            ours["stream_options"] = ({"include_usage": True}, "usage is asked for in every stream")
    return ours


def _accept(name: str, value: Any, family: Family) -> tuple[dict[str, Any], list[Change]]:
    """Return what of one field goes upstream, and how."""
    if name in family.drops:
        return {}, [Change(name, "dropped", f"{family.name} does not take {name}")]
    changes = []
    limited = _limit(name, value, family)
    if limited != value:
        changes.append(Change(name, "clamped", f"{family.name} takes less of {name} than was asked"))
    sent_as = family.renames.get(name, name)
    if sent_as != name:
        changes.append(Change(name, "renamed", f"{family.name} calls it {sent_as}"))
    return {sent_as: limited}, changes or [Change(name, "kept", f"{family.name} takes it as it is")]


def _limit(name: str, value: Any, family: Family) -> Any:
    if name == "stop" and family.stop_limit is not None and isinstance(value, list):
        return value[: family.stop_limit]
    if name == "n":
        return min(value, DEFAULT_N_LIMIT if family.n_limit is None else family.n_limit)
    clamp = family.clamps.get(name, DEFAULT_CLAMPS.get(name))
    return value if clamp is None else _clamp(value, *clamp)


def _clamp(value: float, lowest: float, highest: float) -> float:
    if lowest <= value <= highest:
        return value
    bound = lowest if value < lowest else highest
    # A whole bound stays whole, because top_logprobs must be an integer upstream.
    return int(bound) if float(bound).is_integer() else bound
