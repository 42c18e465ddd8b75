"""The rule for tool calls: they have the form that the official SDK can join. Pure.

- In a stream the calls of a choice are numbered 0, 1, 2 in the order in which they begin. Their provider's numbers do
  not matter.
- The first delta of a call has its id, its type and its arguments as text. Later deltas repeat neither id nor name,
  because the SDK would append them to the first. Harmless members stay: a null id or name, a repeated type.
- An id that is not text, or that an earlier call has, is replaced. The new id is made from the content of the call, so
  it is the same each time.
- Custom calls keep their own body.

Sources: OpenAI's Python SDK, ``lib/streaming/_deltas.py``; recordings of Google (no index, empty id), Ollama and
Mistral (no index), OpenRouter (several whole calls at index 0), xAI (numbers from 1), Azure (``"type": null``),
TGI (ids that are 0, arguments that are objects).
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from addon.answers.normalize.edits import keep_if_same, with_member, without
from addon.text.json_encode import encode_json

_OUTLINE = re.compile(r"""\\.|["\\{}\[\]]""", re.DOTALL)


@dataclass(slots=True)
class Outline:
    """The brackets of JSON text that comes in pieces. It says where an object ends, and keeps no text."""

    depth: int = 0
    has_begun: bool = False
    is_in_string: bool = False
    is_escaping: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether there was a bracket, and all are closed."""
        return self.has_begun and self.depth <= 0 and not self.is_in_string

    def add(self, piece: str) -> None:
        """Take the next piece of the text."""
        if self.is_escaping and piece:
            piece, self.is_escaping = piece[1:], False
        for found in _OUTLINE.finditer(piece):
            mark = found[0]
            if mark == '"':
                self.is_in_string = not self.is_in_string
            elif mark == "\\":
                self.is_escaping = True
            elif not self.is_in_string and mark in "{[]}":
                self.has_begun = True
                self.depth += 1 if mark in "{[" else -1


@dataclass(slots=True)
class _Call:
    given_id: str | None
    name: str | None
    arguments: Outline = field(default_factory=Outline)


class StreamedCalls:
    """The tool calls of one choice of a stream. ``seed`` makes generated ids unique to this choice."""

    def __init__(self, seed: Sequence[object]) -> None:
        self._seed = seed
        self._calls: list[_Call] = []
        self._number_at: dict[int, int] = {}
        self._ids: set[str] = set()
        self._latest = -1
        self.begun = 0
        """How many calls have begun."""

    def deltas(self, deltas: list[Any]) -> list[Any]:
        """Return the well-formed ``tool_calls`` of one delta: the same list when it needs no change."""
        return keep_if_same(deltas, [self._delta(one) if isinstance(one, dict) else one for one in deltas])

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        place = delta.get("index")
        place = place if type(place) is int else None
        given, name = _text(delta.get("id")), _text(_body(delta).get("name"))
        number = self._number(place, given, name)
        if number is None:
            self._latest = number = self.begun
            self._calls.append(begun := _Call(given, name))
            self.begun += 1
            begun.arguments.add(_arguments(delta))
            if place is not None:
                self._number_at[place] = number
            return self._begun(delta, number, given)
        self._latest = number
        call = self._calls[number]
        call.arguments.add(_arguments(delta))
        shows_name = bool(name) and call.name is None
        call.name = call.name or name
        return _continued(delta, number, shows_name=shows_name)

    def _number(self, place: int | None, given: str | None, name: str | None) -> int | None:
        """Return the number of the call that a delta continues, or None when it begins a call."""
        number = self._latest if place is None else self._number_at.get(place, -1)
        if number < 0:
            return None
        call = self._calls[number]
        if given and given != call.given_id:
            # Some servers give each delta an id of its own. There, only an id with a name begins a new call.
            return number if place is not None and not name else None
        if name and not given:
            # Without ids, another name begins a call. The same name begins a new call once the arguments are complete.
            is_new = place is None or (
                call.name is not None and (name != call.name or call.arguments.is_whole)
            )
            return None if is_new else number
        return number

    def _begun(self, delta: dict[str, Any], number: int, given: str | None) -> dict[str, Any]:
        made = with_member(_complete(delta), "index", number)
        call_id = given if given and given not in self._ids else _made_id(self._seed, number, delta)
        self._ids.add(call_id)
        return with_member(made, "id", call_id)


def whole_calls(calls: list[Any], seed: Sequence[object]) -> list[Any]:
    """Return the well-formed ``tool_calls`` of a whole message: the same list when it needs no change."""
    made: list[Any] = []
    ids: set[str] = set()
    for number, call in enumerate(calls):
        if not isinstance(call, dict):
            made.append(call)
            continue
        given = _text(call.get("id"))
        call_id = given if given and given not in ids else _made_id(seed, number, call)
        ids.add(call_id)
        made.append(with_member(_complete(call), "id", call_id))
    return keep_if_same(calls, made)


def with_calls(shown: dict[str, Any], rule: Callable[[list[Any]], list[Any]]) -> dict[str, Any]:
    """Return a message or delta with its calls as ``rule`` makes them. Drop an empty list: clients misread it."""
    calls = shown.get("tool_calls")
    if calls is None:
        return shown
    if not calls:
        return without(shown, "tool_calls")
    return with_member(shown, "tool_calls", rule(calls)) if isinstance(calls, list) else shown


def _complete(call: dict[str, Any]) -> dict[str, Any]:
    """Return the beginning of a call, or a whole call, with its type and with its arguments as text."""
    if not _text(call.get("type")):
        custom = isinstance(call.get("custom"), dict) and not isinstance(call.get("function"), dict)
        call = {**call, "type": "custom" if custom else "function"}
    if call["type"] != "function":
        return call
    body = call.get("function")
    body = body if isinstance(body, dict) else {}
    arguments = body.get("arguments")
    if type(arguments) is str:
        return call
    if arguments is None:  # The name that TGI used once.
        arguments, body = body.get("parameters"), without(body, "parameters")
    return {**call, "function": {**body, "arguments": _argument_text(arguments)}}


def _continued(delta: dict[str, Any], number: int, *, shows_name: bool) -> dict[str, Any]:
    made = with_member(delta, "index", number)
    if made.get("id") is not None:
        made = without(made, "id")
    if "type" in made and not _text(made["type"]):
        made = without(made, "type")
    body = made.get("function")
    if not isinstance(body, dict):
        return made
    if body.get("name") is not None and not shows_name:
        body = without(body, "name")
    if "arguments" in body and type(body["arguments"]) is not str:
        body = {**body, "arguments": _argument_text(body["arguments"])}
    return made if body is made["function"] else {**made, "function": body}


def _body(call: dict[str, Any]) -> dict[str, Any]:
    body = call.get("function") or call.get("custom")
    return body if isinstance(body, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _arguments(delta: dict[str, Any]) -> str:
    return _argument_text(_body(delta).get("arguments"))


def _argument_text(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else encode_json(arguments).decode()


def _made_id(seed: Sequence[object], number: int, call: dict[str, Any]) -> str:
    digest = hashlib.blake2b(encode_json([*seed, number, call]), digest_size=12)
    return f"call_{digest.hexdigest()}"
