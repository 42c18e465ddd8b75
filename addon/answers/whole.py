"""The reader of a whole answer, and the rewriting of one in OpenAI's shape. Pure.

A rewritten answer keeps its bytes, except for the model's name, the answer's identity, and choices that need a change.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from addon.answers.answer_length import relayed_chars, shows_nothing
from addon.answers.bounds import (
    MINUS_INFINITY,
    BoundExceededError,
    exceeded_bound,
    finite_logprobs,
    parse_bounded,
)
from addon.answers.context import AnswerContext, encode_slug
from addon.answers.normalize.choices import normalize_message_choices
from addon.answers.normalize.finish_reason import last_finish_reason
from addon.answers.normalize.shape import NoChoiceError
from addon.answers.reader import BufferingReader
from addon.answers.usage import parse_usage
from addon.text.errors import ErrorAnswer, is_error_payload, unreadable_answer, upstream_error_in_success
from addon.text.json_edits import apply_edits, identity_edits, model_edits, value_edit
from addon.text.json_encode import encode_json
from policies.usage import Usage

BILLING_NOTE: Final = (
    "The model used completion tokens on this answer but returned no visible text. Those tokens are billed."
)


class Answer(msgspec.Struct, frozen=True, gc=False):
    """One whole answer for the client. ``body`` is empty when there is a ``failure``.

    ``text_chars`` counts the characters of answer, reasoning and tool arguments, for estimates.
    """

    body: bytes
    usage: Usage | None = None
    finish_reason: str | None = None
    failure: ErrorAnswer | None = None
    text_chars: int = 0


def failed(failure: ErrorAnswer) -> Answer:
    """Return an answer that has only a failure."""
    return Answer(b"", failure=failure)


class WholeAnswerReader(BufferingReader):
    """The reader of a whole JSON answer. It sends nothing until it has all bytes and ``read`` has accepted them."""

    def __init__(
        self, read: Callable[[bytes, AnswerContext], Answer], context: AnswerContext, max_bytes: int
    ) -> None:
        self.read, self.context, self.max_bytes, self.body = read, context, max_bytes, bytearray()

    def error_so_far(self) -> ErrorAnswer | None:
        """Return None: the first part of a success reports no error."""

    def feed(self, piece: bytes) -> bytes:
        """Keep ``piece``."""
        if self.failure is None:
            self.body += piece
            self.buffered_bytes = len(self.body)
            if self.buffered_bytes > self.max_bytes:
                self.body.clear()
                self.buffered_bytes = 0
                self.failure = unreadable_answer("it is too large.")
        return b""

    def finish(self) -> bytes:
        """Return the rewritten answer."""
        if self.failure:
            return b""
        body = bytes(self.body)
        if MINUS_INFINITY in body:
            body = finite_logprobs(body)
        self.body.clear()
        self.buffered_bytes = 0
        answer = self.read(body, self.context)
        self.usage, self.finish_reason = answer.usage, answer.finish_reason
        self.failure = answer.failure
        self.relayed_text_chars = answer.text_chars
        self.has_finished = self.is_done = answer.failure is None
        return b"" if answer.failure else answer.body


def decode_answer(body: bytes, context: AnswerContext) -> dict[str, Any] | ErrorAnswer:
    """Return the JSON object that an upstream sent with a 2xx, or the failure of a body that is not an answer.

    White space and a byte order mark before it are allowed.
    """
    try:
        payload = parse_bounded(body.removeprefix(b"\xef\xbb\xbf"))
    except BoundExceededError as error:
        return error.failure
    except ValueError:
        return unreadable_answer("it is not JSON." if body.strip() else "it is empty.")
    if is_error_payload(payload):
        return upstream_error_in_success(payload, names=context.names, secrets=context.secrets)
    if not isinstance(payload, dict):
        return unreadable_answer("it is not a chat completion.")
    return exceeded_bound(payload) or payload


def rewrite_answer(body: bytes, context: AnswerContext) -> Answer:
    """Return the OpenAI-shaped answer of a 2xx, with the catalog slug as its model.

    Source: contract, "Chat completion response".
    """
    payload = decode_answer(body, context)
    if isinstance(payload, ErrorAnswer):
        return failed(payload)
    if not isinstance(given := payload.get("choices"), list) or not given:
        return failed(unreadable_answer("it is not a chat completion."))
    usage = parse_usage(payload, context.family)
    try:
        choices = normalize_message_choices(given, context.family, context.answer_id) or given
        body = _rewritten(body, payload, given, with_billing_notes(choices, usage), context)
    except NoChoiceError as error:
        return failed(unreadable_answer(f"{error}."))
    except ValueError:
        return failed(unreadable_answer("it holds a number that JSON does not have."))
    chars = sum(map(relayed_chars, choices))
    return Answer(body, usage, last_finish_reason(given), text_chars=chars)


def _rewritten(
    body: bytes, payload: dict[str, Any], given: list[Any], choices: list[Any], context: AnswerContext
) -> bytes:
    edits = model_edits(body, payload, encode_slug(context.model_slug), insert=True)
    edits += identity_edits(body, payload, context.answer_id, context.created_s, "chat.completion")
    if choices is not given:
        edits.append(value_edit(body, "choices", encode_json(choices)))
    return apply_edits(body, edits)


def with_billing_notes(choices: list[Any], usage: Usage | None) -> list[Any]:
    """Return ``choices`` with a note in each message that shows nothing: it says why completion tokens are billed.

    Return ``choices`` itself when no message needs a note. Source: contract, "choices[] element".
    """
    if usage is None or (usage.completion_tokens or 0) <= 0:
        return choices
    is_silent = [shows_nothing(choice["message"]) for choice in choices]
    if not any(is_silent):
        return choices
    return [_with_note(choice) if note else choice for choice, note in zip(choices, is_silent, strict=True)]


def _with_note(choice: Mapping[str, Any]) -> dict[str, Any]:
    return {**choice, "message": {**choice["message"], "reasoning_content": BILLING_NOTE}}
