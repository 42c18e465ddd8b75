"""A whole answer is relayed under the catalog slug; besides, only choices that must be put right change. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from addon.answers.bounds import BoundExceededError, exceeded_bound, parse_bounded
from addon.answers.context import Source
from addon.answers.normalize.choices import normalize_message_choices
from addon.answers.text_length import finish_reason, relayed_chars, shows_nothing
from addon.answers.usage import parse_usage
from addon.text.errors import ErrorAnswer, from_upstream_payload, is_error_payload, upstream_garbage
from addon.text.json_edits import apply_edits, identity_edits, model_edits, value_edit
from addon.text.json_encode import json_text
from policies.model import Usage

BILLING_NOTE: Final = (
    "The model used completion tokens on this answer but returned no visible text. Those tokens are billed."
)


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


def failed(failure: ErrorAnswer) -> Answer:
    """Return the answer that is none."""
    return Answer(b"", failure=failure)


def decode_answer(body: bytes, source: Source) -> dict[str, Any] | ErrorAnswer:
    """Return the JSON object that an upstream sent with a 2xx, or why it is no answer.

    White space and a byte order mark may stand in front.
    """
    try:
        payload = parse_bounded(body.removeprefix(b"\xef\xbb\xbf"))
    except BoundExceededError as error:
        return error.failure
    except ValueError:
        return upstream_garbage("it is not JSON." if body.strip() else "it is empty.")
    if is_error_payload(payload):
        return from_upstream_payload(payload, names=source.names, secrets=source.secrets)
    if not isinstance(payload, dict):
        return upstream_garbage("it is not a chat completion.")
    return exceeded_bound(payload) or payload


def rewrite_answer(body: bytes, source: Source) -> Answer:
    """Return an OpenAI-shaped answer of an upstream that said 2xx, under its catalog slug.

    Source: contract, "Chat completion response".
    """
    payload = decode_answer(body, source)
    if isinstance(payload, ErrorAnswer):
        return failed(payload)
    if not isinstance(given := payload.get("choices"), list) or not given:
        return failed(upstream_garbage("it is not a chat completion."))
    choices = normalize_message_choices(given, source.family, source.answer_id) or given
    usage = parse_usage(payload, source.family)
    try:
        body = _rewritten(body, payload, given, with_billing_notes(choices, usage), source)
    except ValueError:
        return failed(upstream_garbage("it holds a number that JSON does not have."))
    chars = sum(map(relayed_chars, choices))
    return Answer(body, usage, finish_reason(given), text_chars=chars)


def _rewritten(
    body: bytes, payload: dict[str, Any], given: list[Any], choices: list[Any], source: Source
) -> bytes:
    edits = model_edits(body, payload, json.dumps(source.model_slug).encode(), insert=True)
    edits += identity_edits(body, payload, source.answer_id, source.created_s, "chat.completion")
    if choices is not given:
        edits.append(value_edit(body, "choices", json_text(choices)))
    return apply_edits(body, edits)


def with_billing_notes(choices: list[Any], usage: Usage | None) -> list[Any]:
    """Explain, in each message that shows nothing, why completion tokens are billed.

    Returns ``choices`` itself where there is nothing to explain. Source: contract, "choices[] element".
    """
    if usage is None or (usage.completion_tokens or 0) <= 0 or not any(map(_is_silent, choices)):
        return choices
    return [_explained(choice) if _is_silent(choice) else choice for choice in choices]


def _is_silent(choice: object) -> bool:
    message = choice.get("message") if isinstance(choice, dict) else None
    return isinstance(message, dict) and shows_nothing(message)


def _explained(choice: Mapping[str, Any]) -> dict[str, Any]:
    return {**choice, "message": {**choice["message"], "reasoning_content": BILLING_NOTE}}
