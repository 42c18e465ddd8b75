"""``Api``: what the way of a call asks of the wire shape that its client speaks. Pure."""

from collections.abc import Mapping
from typing import Any, Protocol

from addon.answers.reader import AnswerReader
from addon.apis.chat.request import ChatRequest
from addon.apis.writer import WriterContext
from addon.text.errors import ErrorAnswer
from addon.text.http_heads import Headers
from policies.model import Serves


class Api(Protocol):
    """The members of each module in ``APIS``."""

    @property
    def NAME(self) -> str:  # noqa: N802  (a constant of a module)
        """The word for it in rows, metrics and documentation."""

    @property
    def NATIVE_DIALECT(self) -> str | None:  # noqa: N802
        """The dialect of ``NATIVE_DIALECTS`` that has the same shape. None for chat, which all go through."""

    @property
    def TAKES_X_API_KEY(self) -> bool:  # noqa: N802
        """Whether a client may send its API key as ``x-api-key``, too."""

    @property
    def ID_FIELDS(self) -> tuple[str, ...]:  # noqa: N802
        """The header fields of an answer that have the id of the call."""

    @property
    def SERVES(self) -> Serves:  # noqa: N802
        """Which models take its requests."""

    FIELD_NAMES: Mapping[str, str]
    """The chat fields that it calls otherwise."""

    def parse(self, body: bytes, headers: Headers, /) -> ChatRequest:
        """Return the request in ``body``. Raises Refusal that names the fields of this API."""

    def prepare(self, request: Mapping[str, Any], /) -> object:
        """Return what an answer in this shape repeats of the body ``request``, for ``WriterContext.prepared``.

        For a large body this takes time, so it is done where the request is made.
        """

    def translate(self, reader: AnswerReader, context: WriterContext, /, *, streams: bool) -> AnswerReader:
        """Return a reader that writes the chat answer of ``reader`` in this shape."""

    def advise(self, error: ErrorAnswer, /) -> ErrorAnswer:
        """Return an error with the advice about another try after which clients of this API do what is right."""

    def error_body(self, error: ErrorAnswer, request_id: str, /) -> bytes:
        """Return an error as the body of an answer."""

    def error_event(
        self, error: ErrorAnswer, request_id: str, context: WriterContext | None, events_sent: int, /
    ) -> bytes:
        """Return an error as the end of a stream in which ``events_sent`` events were sent."""
