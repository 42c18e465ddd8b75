"""The Responses API, ``POST /v1/responses``, without state. Pure."""

from typing import Final

from msgspec.structs import replace

from addon.answers.reader import AnswerReader
from addon.apis.chat.request import ChatRequest, make_chat_request
from addon.apis.responses.answer import ResponsesWriter, write_whole
from addon.apis.responses.errors import advise, error_body, error_event
from addon.apis.responses.request import RESPONSES_NAMES, to_chat
from addon.apis.responses.response import prepare
from addon.apis.responses.schema import validate
from addon.apis.translated_reader import TranslatedStreamReader, TranslatedWholeReader
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

NAME: Final = "responses"
NATIVE_DIALECT: Final = "responses"
SERVES: Final = "chat"
TAKES_X_API_KEY: Final = False
FIELD_NAMES: Final = RESPONSES_NAMES
ID_FIELDS: Final[tuple[str, ...]] = ("x-request-id",)


def parse(body: bytes, _headers: Headers) -> ChatRequest:
    """Return the request in ``body``. Raises Refusal that names the fields of this API."""
    decoded, large = decode_large_object(body)
    validate(decoded)
    made = to_chat(decoded)
    native = NativeRequest(decoded)
    chat = make_chat_request(
        made.body, large, len(body), native, made.untranslated, made.obstacle, made.sources
    )
    # OpenAI has this field in the place of `user` now.
    return replace(chat, end_user=chat.end_user or made.body.get("safety_identifier"))


def translate(reader: AnswerReader, context: WriterContext, *, streams: bool) -> AnswerReader:
    """Return a reader that writes the chat answer of ``reader`` in this shape."""
    if streams:
        return TranslatedStreamReader(reader, ResponsesWriter(context))
    return TranslatedWholeReader(reader, write_whole, context)
