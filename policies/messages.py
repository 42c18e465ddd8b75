"""The messages of a request as the models of a family accept them: each message, in its order, with all its content.

The client's values are never changed. A message, part or call that must differ is copied. Every other one stays the
same object. Source: contract, "Message object".
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import count
from operator import is_
from typing import Any, Final

from policies.family import Family
from policies.field_change import MESSAGE_OBJECT, Action, FieldChange, name_family_rule
from policies.refusal import Refusal

type Message = Mapping[str, Any]

# Clients that collect a call from a stream send its index back, and every recorded vendor accepts it.
_CALL_FIELDS: Final = frozenset({"id", "type", "function", "custom", "index"})
_NEW_ID_CHARS: Final = 32
_COMPARED_CHARS: Final = 32
_MAX_NAMED: Final = 1_000
_CACHE_CONTROL: Final = "cache_control"
_IMAGE_URL: Final = "image_url"

BETWEEN_RESULTS_AND_USER: Final = "OK."
"""What the assistant says between the results of tools and a message of the user, where a vendor wants that."""


def are_plain(messages: Sequence[Message], family: Family) -> bool:
    """Return whether no rule changes or refuses a message: each is one text of a known role."""
    fields, roles = family.plain_message_fields, family.plain_roles
    for message in messages:
        if message["role"] not in roles or not isinstance(message.get("content"), str):
            return False
        if not message.keys() <= fields or None in message.values():
            return False
    return True


def rewrite_messages(messages: Sequence[Message], family: Family) -> tuple[list[Message], list[FieldChange]]:
    """Return the messages that go upstream, and the changes to their fields."""
    rewriter = _MessageRewriter(messages, family)
    rewritten = [rewriter.message(message) for message in messages]
    changes = list(rewriter.changes.values())
    if family.separates_results and len(separated := _separate_results(rewritten)) > len(rewritten):
        reason = f"{family.name} wants a message of the assistant after results of tools"
        changes.append(FieldChange("messages", "set", reason, name_family_rule(family, "separates_results")))
        rewritten = separated
    return rewritten, changes


def _separate_results(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with one of the assistant between the results of tools and a message of the user."""
    separated: list[Message] = []
    for message in messages:
        if message["role"] == "user" and separated and separated[-1]["role"] == "tool":
            separated.append({"role": "assistant", "content": BETWEEN_RESULTS_AND_USER})
        separated.append(message)
    return separated


def order_tool_results(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages with the results of tools right after the calls; the same object where they are there.

    Strict servers want them so, but some clients put other messages between. An id that was used again means its last
    call. A result whose call is not there keeps its place.
    """
    caller: dict[Any, int] = {}
    results: dict[int, list[Message]] = {}
    others: list[tuple[int, Message]] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool" and (at := caller.get(message.get("tool_call_id"))) is not None:
            results[at].append(message)
            continue
        others.append((index, message))
        if calls := message.get("tool_calls"):
            caller |= {call["id"]: index for call in calls}
            results[index] = []
    ordered = [one for index, message in others for one in (message, *results.get(index, ()))]
    return messages if all(map(is_, ordered, messages)) else ordered


def check_roles(messages: Sequence[Message], family: Family) -> None:
    """Raise Refusal ``validation_failed``, naming each message, for roles that the family does not know.

    Source: contract, "Message object" (role).
    """
    known = family.known_roles
    wrong = [index for index, message in enumerate(messages) if message["role"] not in known]
    if wrong:
        raise _unknown_roles(wrong, messages[wrong[0]]["role"], sorted(known))


def _unknown_roles(wrong: Sequence[int], first: str, known: Sequence[str]) -> Refusal:
    """Return the refusal. It repeats no role, because that may be any text.

    Only the beginning of a role is compared, because the comparison takes quadratic time.
    """
    near = get_close_matches(first[:_COMPARED_CHARS].strip().lower(), known, n=1, cutoff=0.4)
    wanted = f"Input should be one of {', '.join(known)}" + (f"; did you mean '{near[0]}'?" if near else "")
    fields = [f"messages.{index}.role" for index in wrong[:_MAX_NAMED]]
    more = [f"{len(wrong) - _MAX_NAMED} more"] if len(wrong) > _MAX_NAMED else []
    also = f"; also {', '.join([*fields[1:], *more])}" if len(wrong) > 1 else ""
    return Refusal(
        "validation_failed", f"{fields[0]}: {wanted}{also}", fields[0] if len(wrong) == 1 else None
    )


def remove_cache_control(things: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return content parts or tools without their ``cache_control``; the same object where there is none."""
    for thing in things:
        if _CACHE_CONTROL in thing:
            return [{name: part[name] for name in part if name != _CACHE_CONTROL} for part in things]
    return things


def convert_image_urls(parts: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return content parts with each ``image_url`` as an object; the same parts where each is one already.

    The API wants an object, but some clients send the URL itself.
    """
    if not any(isinstance(part.get(_IMAGE_URL), str) for part in parts):
        return parts
    return [
        {**part, _IMAGE_URL: {"url": part[_IMAGE_URL]}} if isinstance(part.get(_IMAGE_URL), str) else part
        for part in parts
    ]


class _MessageRewriter:
    """Rewrites the messages of one request. ``changes`` has each field once, even if many messages have it."""

    def __init__(self, messages: Sequence[Message], family: Family) -> None:
        self.changes: dict[str, FieldChange] = {}
        self._family = family
        self._fields = family.message_fields
        self._call_fields = _CALL_FIELDS | family.message_extra
        self._ids = _new_ids(messages, family)
        self._system_is_over = False

    def message(self, message: Message) -> Message:
        rewritten = self._role(message["role"])
        if isinstance(content := message.get("content"), list):
            rewritten |= self._content(content)
        if "tool_calls" in message:
            rewritten |= self._calls(message)
        if self._ids and (call_id := message.get("tool_call_id")) in self._ids:
            rewritten["tool_call_id"] = self._ids[call_id]
        if (
            not rewritten
            and message.keys() <= self._family.unchanged_message_fields
            and None not in message.values()
        ):
            return message
        said = {name: message[name] for name in self._said(message)} | rewritten
        return {self._family.message_renames.get(name, name): value for name, value in said.items()}

    def _said(self, message: Message) -> Iterator[str]:
        """Yield the fields that go upstream. A null is the same as an absent field, but ``content`` may be required."""
        for name, value in message.items():
            if name not in self._fields and value is not None:
                key = "message_drops" if name in self._family.message_drops else "message_extra"
                self._note(name, "dropped", "does not take it in messages", key)
            elif name == "content" or value is not None:
                if (sent_as := self._family.message_renames.get(name, name)) != name:
                    self._note(name, "renamed", f"calls it {sent_as}", "message_renames", name)
                yield name

    def _role(self, given: str) -> dict[str, Any]:
        role = self._family.roles.get(given, given)
        rule: tuple[str, ...] = ("roles", given)
        is_late, self._system_is_over = self._system_is_over, role != "system" or self._system_is_over
        if role == "system" and self._family.one_system_message:
            self._system_is_over = True
        if role == "system" and is_late and self._family.late_system_role not in (None, role):
            role, rule = self._family.late_system_role, ("late_system_role",)
        if role == given:
            return {}
        self._note("role", "renamed", f"takes {role} for {given}", *rule)
        return {"role": role}

    def _content(self, parts: list[Any]) -> dict[str, Any]:
        if self._family.joins_text_parts and all(part["type"] == "text" for part in parts):
            self._note("content", "renamed", "takes text as one string", "joins_text_parts")
            return {"content": "\n".join(str(part.get("text", "")) for part in parts)}
        sent: Sequence[Any] = convert_image_urls(parts)
        if sent is not parts:
            reason = "the URL of an image is sent in an object"
            self.changes["content.image_url"] = FieldChange(
                "messages.content.image_url", "renamed", reason, MESSAGE_OBJECT
            )
        if (
            _CACHE_CONTROL not in self._family.message_extra
            and (bare := remove_cache_control(sent)) is not sent
        ):
            self._note(
                f"content.{_CACHE_CONTROL}", "dropped", "does not take it in messages", "message_extra"
            )
            sent = bare
        return {} if sent is parts else {"content": sent}

    def _calls(self, message: Message) -> dict[str, Any]:
        rewritten: dict[str, Any] = {}
        calls = message["tool_calls"] or ()
        for call in calls:
            if call["id"] in self._ids or not call.keys() <= self._call_fields:
                rewritten["tool_calls"] = [self._call(call) for call in calls]
                break
        if calls and self._family.needs_reasoning_content and message.get("reasoning_content") is None:
            self._note("reasoning_content", "set", "wants it with tool calls", "needs_reasoning_content")
            rewritten["reasoning_content"] = ""
        return rewritten

    def _call(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        sent = {name: value for name, value in call.items() if name in self._call_fields}
        for name in call.keys() - sent.keys():
            self._note(f"tool_calls.{name}", "dropped", "does not take it in messages", "message_extra")
        if call["id"] in self._ids:
            is_exact = self._family.tool_call_id_chars is not None
            key = "tool_call_id_chars" if is_exact else "tool_call_id_limit"
            self._note("tool_calls.id", "renamed", "does not take such an id", key)
            sent["id"] = self._ids[call["id"]]
        return sent

    def _note(self, name: str, action: Action, reason: str, key: str, entry: str | None = None) -> None:
        source = name_family_rule(self._family, key, entry)
        self.changes[name] = FieldChange(f"messages.{name}", action, f"{self._family.name} {reason}", source)


def _new_ids(messages: Sequence[Message], family: Family) -> dict[str, str]:
    """Return a new, unique id for every id of a tool call that the family does not accept.

    The new ids depend on the old ones only, so the next turn of the conversation has the same new ids.
    """
    if (chars := family.tool_call_id_chars) is not None:
        fits = re.compile(f"[A-Za-z0-9]{{{chars}}}")
    elif (limit := family.tool_call_id_limit) is not None:
        fits, chars = re.compile(f"(?s:.{{0,{limit}}})"), _NEW_ID_CHARS
    else:
        return {}
    given = dict.fromkeys(_ids(messages))
    taken = {call_id for call_id in given if fits.fullmatch(call_id)}
    new_ids = {}
    for call_id in [call_id for call_id in given if call_id not in taken]:
        new_ids[call_id] = next(new for new in _candidates(call_id, chars) if new not in taken)
        taken.add(new_ids[call_id])
    return new_ids


def _candidates(call_id: str, chars: int) -> Iterator[str]:
    for number in count():
        yield hashlib.sha256(f"{number} {call_id}".encode(errors="surrogatepass")).hexdigest()[:chars]


def _ids(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        for call in message.get("tool_calls") or ():
            yield call["id"]
        if (result_of := message.get("tool_call_id")) is not None:
            yield result_of
