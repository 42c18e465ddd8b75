"""Strict vendors: what each refuses, in a table with the source of every line, and how it words its refusal.

The tables are written from the vendors' own pages and from public threads, never from ``catalog_data``: the two are held
against each other in ``tests/vendors``. Nothing here imports the gateway. A line marks in its source how sure it is
where it is not: ``(inferred)``.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any
from urllib.parse import unquote

type Values = Mapping[str, Any]
"""What a check found: the values for the message of its rule."""
type Check = Callable[["Asked"], Values | None]
type Body = Mapping[str, Any]

IMAGE_TOKENS = 1_000
NO_WINDOW = 2**62


@dataclass(frozen=True)
class Asked:
    """One request as its vendor sees it. ``cap_tokens`` is None where it names no cap."""

    model: str
    body: Body
    streams: bool
    window_tokens: int = NO_WINDOW
    cap_tokens: int | None = None

    @cached_property
    def prompt_tokens(self) -> int:
        """The vendor's count: a token for each word. The texts of the tests are plain English."""
        return sum(_count(self.body.get(name)) for name in _PROMPT)


_PROMPT = (
    "messages",
    "input",
    "instructions",
    "system",
    "tools",
    "contents",
    "systemInstruction",
    "toolConfig",
)
_PICTURES = ("data:", "http")


def _count(value: Any) -> int:
    if isinstance(value, str):
        return IMAGE_TOKENS if value.startswith(_PICTURES) else len(value.split())
    if isinstance(value, Mapping):
        return sum(_count(one) for one in value.values())
    return sum(_count(one) for one in value) if isinstance(value, list) else 0


@dataclass(frozen=True)
class Rule:
    """A line of a vendor's table. ``models`` are patterns of its own model ids, separated by blanks.

    ``message`` is the vendor's text, with the values that ``refuses`` found. ``more`` are members of its error body, such as
    ``param`` and ``code``.
    """

    models: str
    refuses: Check
    message: str
    source: str
    status: int = 400
    more: Values = field(default_factory=dict)

    def applies_to(self, model: str) -> bool:
        return any(fnmatchcase(model, pattern) for pattern in self.models.split())


@dataclass(frozen=True)
class Found:
    """A refusal before it is worded: ``fields`` are the rule's ``more`` and what its check found."""

    rule: Rule
    message: str
    fields: Values


type Wording = Callable[[Found], Any]


@dataclass(frozen=True)
class Vendor:
    """One API of one vendor.

    ``windows`` are the tokens of its models' contexts by pattern, the first that fits. ``cap_at`` are the places of the cap
    in a body. ``wording`` makes the error body. ``read`` finds the model and the wish for a stream in a request.
    """

    name: str
    rules: tuple[Rule, ...]
    wording: Wording
    windows: Values
    cap_at: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    read: Callable[[str, Body], tuple[str, bool]] = lambda _path, body: (
        str(body.get("model")),
        bool(body.get("stream")),
    )

    def window_of(self, model: str) -> int:
        """Return the tokens of a model's context."""
        return next((size for name, size in self.windows.items() if fnmatchcase(model, name)), NO_WINDOW)

    def asked(self, path: str, body: Body) -> Asked:
        model, streams = self.read(path, body)
        window = self.window_of(model)
        caps = [cap for place in self.cap_at if (cap := at(body, place)) is not None]
        return Asked(model, body, streams, window, caps[0] if caps else None)


def at(body: Body, place: str) -> Any:
    """Return the value at a dotted path, None where there is none."""
    value: Any = body
    for name in place.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def find_refusal(vendor: Vendor, path: str, body: Body) -> Found | None:
    """Return the first rule that refuses a request, with its message."""
    asked = vendor.asked(path, body)
    for rule in vendor.rules:
        if rule.applies_to(asked.model) and (found := rule.refuses(asked)) is not None:
            values = {"model": asked.model, **found}
            message = re.sub(
                r"\{(\w+)\}", lambda match, given=values: str(given.get(match[1], match[0])), rule.message
            )
            return Found(rule, message, {**found, **rule.more})
    return None


def refusal(vendor: Vendor, path: str, content: bytes) -> tuple[int, Any] | None:
    """Return the status and the error body with which a vendor refuses a request, None where it takes it."""
    found = find_refusal(vendor, path, json.loads(content))
    return found and (found.rule.status, vendor.wording(found))


def openai_error(**defaults: Any) -> Wording:
    """Return the wording ``{"error": {message, type, param, code}}``; ``defaults`` are members that lines leave out."""
    members = {"type": "invalid_request_error", **defaults}

    def word(found: Found) -> Any:
        said = {name: found.fields[name] for name in ("type", "param", "code") if name in found.fields}
        return {"error": {"message": found.message, **members, **said}}

    return word


def path_model(pattern: str, stream: str) -> Callable[[str, Body], tuple[str, bool]]:
    """Return a reader of the model in a path: the first group of ``pattern``. ``stream`` is in the path of a stream."""

    def read(path: str, _body: Body) -> tuple[str, bool]:
        match = re.search(pattern, path)
        assert match, path
        return unquote(match[1]), stream in path

    return read


# --- checks of fields -------------------------------------------------------------------------------------------


def sent(*places: str) -> Check:
    """Refuse any value of these fields."""
    return lambda asked: next(
        (
            {"field": place, "value": value}
            for place in places
            if (value := at(asked.body, place)) is not None
        ),
        None,
    )


def unknown(*allowed: str) -> Check:
    """Refuse fields of the body beyond these. ``stream`` and ``model`` are always allowed."""
    known = {"model", "messages", "stream", *allowed}
    return lambda asked: next(
        ({"field": name, "value": asked.body[name]} for name in asked.body if name not in known), None
    )


def given(place: str, *values: Any) -> Check:
    """Refuse these values of a field."""
    return lambda asked: (
        {"field": place, "value": value}
        if (value := at(asked.body, place)) in values and value is not None
        else None
    )


def other_than(place: str, *values: Any) -> Check:
    """Refuse every value of a field but these."""
    return lambda asked: (
        {"field": place, "value": value}
        if (value := at(asked.body, place)) is not None and value not in values
        else None
    )


def outside(place: str, lowest: float, highest: float) -> Check:
    """Refuse numbers of a field that are lower or higher than these."""
    return lambda asked: (
        {"field": place, "value": value, "limit": highest}
        if (value := at(asked.body, place)) is not None and not lowest <= value <= highest
        else None
    )


def above(place: str, highest: float) -> Check:
    """Refuse numbers of a field that are higher than this."""
    return outside(place, float("-inf"), highest)


def more_than(place: str, highest: int) -> Check:
    """Refuse lists of a field that are longer than this."""
    return lambda asked: (
        {"field": place, "value": len(value), "limit": highest}
        if isinstance(value := at(asked.body, place), list) and len(value) > highest
        else None
    )


def together(*places: str) -> Check:
    """Refuse these fields where all of them are sent."""
    return all_of(*(sent(place) for place in places))


def all_of(*checks: Check) -> Check:
    """Refuse what each of these checks refuses."""

    def check(asked: Asked) -> Values | None:
        merged: dict[str, Any] = {}
        for one in checks:
            if (found := one(asked)) is None:
                return None
            merged |= found
        return merged

    return check


def but_not(check: Check, exception: Check) -> Check:
    """Refuse what ``check`` refuses, where ``exception`` does not."""
    return lambda asked: None if exception(asked) is not None else check(asked)


def without(check: Check) -> Check:
    """Refuse what ``check`` takes."""
    return lambda asked: {} if check(asked) is None else None


def streamed(asked: Asked) -> Values | None:
    return {} if asked.streams else None


# --- checks of caps and windows -----------------------------------------------------------------------------------


def cap_above(highest: int) -> Check:
    return lambda asked: (
        {"cap": asked.cap_tokens, "limit": highest, "above": highest + 1}
        if asked.cap_tokens is not None and asked.cap_tokens > highest
        else None
    )


def whole_cap_above(highest: int) -> Check:
    """Refuse a cap that only a stream may have."""
    return all_of(without(streamed), cap_above(highest))


def prompt_above_window(asked: Asked) -> Values | None:
    window = asked.window_tokens
    return {"prompt": asked.prompt_tokens, "window": window} if asked.prompt_tokens > window else None


def prompt_and_cap_above_window(asked: Asked) -> Values | None:
    """Refuse a prompt and a cap that are larger than the window together. Without a cap, the prompt alone counts."""
    window, cap = asked.window_tokens, asked.cap_tokens or 0
    total = asked.prompt_tokens + cap
    return (
        {"prompt": asked.prompt_tokens, "window": window, "cap": cap, "total": total}
        if total > window
        else None
    )


def prompt_above(highest: int) -> Check:
    return lambda asked: (
        {"prompt": asked.prompt_tokens, "limit": highest} if asked.prompt_tokens > highest else None
    )


# --- helpers of tables --------------------------------------------------------------------------------------------


def rules(lines: Iterable[Rule | Iterable[Rule]]) -> tuple[Rule, ...]:
    """Return the rules of a table, some of which are made in groups."""
    return tuple(_flat(lines))


def _flat(lines: Iterable[Rule | Iterable[Rule]]) -> Iterator[Rule]:
    for line in lines:
        if isinstance(line, Rule):
            yield line
        else:
            yield from line
