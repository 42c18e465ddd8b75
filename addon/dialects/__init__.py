"""The wire shapes that providers speak: one module a shape, each with the same three functions. Pure.

``request`` builds the request. ``stream`` and ``whole`` build the reader of the answer. Errors need no dialect:
``addon/text/provider_error.py`` finds the message in any body.
"""

from typing import Any, Protocol

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.dialects import openai, openai_embeddings
from addon.dialects.anthropic import count_tokens as anthropic_counter
from addon.dialects.anthropic import dialect as anthropic
from addon.dialects.anthropic import native as native_anthropic
from addon.dialects.bedrock import dialect as bedrock
from addon.dialects.gemini import dialect as gemini
from addon.dialects.http_request import UpstreamRequest
from addon.dialects.native_request import NativeDialect, TokenCounter
from addon.dialects.responses import dialect as responses
from addon.dialects.responses import native as native_responses
from policies.route import Target


class Dialect(Protocol):
    """The functions of each module in ``DIALECTS``."""

    def request(self, target: Target, body: dict[str, Any]) -> UpstreamRequest:
        """Build the HTTP request to one target from a sanitized chat body.

        Raises Refusal ``validation_failed`` for a field that the shape can't express.
        """

    def stream(self, context: AnswerContext) -> AnswerReader:
        """Build the reader of a streamed answer."""

    def whole(self, context: AnswerContext, max_bytes: int) -> AnswerReader:
        """Build the reader of a whole answer."""


DIALECTS: dict[str, Dialect] = {
    "openai": openai,
    "anthropic": anthropic,
    "gemini": gemini,
    "bedrock": bedrock,
    "responses": responses,
}

NATIVE_DIALECTS: dict[str, NativeDialect] = {
    "anthropic": native_anthropic,
    "responses": native_responses,
    "openai": openai_embeddings,
}
"""The dialects in whose shape a client's own API is, so that bodies and answers keep it: of OpenAI's, embeddings."""

TOKEN_COUNTERS: dict[str, TokenCounter] = {"anthropic": anthropic_counter}
"""The dialects of ``NATIVE_DIALECTS`` whose providers count the tokens of a prompt."""
