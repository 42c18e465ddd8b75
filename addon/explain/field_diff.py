"""What a dialect makes of each field of a sanitized body: it is asked again without it, and the two are compared. Pure.

No table says what a dialect leaves out, so none can be wrong: what is told here is what it did.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from addon.dialects import DIALECTS
from policies.field_change import Action, Change
from policies.model import Attempt

_URL: Final = "the URL"
_CAPS: Final = ("max_tokens", "max_completion_tokens")
_PROBE: Final = ({"role": "user", "content": "probe"},)
# Without one of these a conversation is another one, or none.
_STRUCTURE: Final = frozenset({"role", "content", "tool_calls", "tool_call_id"})

type _Flat = Mapping[str, Any]


def translations(attempt: Attempt, body: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return what became of the fields of ``body`` that don't go upstream as they stand there, and what was added.

    Raises what the dialect raises.
    """
    sent = _sent(attempt, body)
    touched: set[str] = {"model"}
    changes = []
    for name, variant in _variants(body):
        try:
            other = _sent(attempt, variant)
        except Exception:  # noqa: BLE001  (a body that nobody sent need not be one that a dialect understands)
            touched |= sent.keys()  # Nobody can tell what of it is the field's.
            continue
        differing = {path for path in sent.keys() | other.keys() if sent.get(path) != other.get(path)}
        touched |= differing
        if change := _change(name, body, sent, differing, attempt):
            changes.append(change)
    added = {path.partition(".")[0] for path in sent.keys() - touched - {_URL}}
    changes += [_told(name, "set", "adds it", attempt) for name in sorted(added)]
    return tuple(changes)


def _variants(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give for each field a body that differs in it alone; ``messages`` and a cap may not be missing."""
    messages = body["messages"]
    for name, value in body.items():
        if name in _CAPS:
            yield name, {**body, name: value + 1}
        elif name == "messages":
            yield name, {**body, name: list(_PROBE)}
        elif name != "model":
            yield name, {other: body[other] for other in body if other != name}
    for name in sorted({name for message in messages for name in message} - _STRUCTURE):
        bare = [{other: message[other] for other in message if other != name} for message in messages]
        yield f"messages.{name}", {**body, "messages": bare}


def _sent(attempt: Attempt, body: Mapping[str, Any]) -> _Flat:
    request = DIALECTS[attempt.model.provider.dialect].request(attempt, dict(body))
    return {_URL: request.url} | dict(_flat(json.loads(request.content)))


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Give each leaf of nested objects with its dotted path; an array is a leaf, and so is an empty object."""
    for name, member in value.items():
        if isinstance(member, dict) and member:
            yield from _flat(member, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", member


def _change(
    name: str, body: Mapping[str, Any], sent: _Flat, differing: set[str], attempt: Attempt
) -> Change | None:
    if not differing:
        return _told(name, "dropped", "sends nothing for it", attempt)
    there = [path for path in sent if path in differing]
    if not there:
        return _told(name, "dropped", f"leaves out {_names(differing)} for it", attempt)
    field = name.partition(".")[0]
    if {path.partition(".")[0] for path in there} != {field}:
        return _told(name, "renamed", f"sends it as {_names(there)}", attempt)
    if field != name or dict(_flat({name: body[name]})).items() <= sent.items():
        return None
    return _told(name, "renamed", "sends it in a shape of its own", attempt)


def _names(paths: Iterable[str]) -> str:
    """Two steps into an object say enough."""
    return ", ".join(dict.fromkeys(".".join(path.split(".")[:2]) for path in paths))


def _told(name: str, action: Action, does: str, attempt: Attempt) -> Change:
    provider = attempt.model.provider
    reason = f"the dialect {provider.dialect} {does}"
    return Change(name, action, reason, f"providers.toml [{provider.name}] dialect")
