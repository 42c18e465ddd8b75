"""The Messages API on the way of a call. Pure. Source: Anthropic, API reference, "Create a Message", "Streaming"."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from addon.answers.reader import AnswerReader
from addon.apis.chat.request import ChatRequest
from addon.apis.messages import errors
from addon.apis.messages.answer import MessagesWriter, write_whole
from addon.apis.messages.parse import parse_messages
from addon.apis.messages.request import MESSAGES_NAMES
from addon.apis.translated_reader import TranslatedStreamReader, TranslatedWholeReader
from addon.apis.writer import WriterContext
from addon.text.errors import ErrorAnswer
from addon.text.http_heads import Headers

NAME: Final = "messages"
NATIVE_DIALECT: Final = "anthropic"
SERVES: Final = "chat"
TAKES_X_API_KEY: Final = True
FIELD_NAMES: Final = MESSAGES_NAMES
ID_FIELDS: Final[tuple[str, ...]] = ("x-request-id", "request-id")


def parse(body: bytes, headers: Headers) -> ChatRequest:
    """Return the chat request of the Messages request in ``body``. Raises Refusal."""
    return parse_messages(body, headers)


def prepare(_request: Mapping[str, Any]) -> None:
    """Do nothing: an answer repeats no part of its request that takes time."""


def translate(reader: AnswerReader, context: WriterContext, *, streams: bool) -> AnswerReader:
    """Return a reader that writes the chat answer of ``reader`` in this shape."""
    if streams:
        return TranslatedStreamReader(reader, MessagesWriter(context))
    return TranslatedWholeReader(reader, write_whole, context)


def advise(error: ErrorAnswer) -> ErrorAnswer:
    """Return an error with the advice to let it be where a key is wrong: Claude Code repeats a 401 for minutes."""
    return replace(error, should_retry=False) if error.status == 401 else error


def error_body(error: ErrorAnswer, request_id: str) -> bytes:
    """Return an error as Anthropic words it."""
    return errors.error_body(error, request_id)


def error_event(
    error: ErrorAnswer, request_id: str, _context: WriterContext | None, _events_sent: int
) -> bytes:
    """Return an error as the last event of a stream, whatever came before it."""
    return errors.error_event(error, request_id)
