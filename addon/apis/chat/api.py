"""The chat API: its answers are those that every dialect's reader makes. Pure. Source: contract."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from addon.answers.reader import AnswerReader
from addon.apis.chat.request import parse_chat_request
from addon.apis.writer import WriterContext
from addon.text.errors import ErrorAnswer

NAME: Final = "chat"
NATIVE_DIALECT: Final = None
SERVES: Final = "chat"
TAKES_X_API_KEY: Final = False
FIELD_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
ID_FIELDS: Final[tuple[str, ...]] = ("x-request-id",)


parse = parse_chat_request
"""Return the chat request in a body. Its headers say nothing of it."""


def prepare(_request: Mapping[str, Any]) -> None:
    """Do nothing: no answer repeats its request."""


def translate(reader: AnswerReader, _context: WriterContext, *, streams: bool) -> AnswerReader:  # noqa: ARG001
    """Return ``reader``: its answer has this shape."""
    return reader


def advise(error: ErrorAnswer) -> ErrorAnswer:
    """Return the error as it is."""
    return error


def error_body(error: ErrorAnswer, _request_id: str) -> bytes:
    """Return the nested error object of the contract."""
    return error.body()


def error_event(
    error: ErrorAnswer, _request_id: str, _context: WriterContext | None, _events_sent: int
) -> bytes:
    """Return the same object as an event."""
    return error.sse_event()
