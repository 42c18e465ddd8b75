"""``NativeRequest``: a client's request in the shape of its own API, for providers that speak it. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from msgspec import Struct

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.dialects.http_request import UpstreamRequest
from policies.route import Target

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class NativeRequest(Struct, frozen=True, gc=False):
    """The body of a request as the client wrote it.

    | field | is |
    |---|---|
    | ``body`` | the decoded JSON, with its nulls; a long text in it may be a ``LargeText`` |
    | ``headers`` | those of the client's headers that its API gives a meaning, by their names in lower case |
    | ``has_foreign_reasoning`` | the provider could not decrypt its reasoning, so it goes without |
    """

    body: Mapping[str, Any]
    headers: Mapping[str, str] = NO_HEADERS
    has_foreign_reasoning: bool = False


class NativeDialect(Protocol):
    """The functions of each module in ``NATIVE_DIALECTS``: requests and answers that keep their shape."""

    def request(
        self,
        target: Target,
        native: NativeRequest,
        cap_tokens: int | None,
        *,
        streams: bool,
        hosted_tools: frozenset[str],
    ) -> UpstreamRequest:
        """Build the HTTP request to one target. It names what is left out, in the words of the API.

        ``hosted_tools`` are the tools of the provider's own that may run. Raises Refusal ``validation_failed``.
        """

    def stream(self, context: AnswerContext) -> AnswerReader:
        """Build the reader of a streamed answer."""

    def whole(self, context: AnswerContext, max_bytes: int) -> AnswerReader:
        """Build the reader of a whole answer."""


class TokenCounter(Protocol):
    """The functions of each module in ``TOKEN_COUNTERS``: a provider's own count of a prompt."""

    def request(self, target: Target, native: NativeRequest, hosted_tools: frozenset[str]) -> UpstreamRequest:
        """Build the HTTP request to one target; see ``NativeDialect.request``."""

    def read(self, content: bytes) -> int | None:
        """Return the tokens in an answer, None where it has none."""
