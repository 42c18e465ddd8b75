"""The difference that each field of a sanitized body makes to the body that a dialect sends. Pure.

The dialect runs once with the whole body, and once without each field. The two results are compared. So no table has to
list what a dialect leaves out, and no such table can be wrong.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from addon.dialects import DIALECTS
from policies.dialect_choice import name_dialect_rule
from policies.family import CAP_FIELDS
from policies.field_change import Action, FieldChange
from policies.route import Target

_URL: Final = "the URL"
_PROBE: Final = ({"role": "user", "content": "probe"},)
# Without one of these, a conversation is a different one or invalid.
_STRUCTURE: Final = frozenset({"role", "content", "tool_calls", "tool_call_id"})

type _Flat = Mapping[str, Any]


def diff_fields(target: Target, body: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    """Return a change for each field of ``body`` that a dialect changes or drops, and for each that it adds.

    Raises the exceptions of the dialect.
    """
    sent = _sent(target, body)
    touched: set[str] = {"model"}
    changes = []
    for name, variant in _variants(body):
        try:
            other = _sent(target, variant)
        except Exception:  # noqa: BLE001  (the dialect need not understand a body that no client sent)
            touched |= sent.keys()  # The part that the field makes is unknown.
            continue
        differing = {path for path in sent.keys() | other.keys() if sent.get(path) != other.get(path)}
        touched |= differing
        if change := _change(name, body, sent, differing, target):
            changes.append(change)
    added = {path.partition(".")[0] for path in sent.keys() - touched - {_URL}}
    changes += [_change_by_dialect(name, "set", "adds it", target) for name in sorted(added)]
    return tuple(changes)


def _variants(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield for each field a body that differs in that field only. ``messages`` and a cap are changed, not removed."""
    messages = body["messages"]
    for name, value in body.items():
        if name in CAP_FIELDS:
            yield name, {**body, name: value + 1}
        elif name == "messages":
            yield name, {**body, name: list(_PROBE)}
        elif name != "model":
            yield name, {other: body[other] for other in body if other != name}
    for name in sorted({name for message in messages for name in message} - _STRUCTURE):
        bare = [{other: message[other] for other in message if other != name} for message in messages]
        yield f"messages.{name}", {**body, "messages": bare}


def _sent(target: Target, body: Mapping[str, Any]) -> _Flat:
    request = DIALECTS[target.model.dialect].request(target, dict(body))
    return {_URL: request.url} | dict(_flat(json.loads(request.content)))


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each leaf of nested objects with its dotted path. Arrays and empty objects are leaves."""
    for name, member in value.items():
        if isinstance(member, dict) and member:
            yield from _flat(member, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", member


def _change(
    name: str, body: Mapping[str, Any], sent: _Flat, differing: set[str], target: Target
) -> FieldChange | None:
    present = [path for path in sent if path in differing]
    if not differing:
        # Another field may ask for the same, as parallel_tool_calls does for a tool_choice of auto.
        present = [path for path in sent if path.partition(".")[0] == name]
        if not present:
            return _change_by_dialect(name, "dropped", "sends nothing for it", target)
    if not present:
        return _change_by_dialect(name, "dropped", f"leaves out {_names(differing)} for it", target)
    field = name.partition(".")[0]
    if _is_cut(body.get(name), [sent[path] for path in present]):
        return _change_by_dialect(name, "clamped", f"sends only a part of it as {_names(present)}", target)
    if {path.partition(".")[0] for path in present} != {field}:
        return _change_by_dialect(name, "renamed", f"sends it as {_names(present)}", target)
    if field != name or dict(_flat({name: body[name]})).items() <= sent.items():
        return None
    return _change_by_dialect(name, "renamed", "sends it in a shape of its own", target)


def _is_cut(given: object, values: Sequence[object]) -> bool:
    """Return whether a list of texts is sent with fewer of them."""
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        return False
    return all(isinstance(value, list) and len(value) < len(given) for value in values)


def _names(paths: Iterable[str]) -> str:
    """Return the paths in words, each cut to its first two names."""
    return ", ".join(dict.fromkeys(".".join(path.split(".")[:2]) for path in paths))


def _change_by_dialect(name: str, action: Action, does: str, target: Target) -> FieldChange:
    reason = f"the dialect {target.model.dialect} {does}"
    return FieldChange(name, action, reason, name_dialect_rule(target.model))
