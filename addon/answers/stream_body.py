"""The JSON of a stream's events, and of a body that should be a stream and is none. Pure."""

import re
from typing import Final

from addon.answers.bounds import MAX_EVENT_VALUES, BoundExceededError, finite_logprobs, parse_bounded
from addon.answers.context import AnswerContext
from addon.answers.sse import frame, has_field
from addon.text.errors import (
    ErrorAnswer,
    is_error_payload,
    stream_interrupted,
    unreadable_answer,
    upstream_error_in_success,
)
from addon.text.json_encode import encode_json

NOT_JSON: Final = object()
CUT: Final = stream_interrupted()
NOT_UNDERSTOOD: Final = unreadable_answer("an event of its stream is malformed.")

_NO_STREAM: Final = unreadable_answer("it is not an event stream.")
_TRAILING_COMMA = re.compile(rb",\s*\]\s*\Z")
_CHOICES = frozenset({"choices", "candidates"})


def parse_event(payload: bytes) -> object:
    """Return the JSON value, ``NOT_JSON``, or the failure of a value that exceeds a bound."""
    try:
        return parse_bounded(payload, MAX_EVENT_VALUES)
    except BoundExceededError as error:
        return error.failure
    except ValueError:
        return NOT_JSON


def reported_failure(payload: object, context: AnswerContext) -> ErrorAnswer:
    """Return the failure that a provider reports in ``payload``."""
    return upstream_error_in_success(payload, names=context.names, secrets=context.secrets)


def events_of_body(body: bytes, context: AnswerContext) -> list[bytes] | ErrorAnswer:
    """Return the events in an answer that is not an event stream, whatever its content type. Mostly it is an error.

    Some servers send the chunks as one JSON array (Gemini without ``alt=sse``), or a whole answer.
    """
    payload = parse_event(finite_logprobs(_TRAILING_COMMA.sub(b"]", body.removeprefix(b"\xef\xbb\xbf"))))
    if isinstance(payload, ErrorAnswer):
        return payload
    if payload is not NOT_JSON and is_error_payload(payload):
        return reported_failure(payload, context)
    chunks = payload if isinstance(payload, list) else [payload]
    if not chunks or not all(isinstance(chunk, dict) and _CHOICES & chunk.keys() for chunk in chunks):
        return _NO_STREAM if has_field(body) else CUT
    try:
        return [frame(encode_json(chunk)) for chunk in chunks]
    except ValueError:
        return NOT_UNDERSTOOD
