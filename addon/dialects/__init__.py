"""The wire shapes that providers speak: one module a shape, each with the same three functions. Pure.

``request`` makes what is sent; ``stream`` and ``whole`` make the reader of what comes back. Errors need no dialect:
``addon/text/provider_error.py`` finds the sentence in whatever body there is.
"""

from typing import Any, Protocol

from addon.answers.context import Source
from addon.answers.readers import Relay
from addon.dialects import openai
from addon.dialects.anthropic import dialect as anthropic
from addon.dialects.gemini import dialect as gemini
from addon.dialects.http_request import UpstreamRequest
from policies.model import Attempt


class Dialect(Protocol):
    """What every module of this package that is named in ``DIALECTS`` offers."""

    def request(self, attempt: Attempt, body: dict[str, Any]) -> UpstreamRequest:
        """Make the HTTP request of one attempt from a sanitized chat body.

        Raises Refusal ``validation_failed`` for what the shape has no place for.
        """

    def stream(self, source: Source) -> Relay:
        """Make the reader of a streamed answer."""

    def whole(self, source: Source, max_bytes: int) -> Relay:
        """Make the reader of a whole answer."""


DIALECTS: dict[str, Dialect] = {"openai": openai, "anthropic": anthropic, "gemini": gemini}
