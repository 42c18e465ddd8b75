"""The embeddings API: its requests and answers keep their shape, and errors are those of the contract. Pure."""

from typing import Any, Final

from addon.answers.reader import AnswerReader
from addon.apis.chat.api import FIELD_NAMES, advise, error_body, error_event, prepare
from addon.apis.chat.request import ChatRequest
from addon.apis.chat.schema import METADATA
from addon.apis.embeddings.schema import validate
from addon.apis.writer import WriterContext
from addon.dialects.native_request import NativeRequest
from addon.text.http_heads import Headers
from addon.text.json_decode import decode_large_object

__all__ = [
    "FIELD_NAMES",
    "ID_FIELDS",
    "NAME",
    "NATIVE_DIALECT",
    "SERVES",
    "TAKES_X_API_KEY",
    "advise",
    "error_body",
    "error_event",
    "parse",
    "prepare",
    "translate",
]

NAME: Final = "embeddings"
NATIVE_DIALECT: Final = "openai"
SERVES: Final = "embeddings"
TAKES_X_API_KEY: Final = False
ID_FIELDS: Final[tuple[str, ...]] = ("x-request-id",)
ROLE: Final = "input"
"""The role of a text to embed, as operators' own policies see it. No routing rule reads it."""
_ELSEWHERE: Final = ("model", "A provider that does not speak OpenAI's API makes no embeddings here.")


def parse(body: bytes, _headers: Headers) -> ChatRequest:
    """Return the request in ``body``; a null is the same as an absent key. Raises Refusal ``validation_failed``."""
    decoded, large = decode_large_object(body)
    given = {name: value for name, value in decoded.items() if value is not None}
    validate(given)
    return ChatRequest(
        model=given["model"],
        stream=False,
        include_usage=False,
        requested_cap=None,
        end_user=given.get("user"),
        fields={"messages": _as_messages(given["input"])},
        extras={METADATA: given[METADATA]} if METADATA in given else {},
        large=large,
        body_bytes=len(body),
        native=NativeRequest(given),
        obstacle=_ELSEWHERE,
    )


def _as_messages(texts: str | list[Any]) -> list[dict[str, Any]]:
    """Return the texts of an input as messages. Tokens can't be read."""
    listed = [texts] if isinstance(texts, str) else texts
    return [{"role": ROLE, "content": text} for text in listed if isinstance(text, str)]


def translate(reader: AnswerReader, _context: WriterContext, *, streams: bool) -> AnswerReader:  # noqa: ARG001
    """Return ``reader``: no answer has another shape."""
    return reader
