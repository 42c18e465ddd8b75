"""A whole answer is relayed under the catalog slug; only the billing note may change another byte. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from addon.errors import NO_NAMES, ErrorAnswer, from_upstream_payload, is_error_payload, upstream_garbage
from addon.message import choice_text_chars, finish_reason, shows_nothing
from addon.splice import Edit, apply_edits, first_member, members, model_edits
from addon.usage import parse_usage
from policies.facts import Usage

BILLING_NOTE = (
    "The model used completion tokens on this answer but returned no visible text. Those tokens are billed."
)
_NOTE = json.dumps(BILLING_NOTE).encode()


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes to the client for one whole answer; ``body`` is empty where there is a ``failure``.

    ``text_chars`` counts answer, reasoning and tool arguments, for estimates.
    """

    body: bytes
    usage: Usage | None = None
    finish_reason: str | None = None
    failure: ErrorAnswer | None = None
    text_chars: int = 0


def rewrite_answer(
    body: bytes, model_slug: str, names: Mapping[str, str] = NO_NAMES, secrets: Sequence[str] = ()
) -> Answer:
    """Return the answer of an upstream that said 2xx, with its top-level model replaced by ``model_slug``.

    White space and a byte order mark in front stay. ``names`` maps upstream model ids to what the client
    may see in their place, in error messages, where ``secrets`` never appear.
    Source: contract, "Chat completion response".
    """
    try:
        payload = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return _failed(upstream_garbage("it is not JSON." if body.strip() else "it is empty."))
    if is_error_payload(payload):
        return _failed(from_upstream_payload(payload, names=names, secrets=secrets))
    if not isinstance(payload, dict) or not isinstance(choices := payload.get("choices"), list):
        return _failed(upstream_garbage("it is not a chat completion."))
    usage = parse_usage(payload)
    edits = model_edits(body, payload, json.dumps(model_slug).encode(), insert=True)
    if usage is not None and usage.completion_tokens:
        edits += _billing_notes(body, choices)
    chars = sum(map(choice_text_chars, choices))
    return Answer(apply_edits(body, edits), usage, finish_reason(choices), text_chars=chars)


def _failed(failure: ErrorAnswer) -> Answer:
    return Answer(b"", failure=failure)


def _billing_notes(body: bytes, choices: list[object]) -> list[Edit]:
    """Explain, in each message that shows nothing, why completion tokens are billed."""
    silent = [index for index, choice in enumerate(choices) if _is_silent(choice)]
    if not silent:
        return []
    spans = list(members(body, _start(body, body.index(b"{"), "choices")))
    messages = (_start(body, spans[index].start, "message") for index in silent)
    return [edit for message in messages for edit in _note_edits(body, message)]


def _is_silent(choice: object) -> bool:
    message = _message(choice)
    return message is not None and shows_nothing(message)


def _message(choice: object) -> dict[str, object] | None:
    message = choice.get("message") if isinstance(choice, dict) else None
    return message if isinstance(message, dict) else None


def _note_edits(body: bytes, message: int) -> Iterator[Edit]:
    present = [m for m in members(body, message) if m.key == "reasoning_content"]
    if not present:
        yield first_member(body, message, "reasoning_content", _NOTE)
    for member in present:
        yield member.start, member.end, _NOTE


def _start(body: bytes, container: int, key: str) -> int:
    """Where the value of ``key`` starts; of duplicates the last, as ``json.loads`` has it."""
    return [member.start for member in members(body, container) if member.key == key][-1]
