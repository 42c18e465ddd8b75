"""Checks of messages and tools in OpenAI's chat shape, for ``Rule.refuses``."""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rig.vendors.rules import Asked, Check, Values

type Message = Mapping[str, Any]


def messages(asked: Asked) -> Sequence[Message]:
    return asked.body.get("messages") or ()


def parts(asked: Asked) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield each content part with the index of its message."""
    for index, message in enumerate(messages(asked)):
        if isinstance(content := message.get("content"), list):
            yield from ((index, part) for part in content)


def each_message(refuses: Callable[[Message], bool]) -> Check:
    """Refuse a message of this kind."""
    return lambda asked: next(
        (
            {"index": index, "role": message["role"]}
            for index, message in enumerate(messages(asked))
            if refuses(message)
        ),
        None,
    )


def role_other_than(*roles: str) -> Check:
    return each_message(lambda message: message["role"] not in roles)


def role_after(role: str, *previous: str) -> Check:
    """Refuse a message of this role right after one of the ``previous`` roles."""

    def check(asked: Asked) -> Values | None:
        said = [message["role"] for message in messages(asked)]
        pairs = itertools.pairwise(said)
        return next(
            (
                {"role": now, "previous": before}
                for before, now in pairs
                if now == role and before in previous
            ),
            None,
        )

    return check


def late_system(asked: Asked) -> Values | None:
    """Refuse a system message after one of another role."""
    said = [message["role"] for message in messages(asked)]
    first = next((index for index, role in enumerate(said) if role != "system"), len(said))
    return {"role": "system"} if "system" in said[first:] else None


def several_system(asked: Asked) -> Values | None:
    return {} if [message["role"] for message in messages(asked)].count("system") > 1 else None


def no_user(asked: Asked) -> Values | None:
    return None if any(message["role"] in ("user", "tool") for message in messages(asked)) else {}


def last_role(role: str, but: str = "") -> Check:
    """Refuse a last message of this role, unless its field ``but`` is true."""

    def check(asked: Asked) -> Values | None:
        last = messages(asked)[-1]
        return {"role": role} if last["role"] == role and not (but and last.get(but)) else None

    return check


def unanswered_call(asked: Asked) -> Values | None:
    """Refuse a tool call whose result is not among the tool messages right after it."""
    said = messages(asked)
    for index, message in enumerate(said):
        calls = [call["id"] for call in message.get("tool_calls") or ()]
        rest = said[index + 1 :]
        end = next((at for at, later in enumerate(rest) if later["role"] != "tool"), len(rest))
        answered = {later.get("tool_call_id") for later in rest[:end]}
        if lost := [one for one in calls if one not in answered]:
            return {"ids": ", ".join(lost), "index": index}
    return None


def result_without_call(asked: Asked) -> Values | None:
    """Refuse a tool message that answers no call before it."""
    known: set[str] = set()
    for index, message in enumerate(messages(asked)):
        known |= {call["id"] for call in message.get("tool_calls") or ()}
        if message["role"] == "tool" and message.get("tool_call_id") not in known:
            return {"index": index, "id": message.get("tool_call_id")}
    return None


def empty(role: str) -> Check:
    """Refuse a message of a role without any content or call."""
    return each_message(
        lambda message: (
            message["role"] == role and not message.get("content") and not message.get("tool_calls")
        )
    )


def empty_text_part(asked: Asked) -> Values | None:
    return next(
        (
            {"index": at}
            for at, part in parts(asked)
            if part.get("text") is not None and not part["text"].strip()
        ),
        None,
    )


def image(asked: Asked) -> Values | None:
    """Refuse pictures."""
    kinds = ("image_url", "video_url", "input_image")
    return next(
        ({"index": at, "kind": part["type"]} for at, part in parts(asked) if part.get("type") in kinds), None
    )


def image_by_url(asked: Asked) -> Values | None:
    """Refuse pictures that are not in the request."""
    found = [part["image_url"] for _, part in parts(asked) if part.get("type") == "image_url"]
    urls = [one["url"] if isinstance(one, Mapping) else one for one in found]
    return next(({"value": url} for url in urls if url.startswith("http")), None)


def message_field(name: str, *roles: str) -> Check:
    """Refuse a field of messages, of these roles or of all."""
    return each_message(
        lambda message: message.get(name) is not None and (not roles or message["role"] in roles)
    )


def message_field_beyond(**allowed: tuple[str, ...]) -> Check:
    """Refuse fields of a message beyond those of its role."""

    def check(asked: Asked) -> Values | None:
        for index, message in enumerate(messages(asked)):
            known = {"role", "content", *allowed.get(message["role"], ())}
            for name in message.keys() - known:
                return {"index": index, "role": message["role"], "field": name, "value": message[name]}
        return None

    return check


def calls_without(name: str) -> Check:
    """Refuse an assistant message with tool calls that lacks a field."""
    return each_message(lambda message: bool(message.get("tool_calls")) and message.get(name) is None)


def call_id(refused: Callable[[str], bool]) -> Check:
    """Refuse an id of a tool call."""

    def check(asked: Asked) -> Values | None:
        for index, message in enumerate(messages(asked)):
            for one in message.get("tool_calls") or ():
                if refused(one["id"]):
                    return {"id": one["id"], "index": index, "length": len(one["id"])}
        return None

    return check


def arguments_not_json(asked: Asked) -> Values | None:
    for message in messages(asked):
        for one in message.get("tool_calls") or ():
            try:
                json.loads(one["function"]["arguments"])
            except ValueError:
                return {"id": one["id"]}
    return None


def word_missing(word: str) -> Check:
    """Refuse messages that do not have this word in any case."""
    return lambda asked: None if word in json.dumps(asked.body["messages"]).lower() else {}


# --- tools ----------------------------------------------------------------------------------------------------------


def functions(asked: Asked) -> list[Mapping[str, Any]]:
    return [tool.get("function") or {} for tool in asked.body.get("tools") or ()]


def each_function(refuses: Callable[[Mapping[str, Any]], bool]) -> Check:
    """Refuse a function of this kind."""
    return lambda asked: next(
        (
            {"index": index, "name": one.get("name"), "length": len(one.get("name") or "")}
            for index, one in enumerate(functions(asked))
            if refuses(one)
        ),
        None,
    )


def tool_name_beyond(pattern: str) -> Check:
    """Refuse a function whose name does not match."""
    return each_function(lambda one: re.fullmatch(pattern, one["name"]) is None)


def tools_above(highest: int) -> Check:
    return lambda asked: (
        {"value": len(found), "limit": highest} if len(found := functions(asked)) > highest else None
    )


def no_parameters(one: Mapping[str, Any]) -> bool:
    return one.get("parameters") is None


def root_not_object(one: Mapping[str, Any]) -> bool:
    """Return whether a function has parameters whose schema is not of type object."""
    schema = one.get("parameters")
    return schema is not None and schema.get("type") != "object"


def has_boolean_schema(one: Mapping[str, Any]) -> bool:
    properties = (one.get("parameters") or {}).get("properties") or {}
    return any(isinstance(schema, bool) for schema in properties.values())


def tool_choice(*forms: str) -> Check:
    """Refuse these forms of ``tool_choice``: auto, none, any, required, named."""

    def check(asked: Asked) -> Values | None:
        choice = asked.body.get("tool_choice")
        form = "named" if isinstance(choice, Mapping) else choice
        return {"form": {"named": "specified"}.get(form, form)} if form in forms else None

    return check


def has_tools(asked: Asked) -> Values | None:
    return {} if asked.body.get("tools") else None


def response_format(*kinds: str) -> Check:
    """Refuse these types of ``response_format``."""

    def check(asked: Asked) -> Values | None:
        kind = (asked.body.get("response_format") or {}).get("type")
        return {"kind": kind} if kind in kinds else None

    return check


def mixed_strict(asked: Asked) -> Values | None:
    """Refuse tools of which some are strict."""
    return {} if len({bool(one.get("strict")) for one in functions(asked)}) > 1 else None
